"""`tf.strings`: operations on strings, by their newer names."""

from headrace.tf1.string_ops import string_join as join
from headrace.tf1.string_ops import string_to_number as to_number
from headrace.tf1.string_ops import substr

__all__ = ["join", "substr", "to_number"]
