"""The fluent surface: what a user chains. Each method makes the node of one operation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from headrace.batch.tree import records
from headrace.checks import flag_of, list_of, whole_of
from headrace.clock import Clock
from headrace.dataset import order
from headrace.dataset.arguments import check_function
from headrace.dataset.batch_ops import as_columns
from headrace.dataset.batches import ELSEWHERE, elsewhere
from headrace.dataset.batching import Batching
from headrace.dataset.choice import Concat
from headrace.dataset.examples import ParseExample
from headrace.dataset.filter import Filter
from headrace.dataset.images import DecodeImage
from headrace.dataset.length_filter import LengthFilter
from headrace.dataset.map import Map
from headrace.dataset.node import Node, Numbering, Records, check_depth, steps
from headrace.dataset.survivors import Survivors
from headrace.dataset.tokens import PerColumn, Tokens
from headrace.errors import PlanError
from headrace.formats.example import ExampleSchema
from headrace.formats.features import Feature
from headrace.formats.files import check_separators
from headrace.formats.images import Fit, Interpolation, PixelType, Ratio, image_decoder
from headrace.vocab import Vocab


class Dataset(Batching):
    """Records in an order, described but not read.

    Made by `read_text`, `from_arrays`, `from_dataset`, `from_iterable`, `zip`, `concat`, `interleave` and `mix`. All
    methods return a new dataset and leave this one as it is. Nothing is read before a `Loader` runs, so making one is
    cheap.

    Example:
        >>> import headrace as hr
        >>> data = hr.from_dataset(range(10)).shuffle(seed=7).map(lambda n: n * n).batch(4)
        >>> [batch.tolist() for batch in hr.Loader(data)]
        [[49, 36, 81, 0], [16, 9, 1, 25], [4, 64]]
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._built: Records | None = None  # for looking at it; kept, so that data[i] in a loop compiles once

    def __getstate__(self) -> Node:
        return self._node

    def __setstate__(self, node: Node) -> None:
        self.__init__(node)  # type: ignore[misc]

    def __repr__(self) -> str:
        return " → ".join(steps(self._node))

    def __getattr__(self, name: str) -> Any:
        raise elsewhere(self, name, ELSEWHERE)

    # order ---------------------------------------------------------------------------------------------------------

    def shuffle(self, *, seed: int = 0, window: int | None = None) -> Dataset:
        """Puts the records in a random order, another one each epoch.

        The order is a seeded permutation that needs no memory and no start-up time, whatever the number of records; it
        is written down in `docs/specs/permutation.md` and never changes for a given version.

        Args:
            seed: Any integer; the same seed gives the same orders.
            window: Shuffle only inside windows of so many neighbouring records, which keeps reading nearly sequential;
                None shuffles everything with everything.

        Raises:
            PlanError: If `window` is below 1; when compiled, if the number of records isn't known.

        Example:
            >>> import headrace as hr
            >>> list(hr.from_dataset(range(6)).shuffle(seed=1))
            [3, 2, 4, 0, 5, 1]
        """
        seed = whole_of("shuffle", "seed", seed, None)
        return Dataset(
            order.shuffle(self._node, seed, None if window is None else whole_of("shuffle", "window", window, 1))
        )

    def repeat(self, count: int | None = None) -> Dataset:
        """Makes one epoch of several passes; a shuffle before it has another order in each pass.

        Args:
            count: Passes; None never ends.

        Raises:
            PlanError: If `count` is below 1; when compiled, if the number of records isn't known.

        Example:
            >>> import headrace as hr
            >>> list(hr.from_dataset(range(3)).shuffle(seed=1).repeat(2))
            [2, 0, 1, 2, 1, 0]
        """
        return Dataset(order.repeat(self._node, None if count is None else whole_of("repeat", "count", count, 1)))

    def take(self, count: int) -> Dataset:
        """The first `count` records; all, if there are fewer.

        Args:
            count: How many.

        Raises:
            PlanError: If `count` is negative.

        Example:
            >>> import headrace as hr
            >>> list(hr.from_dataset("abc").take(2))
            ['a', 'b']
        """
        count = whole_of("take", "count", count, 0)
        return Dataset(order.slice_(self._node, f"take({count})", 0, count))

    def skip(self, count: int) -> Dataset:
        """All records but the first `count`.

        Args:
            count: How many.

        Raises:
            PlanError: If `count` is negative.

        Example:
            >>> import headrace as hr
            >>> list(hr.from_dataset("abc").skip(2))
            ['c']
        """
        count = whole_of("skip", "count", count, 0)
        return Dataset(order.slice_(self._node, f"skip({count})", count, None))

    def slice(self, start: int, stop: int | None = None, step: int = 1) -> Dataset:
        """Every `step`-th record from `start` to before `stop`, as Python's slices but without negative numbers.

        Args:
            start: The first position.
            stop: The position to end before; None is the end.
            step: Positions from one record to the next.

        Raises:
            PlanError: If `start` or `stop` is negative or `step` below 1.

        Example:
            >>> import headrace as hr
            >>> list(hr.from_dataset(range(10)).slice(1, 8, 3))
            [1, 4, 7]
        """
        start, step = whole_of("slice", "start", start, 0), whole_of("slice", "step", step, 1)
        stop = None if stop is None else whole_of("slice", "stop", stop, 0)
        return Dataset(order.slice_(self._node, f"slice({start}, {stop}, {step})", start, stop, step))

    def shard(self, count: int, index: int) -> Dataset:
        """One of `count` parts of like size: records `index`, `index + count`, and so on.

        A loader divides batches among ranks by itself (`Loader(rank=…, world_size=…)`); this is for parts that are
        meant to stay apart.

        Args:
            count: How many parts there are.
            index: Which of them, from 0 on.

        Raises:
            PlanError: If `index` isn't within 0 … count−1.

        Example:
            >>> import headrace as hr
            >>> list(hr.from_dataset(range(10)).shard(3, 1))
            [1, 4, 7]
        """
        count, index = whole_of("shard", "count", count, 1), whole_of("shard", "index", index, 0)
        if index >= count:
            raise PlanError(f"shard: index is within 0 … count−1, got index {index} of count {count}")
        return Dataset(order.slice_(self._node, f"shard({count}, {index})", index, None, count))

    def concat(self, *others: Dataset) -> Dataset:
        """These records, then those of the others.

        Args:
            others: Datasets.

        Raises:
            PlanError: If one is something else; when compiled, if a stream isn't the last.

        Example:
            >>> import headrace as hr
            >>> list(hr.from_dataset([1, 2]).concat(hr.from_dataset([3])))
            [1, 2, 3]
        """
        return Dataset(Concat((self._node, *dataset_nodes("concat", others))))

    def filter_length(
        self, min: int = 1, max: int | None = None, *, columns: str | Sequence[str] | None = None
    ) -> Dataset:
        """Leaves out records that are too short or too long, without reading them.

        Args:
            min: Items that each column has at least.
            max: Items that each column has at most.
            columns: The columns that count; None counts all whose lengths the index knows (tokens of texts).

        Raises:
            PlanError: If `max` is below `min`; when compiled, if lengths aren't known or the order was changed before.

        Example:
            >>> import headrace as hr
            >>> rows = hr.Ragged.from_rows([[1], [], [2, 2], [3, 3, 3]])
            >>> [row.tolist() for row in hr.from_arrays(rows).filter_length(1, 2)]
            [[1], [2, 2]]
        """
        min = whole_of("filter_length", "min", min, 0)
        max = None if max is None else whole_of("filter_length", "max", max, 0)
        if max is not None and max < min:
            raise PlanError(f"filter_length: max is at least min, or nothing would be left, got min={min}, max={max}")
        return Dataset(LengthFilter(self._node, min, max, as_columns(columns)))

    def filter(self, fn: Callable[[Any], Any], *, batched: bool = False, block: int = 256) -> Dataset:
        """Keeps the records for which a function says yes.

        Records are read and filtered in blocks of positions, each of which any worker can do; a saved position is a
        block and a place in it, so restoring reads one block at most again. `take`, `skip`, `slice` and `shard` after
        a filter count what it left; `zip` and `mix` take that as a stream, read in your thread. Every rank filters all
        records.

        Args:
            fn: Takes a record and gives a bool. It must be a function of the record alone.
            batched: Call it with the columns of many records instead; it gives an array of as many bools.
            block: Positions a block. Of several filters the smallest counts.

        Raises:
            PlanError: If `block` is below 1; in the run, if a dataset that is repeated without end has nothing left.

        Example:
            >>> import numpy as np
            >>> import headrace as hr
            >>> data = hr.from_arrays(np.arange(20)).shuffle(seed=1).filter(lambda n: n % 3 == 0)
            >>> [batch.tolist() for batch in hr.Loader(data.batch(4))]
            [[12, 6, 9, 3], [18, 15, 0]]
        """
        check_function("filter", fn)
        batched = flag_of("filter", "batched", batched)
        return Dataset(Filter(self._node, fn, batched, whole_of("filter", "block", block, 1)))

    # records -------------------------------------------------------------------------------------------------------

    def map(self, fn: Callable[..., Any], *, rng: bool = False, seed: int = 0) -> Dataset:
        """Replaces each record by what a function makes of it.

        An error that the function raises comes to the consumer as itself, with a note that names the record.

        Args:
            fn: Takes a record: a value, tuple or dict as the source gives it.
            rng: Hand the function a `numpy.random.Generator` as second argument. Its numbers depend on the seed, the
                epoch and the record alone, never on workers or on the order.
            seed: Of those numbers.

        Raises:
            PlanError: If `fn` is no function or `seed` no whole number.
            DataError: In the run, if the function gives None.

        Example:
            >>> import headrace as hr
            >>> noisy = hr.from_dataset(range(3)).map(lambda n, rng: n + 0.1 * rng.integers(10), rng=True, seed=5)
            >>> list(noisy) == list(noisy)
            True
        """
        check_function("map", fn)
        seed = whole_of("map", "seed", seed, None)
        return Dataset(Map(self._node, fn, seed if flag_of("map", "rng", rng) else None))

    def tokens(
        self,
        vocab: PerColumn[Vocab],
        *,
        max_length: PerColumn[int] | None = None,
        bos: PerColumn[str] | None = None,
        eos: PerColumn[str] | None = None,
        separators: str | None = None,
    ) -> Dataset:
        """Replaces texts by the ids of their tokens: split at whitespace, look up, cut, add begin and end.

        Every argument is one value for all columns, a sequence with one for each, or a dict by column name. Texts that
        come straight from files are read, split and looked up in one native pass.

        Args:
            vocab: Gives the ids; words it doesn't have get its unknown id.
            max_length: Tokens kept of a text, not counting begin and end.
            bos: Token of the vocabulary to put before each text.
            eos: Token of the vocabulary to put after each text.
            separators: The characters that separate tokens; None takes those of `read_text`, else white space.

        Raises:
            PlanError: When compiled, if a column or a token isn't there.

        Example:
            >>> import headrace as hr
            >>> vocab = hr.Vocab(["<unk>", "</s>", "the", "mill"])
            >>> texts = hr.from_arrays(hr.Strings.from_rows(["the mill", "the wheel"]))
            >>> [ids.tolist() for ids in texts.tokens(vocab, eos="</s>")]
            [[2, 3, 1], [2, 0, 1]]
        """
        check_separators(separators)
        return Dataset(Tokens(self._node, vocab, max_length, bos, eos, separators))

    def parse_example(self, features: Mapping[str, Feature]) -> Dataset:
        """Replaces `tf.train.Example` messages by dicts of their features, in one native call a batch.

        Args:
            features: By key in the message: `FixedLen`, `VarLen`, `FixedLenSequence`, `SparseFeature`, `RaggedFeature`.

        Raises:
            ValueError: If there is no feature.

        Example:
            >>> import headrace as hr
            >>> messages = hr.from_dataset([hr.encode_example({"x": [1.0, 2.0], "ids": [5]})])
            >>> record = messages.parse_example({"ids": hr.VarLen("int64"), "x": hr.FixedLen(2, "float32")})[0]
            >>> record["ids"].tolist(), record["x"].tolist()
            ([5], [1.0, 2.0])
        """
        return Dataset(ParseExample(self._node, ExampleSchema(features)))

    def parse_sequence_example(self, context: Mapping[str, Feature], sequences: Mapping[str, Feature]) -> Dataset:
        """As `parse_example`, for `tf.train.SequenceExample`; the dict has the features of both.

        Args:
            context: Features of the context.
            sequences: Features of the lists: `FixedLenSequence`, `VarLen`, `RaggedFeature` without partitions.

        Raises:
            ValueError: If there is no feature, or a name comes in both.

        Example:
            >>> import headrace as hr
            >>> message = hr.encode_sequence_example({"id": 7}, {"words": ["to", "the", "mill"]})
            >>> data = hr.from_dataset([message])
            >>> data.parse_sequence_example({"id": hr.FixedLen((), "int64")}, {"words": hr.VarLen("str")})[0]["id"]
            np.int64(7)
        """
        return Dataset(ParseExample(self._node, ExampleSchema(context, sequences)))

    def decode_image(
        self,
        column: str = "",
        *,
        channels: int = 3,
        size: int | tuple[int, int] | None = None,
        fit: Fit = "stretch",
        ratio: Ratio = 1,
        interpolation: Interpolation = "bilinear",
        dtype: PixelType = "uint8",
    ) -> Dataset:
        """Replaces the bytes of JPEG, PNG, BMP and GIF pictures by arrays of shape `(height, width, channels)`.

        Pillow decodes (`pip install 'headrace[image]'`), without the interpreter lock: a loader's workers decode at the
        same time. Without `size`, pictures of different sizes can't be in one batch; a `map` may cut them to one.

        Args:
            column: The column of the pictures; `""` where records are nothing but their bytes.
            channels: 1 grey, 3 colours, 4 colours and alpha (2: grey and alpha); 0 as each picture has it.
            size: Height and width that all pictures come to, or one number for both; None keeps theirs.
            fit: `"stretch"` changes both sides as need be; `"crop"` keeps proportions and takes the middle; `"pad"`
                keeps them and fills up with black.
            ratio: 2, 4 or 8 gives pictures of a half, a quarter or an eighth of both sides, of which JPEG files are
                decoded in less time; `"auto"` takes the largest by which JPEG pictures aren't smaller than `size`.
            interpolation: `"nearest"`, `"bilinear"`, `"bicubic"` or `"lanczos"`; all but the first look at each pixel.
            dtype: `"uint8"`, or `"float32"` for numbers from 0 to 1.

        Raises:
            PlanError: If an argument is out of range; when compiled, if the column isn't there.
            ImportError: When compiled, if Pillow isn't installed.

        Example:
            >>> import io, PIL.Image, headrace as hr
            >>> file = io.BytesIO()
            >>> PIL.Image.new("RGB", (640, 480)).save(file, "JPEG")
            >>> data = hr.from_dataset([{"image": file.getvalue(), "label": 3}]).decode_image("image", size=224)
            >>> next(iter(hr.Loader(data.batch(1))))["image"].shape
            (1, 224, 224, 3)
        """
        decoder = image_decoder(channels, size, fit, ratio, interpolation, dtype)
        if not isinstance(column, str):
            raise PlanError(f"decode_image: column is a text, got {column!r:.60}; call it once for each column")
        return Dataset(DecodeImage(self._node, column, decoder))

    # looking at it -------------------------------------------------------------------------------------------------

    def _build(self) -> Records:
        if self._built is not None:
            return self._built
        check_depth(self._node)
        numbering = Numbering()
        built = self._node.build(numbering)
        if not numbering.streams:  # those have a place in them, which two who look must not share
            self._built = built
        return built

    def __len__(self) -> int:
        """Records an epoch.

        Raises:
            TypeError: If it isn't known (a stream, a filter) or endless.
        """
        length = self._build().plan.length
        # Nobody knows where a stream ends, even after take(), or what a filter will leave.
        if length is None or self._built is None or self._built.sifted is not None:
            raise TypeError("this dataset is a stream, filtered or endless: the number of its records isn't known")
        return length

    def __getitem__(self, position: SupportsIndex) -> Any:
        """The record at a position of epoch 0; for looking at data, not for training.

        Raises:
            TypeError: If the position is no whole number, or records can't be told by their places: of a filter.
            IndexError: If there is no such record.
        """
        built = self._build()
        try:
            i = operator.index(position)
        except TypeError:
            raise TypeError(f"records of a dataset are asked for by whole numbers, got {position!r:.60}") from None
        if built.sifted is not None:
            raise TypeError("a filtered dataset can only be gone through: which record stands where isn't known")
        if built.plan.length is not None:
            if not -built.plan.length <= i < built.plan.length:
                raise IndexError(f"there is no record {i} in a dataset of {built.plan.length} records")
            i %= built.plan.length
        rows = built.plan.locate(0, np.array([i]))
        if not built.reader.advance(rows, np.ones(1, bool)):
            raise IndexError(f"the stream has no record {i}")
        return next(records(built.reader.read(rows, Clock())))

    def __iter__(self) -> Iterator[Any]:
        """The records of epoch 0 one by one; for looking at data, not for training."""
        built = self._build()
        return Survivors(built, streams=self._built is None)


def dataset_nodes(operation: str, parts: Iterable[Any]) -> list[Node]:
    """The nodes of datasets that are joined.

    Raises:
        PlanError: If one is something else.
        TypeError: If they aren't a list.
    """
    parts = list_of(operation, "parts", parts, "datasets")
    for number, part in enumerate(parts):
        if not isinstance(part, Dataset):
            raise PlanError(
                f"{operation} takes datasets, got {type(part).__name__} in place {number}; make one with "
                "from_arrays, from_dataset, read_text or from_iterable, and join them before batch()"
            )
    return [part._node for part in parts]
