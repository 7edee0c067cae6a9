"""`tf.train.Example` and its parts: made to be written, and read from what was written."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

import headrace as hr
from headrace.formats.example import ExampleSchema, VarLen
from headrace.formats.example_infer import ExampleSurvey

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
]


class _List:
    """Values of one type; `value` is a Python list, which may be changed."""

    _dtype: Any

    def __init__(self, value: Iterable[Any] = ()):
        self.value = list(value)

    def _array(self) -> Any:
        return np.array(self.value, self._dtype)

    def _lines(self) -> Iterable[str]:
        return (f"value: {item}" for item in self._array().tolist())


class BytesList(_List):
    """Values that are bytes."""

    def __init__(self, value: Iterable[bytes] = ()):
        super().__init__(value)
        self._array()  # refuses what isn't bytes

    def _array(self) -> Any:
        for item in self.value:
            if not isinstance(item, bytes):
                raise TypeError(f"{item!r:.60} has type {type(item).__name__}, but expected one of: bytes")
        return hr.Bytes.from_rows(self.value)

    def _lines(self) -> Iterable[str]:
        return (f'value: "{_escaped(item)}"' for item in self.value)


class FloatList(_List):
    """Values that are floats of 32 bits."""

    _dtype = np.float32

    def _lines(self) -> Iterable[str]:
        for item in self._array():
            short = f"{item:.6g}"
            yield f"value: {short if np.float32(short) == item else f'{item:.9g}'}"


class Int64List(_List):
    """Values that are whole numbers."""

    _dtype = np.int64


class Feature:
    """One of the three lists, or none.

    Raises:
        ValueError: If several are given.
    """

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ):
        given = {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}
        self._given = [name for name, found in given.items() if found is not None]
        self.bytes_list = bytes_list or BytesList()
        self.float_list = float_list or FloatList()
        self.int64_list = int64_list or Int64List()
        self.WhichOneof("kind")

    def WhichOneof(self, oneof_group: str) -> str | None:
        """The name of the list that is set; None if none is.

        Raises:
            ValueError: If several hold values, or there is no such group.
        """
        if oneof_group != "kind":
            raise ValueError(f"a Feature has the group 'kind', got {oneof_group!r}")
        names = ("bytes_list", "float_list", "int64_list")
        found = {name for name in names if getattr(self, name).value} or set(self._given)
        if len(found) > 1 or len(self._given) > 1:
            raise ValueError("a Feature holds one list: of bytes, of floats, or of whole numbers")
        return next(iter(found), None)

    def HasField(self, field_name: str) -> bool:
        """Whether that list is the one that is set."""
        return self.WhichOneof("kind") == field_name

    @property
    def _array(self) -> Any:
        kind = self.WhichOneof("kind")
        return getattr(self, kind)._array() if kind else None

    def _lines(self) -> Iterable[str]:
        kind = self.WhichOneof("kind")
        return _block(kind, getattr(self, kind)._lines()) if kind else ()


class Features:
    """Features by key. Asking for one that isn't there makes it."""

    def __init__(self, feature: Mapping[str, Feature] | None = None):
        self.feature: dict[str, Feature] = defaultdict(Feature, feature or {})

    def _arrays(self) -> dict[str, Any]:
        return {key: feature._array for key, feature in self.feature.items()}

    def _lines(self) -> Iterable[str]:
        return _map("feature", self.feature)


class _Repeated(list[Feature]):
    """The features of a list's steps."""

    def add(self, **lists: Any) -> Feature:
        """Appends a step, and gives it."""
        self.append(Feature(**lists))
        return self[-1]


class FeatureList:
    """A feature for each step."""

    def __init__(self, feature: Iterable[Feature] = ()):
        self.feature = _Repeated(feature)

    def _lines(self) -> Iterable[str]:
        for step in self.feature:
            yield from _block("feature", step._lines())


class FeatureLists:
    """Lists of features by key. Asking for one that isn't there makes it."""

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None):
        self.feature_list: dict[str, FeatureList] = defaultdict(FeatureList, feature_list or {})

    def _lines(self) -> Iterable[str]:
        return _map("feature_list", self.feature_list)


