"""Where descriptions begin: a function for each kind of source, and for each way of joining datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from headrace.batch.tree import Tree
from headrace.checks import flag_of, whole_of
from headrace.dataset.arguments import size
from headrace.dataset.choice import Concat, Interleave, Mix
from headrace.dataset.dataset import Dataset, dataset_nodes
from headrace.dataset.leaf import SourceNode
from headrace.dataset.zip import Zip, check_names
from headrace.errors import PlanError
from headrace.formats.arrays import ArraySource
from headrace.formats.files import Paths
from headrace.formats.objects import Indexable, LengthsOf, ObjectSource
from headrace.formats.sidecar import IndexMode
from headrace.formats.stream import StreamSource
from headrace.formats.text import TextSource
from headrace.plan.mix import Ending, check_mix


def read_text(
    files: Paths, *, index: IndexMode = "auto", separators: str | None = None, check_utf8: bool = False
) -> Dataset:
    r"""Reads lines of text files, in any order, by an index of where they start.

    The index (line starts and numbers of tokens) is made in one pass at about the speed of memory and kept beside each
    file as `<file>.hrindex`; it is checked before use and made anew when the file has changed. Lines end with LF or
    CRLF; the last one needs none. Files that end in `.gz` or `.zst` are unpacked when opened (the latter needs
    `headrace[zstd]`).

    Args:
        files: A file, a glob pattern (its files in sorted order), or a list of those.
        index: `"auto"` uses and keeps sidecars, `"memory"` makes the index anew and keeps it in memory, `"rebuild"`
            replaces the sidecar.
        separators: The characters that separate tokens; None means blank, tab, CR, VT and FF.
        check_utf8: Refuse files that aren't valid UTF-8, naming line and byte.

    Raises:
        FileNotFoundError: If a file isn't there or a pattern matches none.
        IsADirectoryError: If a path is a directory.
        DataError: If a file can't be unpacked or isn't valid UTF-8.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "greetings.txt")
        >>> _ = path.write_text("guten Morgen\ngute Nacht\n")
        >>> list(hr.read_text(path))
        ['guten Morgen', 'gute Nacht']
        >>> folder.cleanup()
    """
    check_utf8 = flag_of("read_text", "check_utf8", check_utf8)
    return Dataset(SourceNode(TextSource(files, index=index, separators=separators, check_utf8=check_utf8)))


def from_arrays(arrays: Tree) -> Dataset:
    """Takes the rows of arrays as records.

    Args:
        arrays: An array, or a tuple or dict of arrays with the same number of rows; `Ragged` and `Strings` columns and
            memory maps are arrays too. A batch has the same structure.

    Raises:
        DataError: If the numbers of rows differ, or an array holds Python objects.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> data = hr.from_arrays({"x": np.arange(6).reshape(3, 2), "y": np.array([0, 1, 0])}).batch(2)
        >>> next(iter(hr.Loader(data)))["x"].tolist()
        [[0, 1], [2, 3]]
    """
    return Dataset(SourceNode(ArraySource(arrays)))


def from_dataset(items: Indexable, *, lengths: ArrayLike | LengthsOf | None = None) -> Dataset:
    """Takes the items of any Python object with `__len__` and `__getitem__` as records.

    An object that has `__getitems__` is asked for a whole batch in one call. Worker threads call the object at the
    same time; it must bear that, as reading from lists, arrays and files opened anew does.

    Args:
        items: The object: a list, a torch dataset, one of your own.
        lengths: One integer for each record, for `bucket` and `pack`; or a function that takes an array of record
            numbers and gives their lengths, where the records are too many for an array of them all.

    Raises:
        TypeError: If the object can't be indexed.
        DataError: If there is not one length for each record.

    Example:
        >>> import headrace as hr
        >>> len(hr.from_dataset(["a", "b", "c"]))
        3
    """
    return Dataset(SourceNode(ObjectSource(items, lengths)))


def from_iterable(items: Iterable[Any] | Callable[[], Iterable[Any]]) -> Dataset:
    """Takes the items of an iterable as records, in the order they come.

    Their number isn't known, so `shuffle` (but for `shuffle(window=…)` right after it) and `repeat` can't be used, not
    even after `take`, and in a `concat` they come last. With several ranks, each iterates all of it and keeps its own
    records. Restoring a saved position starts the iterable again and passes over what was read; unless it, or its
    iterator, has `state_dict()` and `load_state_dict(state)`: then its state (for JSON) is part of the loader's, and
    it goes on from there. Such an object is best made anew by a function, since each loader sets its own.

    Args:
        items: An iterable that can be iterated anew each epoch, or a function that returns one. A bare generator can
            be read for one epoch only.

    Example:
        >>> import headrace as hr
        >>> data = hr.from_iterable(lambda: (n * n for n in range(5))).batch(2)
        >>> [batch.tolist() for batch in hr.Loader(data)]
        [[0, 1], [4, 9], [16]]
    """
    return Dataset(SourceNode(StreamSource(items)))


def zip_(*parts: Dataset, shortest: bool = False, **named: Dataset) -> Dataset:
    """Puts records of several datasets side by side: the first of each, the second of each, and so on.

    Args:
        parts: Datasets whose records become the parts of tuples.
        shortest: End with the shortest, instead of refusing datasets of different lengths.
        named: Datasets whose records become the values of dicts, instead of `parts`.

    Raises:
        PlanError: If parts are given both by position and by name, or not at all.
        DataError: When compiled, if the numbers of records differ; the message gives them all.

    Example:
        >>> import headrace as hr
        >>> pairs = hr.zip(n=hr.from_dataset([1, 2]), word=hr.from_dataset(["one", "two"]))
        >>> pairs[1]
        {'n': 2, 'word': 'two'}
    """
    if bool(parts) == bool(named):
        raise PlanError("zip takes datasets by position (tuples) or by name (dicts): at least one, and not both")
    check_names(list(named))
    shortest = flag_of("zip", "shortest", shortest)
    nodes = tuple(dataset_nodes("zip", parts or named.values()))
    return Dataset(Zip(nodes, tuple(named) if named else None, shortest))


def concat(*parts: Dataset) -> Dataset:
    """The records of the first dataset, then those of the second, and so on.

    Args:
        parts: The datasets.

    Raises:
        PlanError: If there is no dataset; when compiled, if a stream isn't the last.

    Example:
        >>> import headrace as hr
        >>> list(hr.concat(hr.from_dataset([1, 2]), hr.from_dataset([3])))
        [1, 2, 3]
    """
    if not parts:
        raise PlanError("concat needs at least one dataset")
    first, *rest = dataset_nodes("concat", parts)
    return Dataset(Concat((first, *rest)))


def interleave(parts: Iterable[Dataset], *, cycle_length: int | None = None, block_length: int = 1) -> Dataset:
    """The records of several datasets in turn, such as those of many files.

    The order is that of tf.data's `interleave`, and each position of it is computed, so it can be shuffled, sharded and
    resumed like any other: `cycle_length` datasets are open at a time and give `block_length` records each, one after
    the other. One that ends leaves its slot to the next that wasn't open yet, from that slot's next turn on. With
    `cycle_length=1` it is `concat`. Of datasets that were filtered all records have their turns, and then the filter
    leaves some out.

    Args:
        parts: The datasets, in the order in which they are opened.
        cycle_length: How many are open at a time; None opens all at once.
        block_length: Records that one gives in its turn.

    Raises:
        PlanError: If there is no dataset or an argument is below 1; when compiled, if one is a stream.

    Example:
        >>> import headrace as hr
        >>> parts = [hr.from_dataset([name] * count) for name, count in (("a", 3), ("b", 2), ("c", 2))]
        >>> "".join(hr.interleave(parts, cycle_length=2))
        'ababacc'
    """
    cycle_length = size("interleave", "cycle_length", cycle_length)
    block_length = whole_of("interleave", "block_length", block_length, 1)
    nodes = dataset_nodes("interleave", parts)
    if not nodes:
        raise PlanError("interleave needs at least one dataset")
    return Dataset(Interleave(tuple(nodes), cycle_length, block_length))


def mix(
    parts: Sequence[Dataset],
    weights: Sequence[float],
    *,
    seed: int | None = None,
    stop: Ending = "first",
) -> Dataset:
    """Mixes datasets in fixed proportions.

    The choices follow a pattern that spreads the datasets evenly, so every 64 neighbouring records hold each of them as
    often as its weight says, to within one or two; and a position says at once which record comes there.

    Args:
        parts: The datasets.
        weights: A positive number for each; only their ratios count.
        seed: Shuffle the choices among each 64 neighbours, anew each epoch; None follows the pattern as it is.
        stop: `"first"` ends when one dataset is used up; `"all"` goes on, starting used-up ones again, until every
            dataset has been read once.

    Raises:
        PlanError: If weights and datasets differ in number, or a weight isn't positive.

    Example:
        >>> import headrace as hr
        >>> a, b = hr.from_dataset(["a"] * 6), hr.from_dataset(["b"] * 2)
        >>> sorted(hr.mix([a, b], weights=[3, 1]))
        ['a', 'a', 'a', 'a', 'a', 'a', 'b', 'b']
    """
    nodes = dataset_nodes("mix", parts)
    shares, seed = check_mix(weights, len(nodes), seed, stop)
    return Dataset(Mix(tuple(nodes), shares, seed, stop))
