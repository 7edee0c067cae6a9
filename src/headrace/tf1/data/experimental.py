"""`tf.data.experimental`: windows and buckets, and batches taken apart."""

from headrace.tf1.data.batches import bucket_by_sequence_length, group_by_window
from headrace.tf1.data.dataset import unbatch

__all__ = ["AUTOTUNE", "bucket_by_sequence_length", "group_by_window", "unbatch"]

AUTOTUNE = -1
