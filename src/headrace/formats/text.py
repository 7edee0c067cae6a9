"""Records from text files: one line each, read in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Ragged, Strings
from headrace.errors import DataError
from headrace.formats import sidecar
from headrace.formats.files import FileState, Paths, check_separators, find_files, open_bytes, state_of
from headrace.formats.files_source import FilesSource
from headrace.formats.packed import is_packed
from headrace.formats.sidecar import IndexMode, check_index_mode
from headrace.vocab import Vocab


@dataclass(frozen=True, slots=True)
class _TextFile:
    path: str
    bytes: _native.FileBytes
    starts: NDArray[np.uint64]
    tokens: NDArray[np.uint32]
    sidecar: sidecar.Sidecar | None
    state: FileState


class TextSource(FilesSource):
    r"""The lines of text files, in the order of the files.

    A line ends with LF or CRLF, which are not part of it, or with the end of the file. Every other byte is: NUL, bytes
    that aren't UTF-8, a CR elsewhere. A file that ends in LF has no empty line after it; an empty file has no lines.

    The index (where lines start, how many tokens they have) is kept beside each plain file as a sidecar; gzip and
    Zstandard files are unpacked and indexed each time they are opened. Files may not be written to while they
    are in use: every read first looks whether they have been, and refuses if so.

    Args:
        files: A path, a glob pattern, or a list of those.
        index: `"auto"` uses a valid sidecar and writes one where there is none; `"memory"` neither reads nor writes
            sidecars; `"rebuild"` makes and writes them anew.
        separators: The ASCII characters that separate tokens; by default blank, tab, CR, VT and FF, as `bytes.split`
            does. Runs of separators count as one.
        check_utf8: Refuse files that aren't valid UTF-8. It takes a pass over the files.

    Raises:
        OSError: If a file can't be found or opened.
        DataError: If a packed file is damaged, or one isn't UTF-8 with `check_utf8`.
        ValueError: If an argument is out of range.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from headrace.formats.text import TextSource
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "poem.txt")
        >>> _ = path.write_bytes(b"In einem kuehlen Grunde\r\nda geht ein Muehlenrad\r\n")
        >>> source = TextSource(path)
        >>> source.num_records, source.lengths()[""].tolist()
        (2, [4, 4])
        >>> source.read(np.array([1])).tolist()
        ['da geht ein Muehlenrad']
        >>> folder.cleanup()
    """

    kind = "text"
    _settings = ("_separators",)
    _files: list[_TextFile]
    _reader: _native.TextReader | None

    def __init__(
        self,
        files: Paths,
        *,
        index: IndexMode = "auto",
        separators: str | None = None,
        check_utf8: bool = False,
    ) -> None:
        check_index_mode(index)
        check_separators(separators)
        self._separators = separators
        self._index = index
        self._open(find_files(files))
        if check_utf8:
            for number, file in enumerate(self._files):
                self._check_utf8(number, file)

    def _open(self, paths: list[str]) -> None:
        files = [_open_file(path, self._index, self._separators) for path in paths]
        self._files = files
        self._lengths: NDArray[np.uint32] | None = None
        self._reader = _native.TextReader(
            [file.bytes for file in files],
            [file.starts for file in files],
            [file.sidecar.file if file.sidecar else None for file in files],
        )
        self._num_records: int = self._reader.records

    @property
    def num_records(self) -> int:
        """Lines of all files."""
        return self._num_records

    @property
    def separators(self) -> str | None:
        """The characters that separate tokens; None: white space."""
        return self._separators

    def read(self, records: NDArray[np.int64]) -> Strings:
        """Reads lines as texts.

        Raises:
            IndexError: If a record isn't there.
            DataChangedError: If a file is not what it was when it was opened.
            DataError: If the index doesn't fit the file.
        """
        return Strings(*self._opened().read(_as_records(records)))

    def encode(
        self,
        records: NDArray[np.int64],
        vocab: Vocab,
        *,
        max_length: int | None = None,
        bos: int | None = None,
        eos: int | None = None,
    ) -> Ragged:
        """Reads lines, splits them into tokens and looks these up, in one native pass.

        Args:
            records: Record numbers, shape `(n,)`.
            vocab: Gives the ids (int32); tokens that it doesn't have get its unknown id.
            max_length: Tokens kept of a line, not counting `bos` and `eos`.
            bos: Id put before each line's ids.
            eos: Id put after them.

        Raises:
            As `read`.
        """
        found = self._opened().encode(
            _as_records(records), vocab.native, vocab.unk_id, max_length, bos, eos, self._separators
        )
        return Ragged(*found)

    def lengths(self) -> dict[str, NDArray[np.uint32]]:
        """Tokens of each line.

        Raises:
            DataError: If a sidecar is damaged.
        """
        self._opened()
        if self._lengths is None:
            for file in self._files:
                if file.sidecar:
                    file.sidecar.check("tokens")
            tables = [file.tokens for file in self._files]
            self._lengths = tables[0] if len(tables) == 1 else np.concatenate(tables)
        elif len(self._files) == 1 and (beside := self._files[0].sidecar):
            beside.file.check_unchanged()  # the table of a single file is mapped, not copied
        return {"": self._lengths}

    def column_names(self) -> list[str]:
        """One column, without a name."""
        return [""]

    def where(self, record: int) -> str:
        """File and line, counted from 1."""
        return f"{self._files[self._opened().locate(record)[0]].path}, line {self.line(record)}"

    def line(self, record: int) -> int:
        """Which line of its file a record is, counted from 1."""
        return self._opened().locate(record)[1] + 1

    def close(self) -> None:
        """Closes the files."""
        self._reader = None
        self._files = []
        self._lengths = None

    def _opened(self) -> _native.TextReader:
        self._check_open()
        assert self._reader is not None
        return self._reader

    def _check_utf8(self, number: int, file: _TextFile) -> None:
        fault = file.bytes.find_invalid_utf8()
        if fault is None:
            return
        line = int(np.searchsorted(file.starts, fault, side="right")) - 1
        column = int(fault) - int(file.starts[line])
        raise DataError(
            f"{file.path}, line {line + 1}, byte {column + 1}: expected UTF-8, found the byte "
            f"0x{file.bytes.array()[fault]:02x}; convert the file (`iconv -f latin1 -t utf-8`), or pass "
            "check_utf8=False to take bytes as they are"
        )


def _as_records(records: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(records, np.int64)


def _open_file(path: str, index: IndexMode, separators: str | None) -> _TextFile:
    state = state_of(path)
    content = open_bytes(path)
    if index == "memory" or is_packed(path):
        starts, tokens = content.index_lines(separators)
        return _TextFile(path, content, starts, tokens, None, state)
    about = {
        "format": "text lines",
        "size": content.size,
        "mtime_ns": content.mtime_ns,
        "sample": f"{content.sample():016x}",
        "separators": separators,
    }
    beside = sidecar.sidecar_path(path, "" if separators is None else f"by-{separators.encode().hex()}"[:40])
    if index == "auto" and (found := sidecar.load(beside, about, {"starts": np.uint64, "tokens": np.uint32})):
        starts, tokens = found.arrays["starts"], found.arrays["tokens"]
        if len(starts) == len(tokens) + 1:
            return _TextFile(path, content, starts, tokens, found, state)
    starts, tokens = content.index_lines(separators)
    sidecar.store(beside, about, {"starts": starts, "tokens": tokens})
    return _TextFile(path, content, starts, tokens, None, state)
