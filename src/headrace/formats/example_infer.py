"""Finds out what is in files of Examples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from headrace import _native
from headrace.batch.columns import Bytes
from headrace.errors import DataError
from headrace.formats.features import Feature, FixedLen, FixedLenSequence, VarLen
from headrace.formats.files import Paths
from headrace.formats.record_source import RecordStream

_DTYPES = {1: "bytes", 2: "float32", 3: "int64"}
_Seen = tuple[bytes, bool, list[int], int, int, int]


def infer_example(files: Paths, *, records: int = 1000, compression: str | None = "auto") -> dict[str, Feature]:
    """Looks at the first records of TFRecord files and says what features their Examples have.

    A feature that every record had, always with the same number of values, is taken for `FixedLen`, any other for
    `VarLen`. Records further on may differ; parsing says so.

    Args:
        files: A file, a glob pattern, or a list of those.
        records: How many to look at.
        compression: As for `read_tfrecord`.

    Raises:
        OSError: If a file can't be found or opened.
        DataError: If a file is damaged, a record is no Example or is a SequenceExample, or a feature is of different
            types.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "mills.tfrecord")
        >>> with hr.TFRecordWriter(path) as writer:
        ...     writer.write(hr.encode_example({"wheels": 2, "owners": ["a", "b"]}))
        ...     writer.write(hr.encode_example({"wheels": 1, "owners": ["c"]}))
        >>> hr.infer_example(path)
        {'wheels': FixedLen(shape=(), dtype='int64', default=None), 'owners': VarLen(dtype='bytes')}
        >>> folder.cleanup()
    """
    features, lists = infer_sequence_example(files, records=records, compression=compression)
    if lists:
        raise DataError(
            f"expected Examples, found SequenceExamples, with the feature lists {sorted(lists)}; use "
            "infer_sequence_example and parse_sequence_example"
        )
    return features


def infer_sequence_example(
    files: Paths, *, records: int = 1000, compression: str | None = "auto"
) -> tuple[dict[str, Feature], dict[str, Feature]]:
    """As `infer_example`, for SequenceExamples: the features of the context, and those of the lists.

    Args:
        files: A file, a glob pattern, or a list of those.
        records: How many to look at.
        compression: As for `read_tfrecord`.

    Raises:
        OSError: If a file can't be found or opened.
        DataError: If a file is damaged, a record is neither Example nor SequenceExample, or a feature is of different
            types.
    """
    stream = RecordStream(files, compression=compression)
    total = 0
    seen: dict[tuple[bytes, bool], _Seen] = {}
    for batch in _batches(iter(stream.start()), records):
        found, bad, text = _native.survey_examples(batch.data, batch.offsets)
        if bad >= 0:
            raise DataError(f"{stream.where(total + bad)}: {text}")
        total += len(batch)
        for own in found:
            key = own[:2]
            seen[key] = _both(seen[key], own) if key in seen else own
    context = {_name(s): _feature(s, total) for s in seen.values() if not s[1] and any(s[2])}
    lists = {_name(s): _feature(s, total) for s in seen.values() if s[1] and any(s[2])}
    return context, lists


def _batches(records: Iterator[bytes], limit: int) -> Iterator[Bytes]:
    left = itertools.islice(records, limit)
    while rows := list(itertools.islice(left, 256)):
        yield Bytes.from_rows(rows)


def _both(a: _Seen, b: _Seen) -> _Seen:
    return a[0], a[1], sorted({*a[2], *b[2]}), a[3] + b[3], min(a[4], b[4]), max(a[5], b[5])


def _name(seen: _Seen) -> str:
    return seen[0].decode("utf-8", "surrogateescape")


def _feature(seen: _Seen, total: int) -> Feature:
    _, in_list, kinds, messages, least, most = seen
    known = [_DTYPES[kind] for kind in kinds if kind]
    if len(known) > 1:
        raise DataError(f"feature {_name(seen)!r} is {known[0]} in some records and {known[1]} in others")
    always = messages == total
    shape = () if most == 1 else (most,)
    if least == most > 0 and 0 not in kinds and (always or in_list):
        return FixedLenSequence(shape, known[0], allow_missing=not always) if in_list else FixedLen(shape, known[0])
    return VarLen(known[0])
