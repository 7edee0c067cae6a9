"""Tables that make numbers of words and words of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.dtypes import DType, as_bytes, as_dtype, as_value, int64, string
from headrace.tf1.fingerprint import fingerprint64
from headrace.tf1.graph import Operation, Tensor, add_op, constant_value, convert, get_default_graph
from headrace.tf1.ops import group
from headrace.tf1.session import Run
from headrace.tf1.sparse import SparseTensor

__all__ = [
    "LookupTable",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "tables_initializer",
]

TABLES = "table_initializer"


class LookupTable:
    """A table in a graph; each session fills its own when the initializer runs."""

    def __init__(
        self,
        load: Callable[[], Any],
        find: Callable[[Any, Any], Any],
        key_dtype: DType,
        value_dtype: DType,
        name: str,
        buckets: int = 0,
    ):
        self.name = get_default_graph().unique_name(name)
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self._find = find
        self._buckets = buckets
        self._content: Callable[[Run], list[Any]] = lambda run: run.resource(f"table/{self.name}", list)
        self.init = add_op("InitializeTable", lambda run: self._fill(run, load), name=f"{self.name}/init")
        get_default_graph().add_to_collection(TABLES, self.init)

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return self.init

    def _fill(self, run: Run, load: Callable[[], Any]) -> None:
        content = self._content(run)
        if not content:
            content.append(load())

    def _loaded(self, run: Run) -> Any:
        content = self._content(run)
        if not content:
            raise errors.FailedPreconditionError(
                None, None, f"Table '{self.name}' not initialized: run tf.tables_initializer() first."
            )
        return content[0]

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """What the table has for each key.

        Raises:
            TypeError: If the keys are of another type.
            FailedPreconditionError: When it runs before the table is filled.
        """
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values), keys.dense_shape)
        x = convert(keys)
        if x.dtype != self.key_dtype and not (x.dtype.name == "int32" and self.key_dtype == int64):
            raise TypeError(f"expected keys of {self.key_dtype.name}, got {x.dtype.name}")
        kind = self.value_dtype.as_numpy_dtype

        def compute(run: Run, words: Any) -> Any:
            content = self._loaded(run)
            if np.ndim(words) == 0:
                found = self._find(content, words)
                return found if isinstance(found, bytes) else kind(found)
            flat = np.empty(np.size(words), kind)
            flat[:] = [self._find(content, word) for word in words.reshape(-1).tolist()]
            return flat.reshape(words.shape)

        return add_op("LookupTableFind", compute, [x], [(self.value_dtype, x.shape)], name).outputs[0]

    def size(self, name: str | None = None) -> Tensor:
        """The number of entries, with the buckets for words that aren't in it."""
        compute = lambda run: np.int64(len(self._loaded(run)) + self._buckets)  # noqa: E731
        return add_op("LookupTableSize", compute, (), [(int64, ())], name).outputs[0]


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Fills all tables of the graph."""
    return group(*get_default_graph().get_collection(TABLES), name=name)


initialize_all_tables = tables_initializer


def _lines(path: Any, vocab_size: int | None) -> list[bytes]:
    name = constant_value(path)
    text = name.decode() if isinstance(name, bytes) else str(name)
    words: list[bytes] = []
    with open(text, "rb") as file:
        for line in file:
            if vocab_size is not None and len(words) == vocab_size:
                break
            word = line.removesuffix(b"\n").removesuffix(b"\r")
            if not word:
                raise errors.InvalidArgumentError(
                    None, None, f"Invalid content in {text}: line {len(words) + 1} is empty."
                )
            words.append(word)
    if not words:
        raise errors.OutOfRangeError(None, None, f"{text} holds no word")
    if vocab_size is not None and len(words) < vocab_size:
        raise errors.InvalidArgumentError(
            None, None, f"Invalid vocab_size in {text}: expected {vocab_size} but got {len(words)}"
        )
    return words


def _numbers(words: Iterable[bytes], where: str) -> dict[bytes, int]:
    table: dict[bytes, int] = {}
    for number, word in enumerate(words):
        if table.setdefault(word, number) != number:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"{where}: {word!r} stands on lines {table[word] + 1} and {number + 1}; words must be unique",
            )
    return table


def _index_table(load: Callable[[], Any], buckets: int, default: int, name: str, dtype: DType = string) -> LookupTable:
    if buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {buckets}.")

    def find(table: dict[bytes, int], word: Any) -> int:
        number = table.get(word)
        if number is not None:
            return number
        if not buckets:
            return default
        text = word if isinstance(word, bytes) else str(word).encode()
        return len(table) + fingerprint64(text) % buckets

    return LookupTable(load, find, dtype, int64, name, buckets)


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = None,
    key_dtype: Any = string,
    name: str | None = None,
    **ignored: Any,
) -> LookupTable:
    """Numbers of words: the line, from 0, that each has in a file.

    Args:
        vocabulary_file: The file, one word a line.
        num_oov_buckets: How many numbers behind the last are for words that the file doesn't have.
        vocab_size: How many lines count; all if not given.
        default_value: The number of such words without buckets.
        hasher_spec: Ignored: FarmHash is used.
        key_dtype: Ignored: words are strings.
        name: Of the operations.
        **ignored: Columns and delimiters, which whole lines don't need.

    Raises:
        ValueError: Without a file, or with fewer than 0 buckets.
        InvalidArgumentError: When it is filled: for an empty line, or fewer than `vocab_size` lines.
        FailedPreconditionError: When it is filled: for a word that comes twice.
    """
    if vocabulary_file is None or (vocab_size is not None and vocab_size < 1):
        raise ValueError("vocabulary_file must be specified, and vocab_size be greater than 0")
    where = str(vocabulary_file)
    load = lambda: _numbers(_lines(vocabulary_file, vocab_size), where)  # noqa: E731
    return _index_table(load, num_oov_buckets, default_value, name or "string_to_index")


def index_table_from_tensor(
    vocabulary_list: Any = None,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = string,
    name: str | None = None,
    mapping: Any = None,
) -> LookupTable:
    """Numbers of words: the place that each has in a list; the other arguments are those of `index_table_from_file`."""
    given = vocabulary_list if vocabulary_list is not None else mapping
    if given is None:
        raise ValueError("vocabulary_list must be specified.")
    words = as_value(constant_value(given)).reshape(-1).tolist()
    load = lambda: _numbers(words, "the list of words")  # noqa: E731
    kind = string if words and isinstance(words[0], bytes) else as_dtype(int64)
    return _index_table(load, num_oov_buckets, default_value, name or "string_to_index", kind)


def _string_table(load: Callable[[], list[bytes]], default: Any, name: str) -> LookupTable:
    other = as_bytes(default)
    find = lambda words, number: words[number] if 0 <= number < len(words) else other  # noqa: E731
    return LookupTable(load, find, int64, string, name)


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: Any = "UNK",
    name: str | None = None,
    **ignored: Any,
) -> LookupTable:
    """Words of numbers: the lines of a file, from 0; others give `default_value`."""
    load = lambda: _lines(vocabulary_file, vocab_size)  # noqa: E731
    return _string_table(load, default_value, name or "index_to_string")


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: Any = "UNK", name: str | None = None
) -> LookupTable:
    """Words of numbers: the places in a list, from 0; others give `default_value`."""
    words = [as_bytes(w) for w in as_value(constant_value(vocabulary_list), string).reshape(-1).tolist()]
    return _string_table(lambda: words, default_value, name or "index_to_string")