class Example:
    """A message of features.

    Example:
        >>> from headrace import tf1 as tf
        >>> label = tf.train.Feature(int64_list=tf.train.Int64List(value=[3]))
        >>> made = tf.train.Example(features=tf.train.Features(feature={"label": label}))
        >>> len(made.SerializeToString())
        18
        >>> read = tf.train.Example.FromString(made.SerializeToString())
        >>> read.features.feature["label"].int64_list.value
        [3]
    """

    def __init__(self, features: Features | None = None):
        self.features = features or Features()

    def SerializeToString(self) -> bytes:
        """The message as bytes."""
        return hr.encode_example(self.features._arrays())

    def ParseFromString(self, serialized: bytes) -> int:
        """Takes the content of a message; returns its length.

        Raises:
            DataError: If it is malformed.
        """
        self.features = _parsed(serialized)[0]
        return len(serialized)

    @classmethod
    def FromString(cls, s: bytes) -> Self:
        """A message as it was written.

        Raises:
            DataError: If it is malformed.
        """
        made = cls()
        made.ParseFromString(s)
        return made

    def __repr__(self) -> str:
        return _text(features=self.features)


class SequenceExample:
    """A message of features and of lists of features."""

    def __init__(self, context: Features | None = None, feature_lists: FeatureLists | None = None):
        self.context = context or Features()
        self.feature_lists = feature_lists or FeatureLists()

    def SerializeToString(self) -> bytes:
        """The message as bytes."""
        lists = {key: [f._array for f in steps.feature] for key, steps in self.feature_lists.feature_list.items()}
        return hr.encode_sequence_example(self.context._arrays(), lists)

    def ParseFromString(self, serialized: bytes) -> int:
        """Takes the content of a message; returns its length.

        Raises:
            DataError: If it is malformed, or steps of a list differ in type.
        """
        self.context, self.feature_lists = _parsed(serialized)
        return len(serialized)

    @classmethod
    def FromString(cls, s: bytes) -> Self:
        """A message as it was written.

        Raises:
            DataError: As for `ParseFromString`.
        """
        made = cls()
        made.ParseFromString(s)
        return made

    def __repr__(self) -> str:
        return _text(context=self.context, feature_lists=self.feature_lists)


_LISTS: dict[str, tuple[str, type[_List]]] = {
    "bytes": ("bytes_list", BytesList),
    "float32": ("float_list", FloatList),
    "int64": ("int64_list", Int64List),
}


def _parsed(message: bytes) -> tuple[Features, FeatureLists]:
    """All that is in a message."""
    survey = ExampleSurvey()
    bad, text = survey.add(hr.Bytes.from_rows([message]))
    if bad >= 0:
        raise hr.DataError(text)
    context, lists = Features(), FeatureLists()
    for seen in survey.seen():
        if seen.in_list:
            own = lists.feature_list[seen.name]
            own.feature.extend(_taken(message, seen.name, True, seen.types or "int64"))
        elif seen.types:
            context.feature[seen.name] = _taken(message, seen.name, False, seen.types)[0]
        else:
            context.feature[seen.name] = Feature()
    return context, lists


def _taken(message: bytes, name: str, in_list: bool, types: str) -> list[Feature]:
    *others, dtype = types.split(" and ")
    wanted = {name: VarLen(dtype)}
    try:
        column = (ExampleSchema({}, wanted) if in_list else ExampleSchema(wanted)).columns([message])[name]
    except hr.DataError:
        if not others:
            raise
        return _taken(message, name, in_list, " and ".join(others))  # a key that came twice: the last one counts
    field, kind = _LISTS[dtype]
    rows = column.values if in_list else column
    bounds = rows.offsets.tolist()
    parts = [rows.values[begin:end] for begin, end in itertools.pairwise(bounds)]
    made: list[dict[str, Any]] = [{field: kind(part.tolist())} for part in parts]
    return [Feature(**lists) for lists in made]


# As protocol buffers print messages ----------------------------------------------------------------------------------


def _text(**fields: Any) -> str:
    contents = {name: list(field._lines()) for name, field in fields.items()}
    lines = [line for name, content in contents.items() if content for line in _block(name, content)]
    return "".join(line + "\n" for line in lines)


def _block(name: str, lines: Iterable[str]) -> Iterable[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def _map(name: str, entries: Mapping[str, Any]) -> Iterable[str]:
    for key in sorted(entries):
        text = _escaped(key.encode("utf-8", "surrogateescape"))
        yield from _block(name, [f'key: "{text}"', *_block("value", entries[key]._lines())])


def _escaped(data: bytes) -> str:
    known = {0x0A: r"\n", 0x0D: r"\r", 0x09: r"\t", 0x22: r"\"", 0x27: r"\'", 0x5C: r"\\"}
    return "".join(known.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)
