"""Sequences from files in CNTK's text format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.batch.check import float_type
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.checks import whole
from headrace.errors import DataError
from headrace.formats.ctf_index import CtfFile, check_alike, open_ctf, warn_of_absent, warn_of_repeats
from headrace.formats.ctf_schema import CtfStream, alias_of, check_streams
from headrace.formats.ctf_survey import Survey, survey
from headrace.formats.files import Paths, find_files
from headrace.formats.files_source import FilesSource
from headrace.formats.mistakes import Mistakes, tell_once
from headrace.formats.parsed import join_parsed
from headrace.formats.sequences import Parsed, ParseWarning, Place, SequenceSource, SequenceStream, checked_records
from headrace.formats.sidecar import IndexMode, check_index_mode
from headrace.formats.source import Fingerprint


class CtfSource(FilesSource, SequenceSource):
    r"""The sequences of files in CNTK's text format, in the order of the files.

    Where lines begin with ids, neighbouring lines with one id are a sequence; else each line is one. The index is kept
    beside each plain file as a sidecar; gzip and Zstandard files are unpacked and indexed each time they are opened.
    Files may not be written to while they are in use: every read first looks whether they have been, and refuses if so.

    Args:
        files: A path, a glob pattern, or a list of those. Either all have ids or none has.
        streams: The streams to read, by name; others in the files are passed over.
        skip_ids: Each line is a record, whatever it begins with.
        dtype: Type of the values, `"float32"` or `"float64"`.
        require_all: A sequence without a sample of some stream is malformed; else it is of length 0 there.
        strict: Refuse files in which an id comes again, apart from its sequence.
        index: As for `TextSource`.
        max_errors: 0 reports mistakes when they are read. With more, all sequences are looked at when the files are
            opened; mistakes up to this number are left out, with the sequences that lose their only sample of a stream
            by them, and one more is an error.

    Raises:
        OSError: If a file can't be found or opened.
        DataError: If a file is not in the format as a whole, has repeated ids while `strict`, or too many mistakes.
        PlanError: If the streams contradict each other.
        ValueError: If an argument is out of range.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import headrace as hr
        >>> from headrace.formats.ctf import CtfSource
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "a.ctf")
        >>> _ = path.write_text("7 |x 1 2 |y 3:1\n7 |x 3 4\n8 |x 5 6 |y 0:1\n")
        >>> source = CtfSource(path, {"x": hr.dense(2), "y": hr.sparse(9)})
        >>> source.keys().tolist(), source.sizes.tolist()
        ([7, 8], [2, 1])
        >>> source.read(np.array([0]))["x"].tolist()
        [[[1.0, 2.0], [3.0, 4.0]]]
        >>> folder.cleanup()
    """

    kind = "ctf"
    _files: list[CtfFile]
    _settings = (
        "_declared", "_dtype", "_skip_ids", "_require_all", "_strict", "_max_errors", "_used", "_warnings",
    )  # fmt: skip

    def __init__(
        self,
        files: Paths,
        streams: Mapping[str, CtfStream],
        *,
        skip_ids: bool = False,
        dtype: DTypeLike = "float32",
        require_all: bool = False,
        strict: bool = False,
        index: IndexMode = "auto",
        max_errors: int = 0,
    ) -> None:
        check_index_mode(index)
        self._declared = check_streams(streams)
        self._dtype = float_type(dtype)
        self._skip_ids = bool(skip_ids)
        self._require_all = bool(require_all)
        self._strict = bool(strict)
        self._index: IndexMode = index
        self._max_errors = whole("max_errors", max_errors, 0)
        self._used: NDArray[np.int64] | None = None  # records that aren't left out; None: all
        self._open(find_files(files))
        found = warn_of_repeats(self._files)
        if found and self._strict:
            raise DataError(found[0].message.replace("; each is read as a sequence of its own", ""))
        if not require_all:  # which makes an error of it
            found += warn_of_absent(self._files, {name: alias_of(name, s) for name, s in self._declared.items()})
        if self._max_errors:
            self._leave_out(found)
        self._warnings = tuple(found)

    def _open(self, paths: list[str]) -> None:
        main = next((name for name, stream in self._declared.items() if stream.defines_size), None)
        alias = "" if main is None else alias_of(main, self._declared[main])
        names = list(self._declared)
        self._schema = [(alias_of(name, s), s.sparse, s.dim) for name, s in self._declared.items()]
        self._files = [open_ctf(path, skip_ids=self._skip_ids, main=alias, index=self._index) for path in paths]
        check_alike(self._files)
        self._readers = [
            _native.CtfReader(
                file.bytes,
                file.begins,
                file.ends,
                file.ids,
                file.keys,
                file.first_line,
                self._schema,
                -1 if main is None else names.index(main),
                self._dtype == np.float64,
                self._require_all,
            )
            for file in self._files
        ]
        self._starts = np.cumsum([0, *(file.num_records for file in self._files)])
        self._ids = self._files[0].ids
        self._streams = tuple(
            SequenceStream(name, (s.dim,), s.sparse, self._dtype, s.defines_size) for name, s in self._declared.items()
        )
        self._surveys: list[Survey] | None = None
        self._lengths: dict[str, NDArray[Any]] | None = None
        self._told: set[str] = set()

    def _leave_out(self, found: list[ParseWarning]) -> None:
        """Leaves out the sequences that can't be used, as long as there are no more mistakes than allowed.

        Raises:
            DataError: If there are.
        """
        mistakes = Mistakes(self._max_errors)
        surveys = self._survey(mistakes)
        dropped = np.concatenate([s.dropped + a for s, a in zip(surveys, self._starts, strict=False)])
        if len(dropped):
            self._used = np.delete(np.arange(self._starts[-1]), dropped)
        if count := mistakes.count:
            what = "mistake is" if count == 1 else "mistakes are"
            lost = "1 sequence" if len(dropped) == 1 else f"{len(dropped)} sequences"
            message = f"{count} {what} left out (max_errors={self._max_errors}), and {lost} with them; the first: "
            found.append(ParseWarning("mistakes", count, message + mistakes.first[0]))

    def _survey(self, mistakes: Mistakes | None) -> list[Survey]:
        if self._surveys is None:
            surveys: list[Survey] = []
            rest = [self._skip_ids, [name for name, s in self._declared.items() if s.defines_size], self._require_all]
            schema = [[list(stream) for stream in self._schema], *rest]
            for file, reader in zip(self._files, self._readers, strict=True):
                most = None if mistakes is None else mistakes.left
                seen = survey(file, reader, schema, index=self._index, most=most)
                if mistakes is not None:
                    mistakes.add(seen.times, partial(_explain, reader, seen))
                surveys.append(seen)
            self._surveys = surveys
        return self._surveys

    @property
    def num_records(self) -> int:
        """Sequences of all files, without those left out."""
        return int(self._starts[-1]) if self._used is None else len(self._used)

    @property
    def ids(self) -> bool:
        """Whether lines are joined to sequences by the ids that they begin with."""
        return self._ids

    @property
    def warnings(self) -> tuple[ParseWarning, ...]:
        """What was noticed when the files were opened."""
        return self._warnings

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        """The streams, in the order in which they were declared."""
        return self._streams

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        """Lines of each sequence, or samples of the stream that defines the size; None if each has one."""
        self._check_open()
        if not any(len(file.samples) for file in self._files):
            return None
        for file in self._files:
            file.check("samples")
        tables = [file.samples if len(file.samples) else np.ones(file.num_records, np.uint32) for file in self._files]
        return self._of_used(_whole(tables))

    @property
    def num_bytes(self) -> int:
        """Bytes of all files, unpacked."""
        return sum(file.bytes.size for file in self._files)

    def keys(self) -> NDArray[np.uint64]:
        """The id of each sequence; where there are none, the number of its line in its file, from 0."""
        self._check_open()
        return self._of_used(_whole([file.keys_of_all() for file in self._files]))

    def chunks(self, limit: int) -> NDArray[np.int64]:
        """Where chunks of at most `limit` bytes begin, and last the number of records; none goes on into another file.

        Raises:
            ValueError: If `limit` is no positive integer.
        """
        limit = whole("limit", limit, 1)
        self._check_open()
        starts = self._starts if self._used is None else np.searchsorted(self._used, self._starts)
        parts = []
        for number, file in enumerate(self._files):
            begins, ends = file.spans()
            if self._used is not None:
                own = self._used[starts[number] : starts[number + 1]] - self._starts[number]
                begins, ends = begins[own], ends[own]
            if len(begins):
                found = _native.form_chunks(begins, ends, min(limit, max(file.bytes.size, 1)))
                parts.append(found[:-1] + starts[number])
        return np.concatenate([*parts, [self.num_records]]).astype(np.int64)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Reads sequences by number; mistakes that were left out when the files were opened aren't reported again.

        Raises:
            IndexError: If a record isn't there.
            DataChangedError: If a file is not what it was when it was opened.
            DataError: If the index doesn't fit the file.
        """
        self._check_open()
        records = checked_records(records, self.num_records)
        places = records if self._used is None else self._used[records]
        if len(self._files) == 1 or not len(places):
            parsed = self._parse(0, places)
        else:
            files = np.searchsorted(self._starts, places, side="right") - 1
            parts = []
            for number in np.unique(files).tolist():
                where = np.flatnonzero(files == number)
                parts.append((where, self._parse(number, places[where] - self._starts[number])))
            parsed = join_parsed(parts, len(records))
        if self._max_errors:
            return Parsed(parsed.columns, warnings=parsed.warnings, records=records)
        return replace(parsed, records=records)

    def _parse(self, number: int, records: NDArray[np.int64]) -> Parsed:
        self._files[number].check_unchanged()
        arrays, dropped, rows, problems, warnings = self._readers[number].parse(records)
        columns = {}
        for stream, found in zip(self._streams, arrays, strict=True):
            values = Sparse(found[0], found[1], found[2], stream.shape[0]) if stream.sparse else found[0]
            columns[stream.name] = Ragged(values, found[-1])
        streams = self._streams

        def place(i: int) -> Place:
            _, stream, byte, line, column, kind = problems.place(i)
            return Place(kind, line, column, byte, None if stream < 0 else streams[stream].name)

        noticed = [ParseWarning(*warning) for warning in warnings]
        dropped_rows = dropped if len(dropped) else None
        times = problems.times() if len(rows) else None
        return Parsed(columns, dropped_rows, rows, problems.explain, noticed, place, error_times=times)

    def deliver(self, parsed: Parsed) -> dict[str, Any]:
        """The columns of sequences without mistakes: ragged, or of one sample a record, as the streams say.

        Raises:
            DataError: At the first mistake, or if a record has another number of samples than one where it must have
                one.
        """
        columns = super().deliver(parsed)
        tell_once(parsed.warnings, self._told)
        for name, stream in self._declared.items():
            if not self._is_sequence(stream):
                columns[name] = self._single(name, columns[name], parsed.records)
        return columns

    def _is_sequence(self, stream: CtfStream) -> bool:
        return self._ids if stream.sequence is None else stream.sequence

    def _single(self, name: str, column: Ragged, records: NDArray[np.int64] | None) -> Any:
        lengths = column.lengths
        if len(column.values) != len(column) or (lengths != 1).any():
            row = int((lengths != 1).argmax())
            where = f"row {row}" if records is None else self.where(int(records[row]))
            raise DataError(
                f"{where}: expected one sample of stream {name!r}, got {int(lengths[row])}; pass sequence=True with "
                "the stream to have any number of them"
            )
        return column.values

    def lengths(self) -> dict[str, NDArray[Any]] | None:
        """Samples of each sequence, of each stream that may have several.

        Of one stream alone, or one that defines the size, the index knows them; of several, all sequences are looked at
        when they are first asked for.
        """
        self._check_open()
        names = [name for name, stream in self._declared.items() if self._is_sequence(stream)]
        if self._lengths is None:
            of_index = len(self._declared) == 1 or (len(names) == 1 and self._declared[names[0]].defines_size)
            if names and of_index and self._surveys is None:
                sizes = self.sizes
                table = np.ones(self.num_records, np.uint32) if sizes is None else sizes
                self._lengths = {names[0]: table}
            else:
                surveys = self._survey(None) if names else []
                numbers = [number for number, name in enumerate(self._declared) if name in names]
                self._lengths = {
                    name: self._of_used(_whole([seen.lengths[number] for seen in surveys]))
                    for name, number in zip(names, numbers, strict=True)
                }
        return self._lengths or None

    def fingerprint(self) -> Fingerprint:
        """Records, bytes and a sample of the content, of all files together, and how they are read."""
        reading = [self._schema, self._skip_ids, self._require_all, self._max_errors > 0]
        reading += [[self._is_sequence(stream), stream.defines_size] for stream in self._declared.values()]
        reading_hash = _native.hash64(np.frombuffer(json.dumps(reading).encode(), np.uint8))
        return {**super().fingerprint(), "reading": f"{reading_hash:016x}"}

    def where(self, record: int) -> str:
        """File, line (from 1), and id where there are ids."""
        self._check_open()
        place = record if self._used is None else int(self._used[record])
        number = int(np.searchsorted(self._starts, place, side="right")) - 1
        return self._files[number].where(place - int(self._starts[number]))

    def close(self) -> None:
        """Closes the files."""
        self._files, self._readers = [], []
        self._surveys = self._lengths = None

    def _of_used(self, table: NDArray[Any]) -> NDArray[Any]:
        return table if self._used is None else table[self._used]

    def _check_open(self) -> None:
        super()._check_open()
        for file in self._files:
            file.check_unchanged()


def _explain(reader: _native.CtfReader, seen: Survey, i: int) -> str:
    """The message of a mistake that was seen, whose sequence is parsed once more for it."""
    record = seen.errors[i]
    _, _, _, problems, _ = reader.parse(np.array([record], np.int64))
    return problems.explain(i - int(np.searchsorted(seen.errors, record)))


def _whole(tables: list[NDArray[Any]]) -> NDArray[Any]:
    """Tables of one file after another, as one."""
    return tables[0] if len(tables) == 1 else np.concatenate(tables)
