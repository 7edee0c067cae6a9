"""The description of a run's data: sources, and operations on them, as a user chains them.

What belongs here: one node class for each operation, saying in words what it does and building its part of the plan and
of the flow. Nothing is read and no order is computed while a description is made: `compile_program` makes a plan and a
reader of it, and the loader has them do so.
"""

from headrace.dataset.batches import Batches
from headrace.dataset.cbf import read_cbf
from headrace.dataset.ctf import read_ctf
from headrace.dataset.dataset import Dataset
from headrace.dataset.files import read_files, read_image_folder
from headrace.dataset.filter import Patience
from headrace.dataset.leaf import StreamReader, without_streams
from headrace.dataset.node import Reader
from headrace.dataset.program import Program, compile_program
from headrace.dataset.records import read_tfrecord
from headrace.dataset.sources import concat, from_arrays, from_dataset, from_iterable, interleave, mix, read_text, zip_

__all__ = [
    "Batches",
    "Dataset",
    "Patience",
    "Program",
    "Reader",
    "StreamReader",
    "compile_program",
    "concat",
    "from_arrays",
    "from_dataset",
    "from_iterable",
    "interleave",
    "mix",
    "read_cbf",
    "read_ctf",
    "read_files",
    "read_image_folder",
    "read_text",
    "read_tfrecord",
    "without_streams",
    "zip_",
]
