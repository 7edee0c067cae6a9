"""Columns: how a batch of records lies in memory, and what is done to it as a whole.

What belongs here: the column types, putting Python records together into columns, padding, taking and joining rows,
and handing columns to PyTorch or JAX. Nothing here knows where records come from or in which order they are read.

A batch is a *tree*: a column, or a tuple or dict of trees. The tree has the shape of one record, so what a record
names `"src"` is `batch["src"]`, and pairs are unpacked as `for x, y in loader`.
"""

from headrace.batch.collate import collate
from headrace.batch.column import Column
from headrace.batch.columns import Bytes, Objects, Ragged, Strings
from headrace.batch.convert import to_arrow, to_torch
from headrace.batch.pad import pad
from headrace.batch.sparse import Sparse
from headrace.batch.tree import leaves, map_leaves, num_rows

__all__ = [
    "Bytes",
    "Column",
    "Objects",
    "Ragged",
    "Sparse",
    "Strings",
    "collate",
    "leaves",
    "map_leaves",
    "num_rows",
    "pad",
    "to_arrow",
    "to_torch",
]
