"""`tf.contrib`, as far as it is there: slim, data, lookup."""

from headrace.tf1 import data, lookup, slim

__all__ = ["data", "lookup", "slim"]
