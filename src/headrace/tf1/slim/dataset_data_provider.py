"""Gives the items of a dataset's records."""

from __future__ import annotations

from typing import Any

from headrace.tf1.slim.data_provider import DataProvider
from headrace.tf1.slim.dataset import Dataset
from headrace.tf1.slim.parallel_reader import parallel_read

__all__ = ["DatasetDataProvider"]


class DatasetDataProvider(DataProvider):
    """Reads a dataset with several readers, and decodes.

    Args:
        dataset: What to read.
        num_readers: How many readers; one alone, unshuffled, keeps the order.
        reader_kwargs: Arguments for each.
        shuffle: Whether files and records come in a random order.
        num_epochs: How many times all is read; for ever if not given.
        common_queue_capacity: Records in the queue that the readers fill.
        common_queue_min: Records that stay behind in it when shuffling.
        record_key: The item that is the record's key.
        seed: For the random orders.
        scope: Ignored.

    Raises:
        ValueError: If an item is named as the key is, or there are no files.
    """

    def __init__(
        self,
        dataset: Dataset,
        num_readers: int = 1,
        reader_kwargs: Any = None,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
        scope: str | None = None,
    ):
        key, data = parallel_read(
            dataset.data_sources,
            reader_class=dataset.reader,
            num_epochs=num_epochs,
            num_readers=num_readers,
            reader_kwargs=reader_kwargs,
            shuffle=shuffle,
            capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min,
            seed=seed,
        )
        items = dataset.decoder.list_items()
        tensors = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        if record_key in tensors:
            raise ValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}"
            )
        super().__init__({**tensors, record_key: key}, dataset.num_samples)
