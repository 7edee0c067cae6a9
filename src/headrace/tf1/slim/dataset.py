"""What a dataset is, for slim: files, a reader, a decoder."""

from __future__ import annotations

from typing import Any

__all__ = ["Dataset"]


class Dataset:
    """Files, and how to read and decode them; more keywords become attributes.

    Args:
        data_sources: File names, or a pattern.
        reader: The class of the reader, such as `tf.TFRecordReader`.
        decoder: Makes items of a record.
        num_samples: How many records there are; only told, never checked.
        items_to_descriptions: What each item is.
        **kwargs: Attributes.
    """

    def __init__(
        self, data_sources: Any, reader: Any, decoder: Any, num_samples: Any, items_to_descriptions: Any, **kwargs: Any
    ):
        self.data_sources = data_sources
        self.reader = reader
        self.decoder = decoder
        self.num_samples = num_samples
        self.items_to_descriptions = items_to_descriptions
        self.__dict__.update(kwargs)
