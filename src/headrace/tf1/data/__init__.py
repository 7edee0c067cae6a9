"""`tf.data`, and `tf.contrib.data`: datasets as chains of operations, iterated in sessions."""

from typing import Any

from headrace.tf1.data import experimental
from headrace.tf1.data.batches import bucket_by_sequence_length, group_by_window
from headrace.tf1.data.dataset import Dataset, unbatch
from headrace.tf1.data.files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from headrace.tf1.data.iterator import Iterator

__all__ = [
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "TFRecordDataset",
    "TextLineDataset",
    "bucket_by_sequence_length",
    "experimental",
    "group_by_window",
    "make_initializable_iterator",
    "make_one_shot_iterator",
    "unbatch",
]


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Any:
    """An iterator that begins when its `initializer` runs."""
    return dataset.make_initializable_iterator(shared_name)


def make_one_shot_iterator(dataset: Dataset) -> Any:
    """An iterator that begins by itself, once."""
    return dataset.make_one_shot_iterator()
