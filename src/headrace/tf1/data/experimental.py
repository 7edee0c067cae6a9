"""`tf.data.experimental`: windows and buckets."""

from headrace.tf1.data.batches import bucket_by_sequence_length, group_by_window

__all__ = ["AUTOTUNE", "bucket_by_sequence_length", "group_by_window"]

AUTOTUNE = -1
