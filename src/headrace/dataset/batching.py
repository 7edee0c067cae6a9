"""How records become batches: the methods of a dataset that end in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from headrace.checks import flag_of, whole_of
from headrace.dataset.arguments import size
from headrace.dataset.batch import Batch, Bucket, growing_boundaries, width_boundaries
from headrace.dataset.batch_ops import as_columns
from headrace.dataset.batches import Batches
from headrace.dataset.node import Node
from headrace.dataset.pack import Pack, check_value
from headrace.errors import PlanError
from headrace.plan.bucket import check_bucket
from headrace.plan.pack import Overlong, Strategy, check_pack

if TYPE_CHECKING:
    from headrace.dataset.lengths import LengthKey


class Batching:
    """What a `Dataset` can do to become batches."""

    _node: Node

    def batch(self, size: int, *, drop_remainder: bool = False, ragged: str | Sequence[str] = ()) -> Batches:
        """Puts so many records together at a time.

        Args:
            size: Records a batch, over all ranks.
            drop_remainder: Leave out the last batch of an epoch if it has fewer.
            ragged: Columns (of records made by Python code) whose rows vary in length.

        Raises:
            PlanError: If `size` is below 1.

        Example:
            >>> import headrace as hr
            >>> [batch.tolist() for batch in hr.Loader(hr.from_dataset(range(5)).batch(2))]
            [[0, 1], [2, 3], [4]]
        """
        size, drop_remainder = whole_of("batch", "size", size, 1), flag_of("batch", "drop_remainder", drop_remainder)
        return Batches(Batch(self._node, size, drop_remainder, as_columns(ragged) or ()))

    def bucket(
        self,
        batch_size: int | Sequence[int] | None = None,
        *,
        max_tokens: int | None = None,
        width: int | None = None,
        num_buckets: int = 64,
        boundaries: Sequence[int] | None = None,
        by: str | Sequence[str] | LengthKey | None = None,
        window: int | Literal["auto"] | None = "auto",
        drop_remainder: bool = False,
        ragged: str | Sequence[str] = (),
    ) -> Batches:
        """Puts records of like length together, so that little is padding.

        Records join the bucket of their length in the order they come; a full bucket comes out as a batch at once, and
        what is left at the end of a window comes out shortest first. Lengths are those of the index, so nothing is
        read to plan this, and the plan is exact: the same batches for any workers, and a saved position is a few
        numbers. (tf.data's `group_by_window` gives the same batches where the window is the whole epoch.) Where no
        index knows them (after `parse_example` or `map`, in streams), and after `filter`, the same batches are made of
        records that have been read: every rank then reads all, and restoring reads a window again.

        Args:
            batch_size: Records a batch, over all ranks: one number, or one for each bucket (one more than boundaries).
                Give this or `max_tokens`.
            max_tokens: Items that a padded column of a batch has at most; a record longer than that is alone in its
                batch.
            width: Lengths a bucket spans: bucket *i* holds lengths from `i·width` to before `(i+1)·width`.
            num_buckets: With `width`: how many such buckets there are; longer records share one more.
            boundaries: Instead of `width`, the lengths at which a new bucket begins, ascending. By default they are 4
                apart at first and an eighth apart further on.
            by: The column whose length counts, or several of which the longest counts (by default all known), or a
                function of a dict of length arrays that gives one integer array.
            window: Records that are planned together, of which a few batches at the end may not be full; None is the
                whole epoch. `"auto"` is 1,000 batches, or 131,072 records with `max_tokens`.
            drop_remainder: Leave out batches that aren't full at the end of a window.
            ragged: As for `batch`; columns named in `by` are among them.

        Raises:
            PlanError: If not exactly one of `batch_size` and `max_tokens` is given, or an argument is out of range.
            DataError: In the run, if records have no lengths.

        Example:
            >>> import headrace as hr
            >>> rows = hr.Ragged.from_rows([[1], [2, 2, 2], [3], [4, 4, 4]])
            >>> data = hr.from_arrays(rows).bucket(batch_size=2, width=2).pad(lengths=False)
            >>> [batch.tolist() for batch in hr.Loader(data)]
            [[[1], [3]], [[2, 2, 2], [4, 4, 4]]]
        """
        width = size("bucket", "width", width)
        num_buckets = whole_of("bucket", "num_buckets", num_buckets, 1)
        if width is not None and boundaries is not None:
            raise PlanError("bucket takes width or boundaries, not both")
        if width is not None:
            boundaries = width_boundaries(width, num_buckets)
        elif boundaries is None:
            boundaries = growing_boundaries()
        sizes, max_tokens, edges = check_bucket(batch_size, max_tokens, boundaries)
        if isinstance(window, str) and window == "auto":
            window = 131_072 if sizes is None else 1000 * (max(sizes) if isinstance(sizes, tuple) else sizes)
        window = size("bucket", "window", window)
        key = by if callable(by) else as_columns(by)
        rows, drop_remainder = as_columns(ragged) or (), flag_of("bucket", "drop_remainder", drop_remainder)
        return Batches(Bucket(self._node, sizes, max_tokens, edges, key, window, drop_remainder, rows))

    def pack(
        self,
        length: int,
        *,
        batch_size: int,
        strategy: Strategy = "first-fit",
        columns: str | Sequence[str] | None = None,
        overlong: Overlong = "raise",
        window: int | Literal["auto"] | None = "auto",
        drop_remainder: bool = False,
        value: float = 0,
    ) -> Batches:
        """Packs several records into each row of a batch, so that next to nothing is padding.

        A batch is a dict of arrays of shape `(batch_size, length)`: the packed columns (of bare rows `"tokens"`),
        `"segment_ids"`, which counts the records of each row from 1 (0 where no record is), and `"position_ids"`, the
        place in the record, from 0. Other columns are left out. Lengths are those of the index, so nothing is read to
        plan this; the plan is exact, and a saved position is a few numbers. Several ranks divide the rows of a batch.
        `Batches.fill` tells how full the rows are. Where no index knows lengths (after `map`, in streams), and after
        `filter`, the same rows are made of records that have been read: every rank then reads all, a window of them is
        held, and restoring reads a window again.

        Args:
            length: Items a row.
            batch_size: Rows a batch, over all ranks. The last batch of a window may have fewer.
            strategy: `"first-fit"` puts each record into the first row that has room for it, `"best-fit"` into the one
                that it fits most closely; no record is divided. `"concat"` puts records one after another and cuts them
                wherever a row ends.
            columns: The columns that are packed, whose lengths must be the same in each record; None takes all that
                have lengths.
            overlong: What becomes of records longer than a row: `"raise"` refuses them, `"split"` makes pieces of them,
                `"cut"` keeps their beginning, `"drop"` leaves them out. With `"concat"` none is too long.
            window: Records that are packed together; None is the whole epoch, `"auto"` 16,384.
            drop_remainder: Leave out batches that have fewer rows, at the end of a window.
            value: What packed columns hold where no record is.

        Raises:
            PlanError: If an argument is out of range.
            DataError: In the run, if a record is too long or has no length, or columns to be packed differ in length.

        Example:
            >>> import headrace as hr
            >>> rows = hr.Ragged.from_rows([[1, 1, 1], [2, 2], [3, 3, 3], [4]])
            >>> batch = next(iter(hr.Loader(hr.from_arrays(rows).pack(5, batch_size=2))))
            >>> batch["tokens"].tolist(), batch["segment_ids"].tolist()
            ([[1, 1, 1, 2, 2], [3, 3, 3, 4, 0]], [[1, 1, 1, 2, 2], [1, 1, 1, 2, 0]])
        """
        length, batch_size = check_pack(length, batch_size, strategy, overlong)
        window = 16_384 if isinstance(window, str) and window == "auto" else size("pack", "window", window)
        drop_remainder = flag_of("pack", "drop_remainder", drop_remainder)
        names = as_columns(columns)
        if names == ():
            raise PlanError("pack: columns names one column at least; leave it out to pack all with known lengths")
        node = Pack(
            self._node, length, batch_size, strategy, names, overlong, window, drop_remainder, check_value(value)
        )
        return Batches(node)
