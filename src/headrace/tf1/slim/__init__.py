"""TF-slim's package of data: datasets, decoders, providers, queues of batches."""

from typing import Any

from headrace.tf1.dtypes import float32
from headrace.tf1.graph import Tensor
from headrace.tf1.ops import one_hot
from headrace.tf1.slim import (
    data_decoder,
    data_provider,
    dataset,
    dataset_data_provider,
    parallel_reader,
    prefetch_queue,
    queues,
    tfexample_decoder,
)

__all__ = [
    "data_decoder",
    "data_provider",
    "dataset",
    "dataset_data_provider",
    "one_hot_encoding",
    "parallel_reader",
    "prefetch_queue",
    "queues",
    "tfexample_decoder",
]


def one_hot_encoding(labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0) -> Tensor:
    """A row for each label, with `on_value` at its place."""
    return one_hot(labels, num_classes, on_value, off_value, float32)
