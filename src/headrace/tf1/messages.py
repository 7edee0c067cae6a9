"""`tf.train.Example` and its parts, as programs make them to be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import headrace as hr

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
    _dtype: Any

    def __init__(self, value: Iterable[Any] = ()):
        self.value = list(value)

    def _array(self) -> Any:
        return np.array(self.value, self._dtype)


class BytesList(_List):
    """Values that are bytes."""

    def __init__(self, value: Iterable[bytes] = ()):
        super().__init__(value)
        for item in self.value:
            if not isinstance(item, bytes):
                raise TypeError(f"{item!r:.60} has type {type(item).__name__}, but expected one of: bytes")

    def _array(self) -> Any:
        return hr.Bytes.from_rows(self.value)


class FloatList(_List):
    """Values that are floats of 32 bits."""

    _dtype = np.float32


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
        given = [found for found in (bytes_list, float_list, int64_list) if found is not None]
        if len(given) > 1:
            raise ValueError("a Feature holds one list: of bytes, of floats, or of whole numbers")
        self.bytes_list, self.float_list, self.int64_list = bytes_list, float_list, int64_list
        self._array = given[0]._array() if given else None


class Features:
    """Features by key."""

    def __init__(self, feature: Mapping[str, Feature] | None = None):
        self.feature = dict(feature or {})

    def _arrays(self) -> dict[str, Any]:
        return {key: feature._array for key, feature in self.feature.items()}


class FeatureList:
    """A feature for each step."""

    def __init__(self, feature: Iterable[Feature] = ()):
        self.feature = list(feature)


class FeatureLists:
    """Lists of features by key."""

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None):
        self.feature_list = dict(feature_list or {})


class Example:
    """A message of features.

    Example:
        >>> from headrace import tf1 as tf
        >>> label = tf.train.Feature(int64_list=tf.train.Int64List(value=[3]))
        >>> made = tf.train.Example(features=tf.train.Features(feature={"label": label}))
        >>> len(made.SerializeToString())
        18
    """

    def __init__(self, features: Features | None = None):
        self.features = features or Features()

    def SerializeToString(self) -> bytes:
        """The message as bytes."""
        return hr.encode_example(self.features._arrays())


class SequenceExample:
    """A message of features and of lists of features."""

    def __init__(self, context: Features | None = None, feature_lists: FeatureLists | None = None):
        self.context = context or Features()
        self.feature_lists = feature_lists or FeatureLists()

    def SerializeToString(self) -> bytes:
        """The message as bytes."""
        lists = {key: [f._array for f in steps.feature] for key, steps in self.feature_lists.feature_list.items()}
        return hr.encode_sequence_example(self.context._arrays(), lists)
