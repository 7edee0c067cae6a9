"""`tf.io`: features, parsing, record files, by their newer names."""

from headrace.tf1 import gfile
from headrace.tf1.image import decode_gif, decode_image, decode_jpeg, decode_png
from headrace.tf1.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from headrace.tf1.python_io import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator
from headrace.tf1.string_ops import decode_csv, decode_raw

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_raw",
    "gfile",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "tf_record_iterator",
]
