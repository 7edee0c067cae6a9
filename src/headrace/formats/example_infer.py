"""Finds out what is in files of Examples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace import _native
from headrace.batch.columns import Bytes
from headrace.checks import whole
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
        DataError: If a file is damaged, a record is no Example or is a SequenceExample, a feature is of different
            types, or there is none.
        ValueError: If `records` is less than 1.

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
        DataError: If a file is damaged, a record is neither Example nor SequenceExample, a feature is of different
            types, or there is none.
        ValueError: If `records` is less than 1.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.tfrecord")
        ...     with hr.TFRecordWriter(path) as writer:
        ...         writer.write(hr.encode_sequence_example({"id": 7}, {"words": ["to", "the", "mill"]}))
        ...     context, sequences = hr.infer_sequence_example(path)
        >>> list(context), list(sequences)
        (['id'], ['words'])
    """
    stream = RecordStream(files, compression=compression)
    survey = ExampleSurvey()
    for batch in _batches(iter(stream.start()), whole("records", records, 1)):
        first, types = survey.records, survey.types()
        bad, text = survey.add(batch)
        if bad >= 0:
            raise DataError(f"{stream.where(survey.records)}: {text}")
        if survey.mixed():
            row, text = _first_of_another_type(types, batch)
            raise DataError(f"{stream.where(first + row)}: {text}")
    context, lists = survey.features()
    if not context and not lists:
        looked = f"{survey.records} records without any" if survey.records else "no records"
        raise DataError(f"{stream.paths[0]}: expected features to infer, found {looked}")
    return context, lists


@dataclass(frozen=True, slots=True)
class SeenFeature:
    """What was seen of one feature.

    Attributes:
        name: Its key.
        in_list: Whether it is a feature list.
        kinds: Of its values, ascending; 0 stands for messages that don't say it.
        messages: How many have it.
        least: Values of the message (of a list: the step) that has the fewest.
        most: Of the one that has the most.
    """

    name: str
    in_list: bool
    kinds: tuple[int, ...]
    messages: int
    least: int
    most: int

    @property
    def types(self) -> str:
        """The types of its values; nothing if no message says."""
        return " and ".join(_DTYPES[kind] for kind in self.kinds if kind)

    @property
    def values(self) -> str:
        """How many values there are at a time."""
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,}–{self.most:,}"


class ExampleSurvey:
    """Which features Examples and SequenceExamples have, message by message.

    Attributes:
        records: Messages so far.

    Example:
        >>> import headrace as hr
        >>> survey = ExampleSurvey()
        >>> survey.add(hr.Bytes.from_rows([hr.encode_example({"x": [1, 2]}), b"?"]))[0], survey.records
        (1, 1)
        >>> [(seen.name, seen.types, seen.values) for seen in survey.seen()]
        [('x', 'int64', '2')]
    """

    def __init__(self) -> None:
        self.records = 0
        self._seen: dict[tuple[bytes, bool], _Seen] = {}

    def add(self, messages: Bytes) -> tuple[int, str]:
        """Takes messages into account, up to the first that is neither Example nor SequenceExample.

        Returns:
            The place of that one and what is wrong with it; −1 if there is none.
        """
        found, bad, text = _native.survey_examples(messages.data, messages.offsets)
        if bad >= 0:
            messages = messages[:bad]
            found = _native.survey_examples(np.ascontiguousarray(messages.data), messages.offsets)[0] if bad else []
        for own in found:
            key = own[:2]
            self._seen[key] = _both(self._seen[key], own) if key in self._seen else own
        self.records += len(messages)
        return bad, text

    def seen(self) -> list[SeenFeature]:
        """All features so far."""
        return [SeenFeature(_name(s), s[1], tuple(s[2]), *s[3:]) for s in self._seen.values()]

    def types(self) -> dict[tuple[bytes, bool], str]:
        """The type of each feature that has one, by key and whether it is a list."""
        return {key: _DTYPES[max(seen[2])] for key, seen in self._seen.items() if any(seen[2])}

    def mixed(self) -> list[tuple[str, list[str]]]:
        """Features whose values are of different types, and which."""
        return [(one.name, one.types.split(" and ")) for one in self.seen() if len(one.types.split(" and ")) > 1]

    def features(self) -> tuple[dict[str, Feature], dict[str, Feature]]:
        """What parses all of it: the features of the context, and those of the lists.

        Raises:
            DataError: If a feature is of different types.
        """
        known = [s for s in self._seen.values() if any(s[2])]
        context = {_name(s): _feature(s, self.records) for s in known if not s[1]}
        lists = {_name(s): _feature(s, self.records) for s in known if s[1]}
        return context, lists


def _batches(records: Iterator[bytes], limit: int) -> Iterator[Bytes]:
    left = itertools.islice(records, limit)
    while rows := list(itertools.islice(left, 256)):
        yield Bytes.from_rows(rows)


def _both(a: _Seen, b: _Seen) -> _Seen:
    return a[0], a[1], sorted({*a[2], *b[2]}), a[3] + b[3], min(a[4], b[4]), max(a[5], b[5])


def _first_of_another_type(types: dict[tuple[bytes, bool], str], messages: Bytes) -> tuple[int, str]:
    """Which of some messages has a feature of another type than those before, and what that is."""
    known = dict(types)
    for row in range(len(messages)):
        one = messages.take(np.array([row]))
        for own in _native.survey_examples(one.data, one.offsets)[0]:
            for kind in filter(None, own[2]):
                before = known.setdefault(own[:2], _DTYPES[kind])
                if _DTYPES[kind] != before:
                    what = "feature list" if own[1] else "feature"
                    return row, f"{what} {_name(own)!r}: expected {before}, as before, found {_DTYPES[kind]}"
    raise AssertionError("no message differs")


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
