"""What a training loop iterates: batches in the plan's order, and the position among them."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from types import GeneratorType, TracebackType
from typing import Any, Literal

from headrace.batch.convert import deliver
from headrace.batch.tree import Tree
from headrace.blocks import Block, BlockStats, Share, assembler, first_block
from headrace.checks import one_of, whole_of
from headrace.clock import Clock
from headrace.dataset import Batches, compile_program
from headrace.engine import Mode, Result, Stats, run_inline
from headrace.errors import PlanError, StateError, StuckError
from headrace.profile import Profile, profile
from headrace.runs import Runners, work_of
from headrace.schedule import Piece, Schedule, Split, Uneven
from headrace.state import Position, dump, load, skip

_LARGEST = (1 << 62) - 1  # a number that can be counted on from in 64 bits
_whole = functools.partial(whole_of, "Loader", most=_LARGEST)


class Iteration:
    """One loop over a loader.

    Args:
        loader: The loader, whose position moves as batches are handed over.
        batches: Gives the batches, each with the position behind it.

    Attributes:
        batches: The same; ends and lets go of its workers when this object is dropped.
        replaced: Whether the loader has been iterated anew since.
    """

    def __init__(self, loader: Loader, batches: Generator[tuple[Position, Tree]]) -> None:
        assert isinstance(batches, GeneratorType)
        self.batches: GeneratorType[tuple[Position, Tree], None, None] = batches
        self.replaced = False
        self._loader = loader
        self._amid = False

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Tree:
        if self.replaced:
            raise RuntimeError(
                "the loader of this loop has been iterated anew since, which ended this loop; to go through the data "
                "twice at the same time make two Loaders"
            )
        if self._amid and self.batches.gi_frame is None:
            raise StuckError(
                "this loop has ended with the error that it raised, or was interrupted, as by Ctrl-C; iterate the "
                "loader anew, which begins with the batch that was to come"
            )
        loader, self._amid = self._loader, True
        try:
            position, batch = next(self.batches)
        except StopIteration:
            self._amid = False
            raise
        # No call from here on, which could be interrupted: the consumer has got the batch, or it hasn't.
        loader._position, self._amid = position, False
        return batch


class Loader:
    """Iterates the batches of a description.

    `for batch in loader` goes through the rest of the current epoch; the next loop goes through the next one. Breaking
    out of a loop and iterating again goes on where it stopped (`set_epoch` starts an epoch anew); once an epoch's last
    batch has been handed over, the position is the beginning of the next one. The position is
    counted where batches are handed over, so a state saved after a step holds exactly the batches seen so far,
    whatever workers have read ahead.

    The batches and their order are the same for any number of workers. With several ranks they are the same taken
    together: each batch is divided among the ranks (`split="records"`), or whole batches are dealt out in turn
    (`split="batches"`).

    Args:
        data: The description; ends with `batch` or `bucket` and what may follow them.
        workers: Threads or processes that read ahead; 0 reads in the caller's thread when a batch is asked for.
            `"auto"` tries on the first batches whether workers are faster, of the given mode or of any, and how many,
            and keeps to it; `stats().choice` says why.
        rank: This process's number among those that train together; must be given if `world_size` is.
        world_size: How many those are.
        split: `"records"`: a rank gets every `world_size`-th record of each batch (none of a batch that has too few),
            so all ranks make the same number of steps. `"batches"`: a rank gets every `world_size`-th batch.
        uneven: With `split="batches"`, when the last step of an epoch has not a batch for every rank: `"short"` gives
            it to the first ranks only (every record exactly once), `"drop"` leaves it out (every rank makes the same
            number of steps).
        to: `"numpy"`, `"torch"` for tensors that share the arrays' memory, `"jax"`, or `"arrow"` for record batches.
        prefetch: Batches read ahead, for each worker.
        max_bytes: Bytes of batches read ahead; one batch is always allowed.
        timeout: Seconds to wait for a batch before giving up; None waits, with a logged warning each minute.
        mode: What workers are: `"threads"`, which is enough for whatever lets go of the interpreter's lock, as all of
            headrace's own reading does, or `"processes"`, for Python functions that take long. The description is sent
            to processes by pickling, by cloudpickle where that is needed. Streams are iterated in this process, and
            their records are sent to the workers.

    Raises:
        PlanError: If an argument is out of range or the description doesn't fit together.
        DataError: If its sources don't. Like the following, also from iterating.
        NotPicklableError: If something in the description can't be sent to worker processes.
        WorkerError: If an error of a worker process can't be sent back as itself.
        WorkerDiedError: If worker processes end, one after another, in the same records.
        StuckError: If a batch takes longer than `timeout`.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> loader = hr.Loader(hr.from_arrays(np.arange(10)).shuffle(seed=3).batch(4), workers=2)
        >>> [len(batch) for batch in loader], loader.epoch
        ([4, 4, 2], 1)
    """

    def __init__(
        self,
        data: Batches,
        *,
        workers: int | Literal["auto"] = 0,
        rank: int | None = None,
        world_size: int = 1,
        split: Split = "records",
        uneven: Uneven = "short",
        to: Literal["numpy", "torch", "jax", "arrow"] = "numpy",
        prefetch: int = 4,
        max_bytes: int = 256 << 20,
        timeout: float | None = None,
        mode: Mode | None = None,
    ) -> None:
        if not isinstance(data, Batches):
            raise PlanError(f"Loader needs batches, got {type(data).__name__}: end with .batch(…) or .bucket(…)")
        auto = isinstance(workers, str) and workers == "auto"
        workers = 0 if auto else _whole("workers", workers, 0, otherwise=" or 'auto'")
        prefetch = _whole("prefetch", prefetch, 1)
        max_bytes = _whole("max_bytes", max_bytes, 1)
        world_size = _whole("world_size", world_size, 1)
        if rank is None and world_size > 1:
            raise PlanError(f"Loader: world_size={world_size} needs rank, this process's number among them, from 0")
        rank = 0 if rank is None else _whole("rank", rank, None)
        if rank not in range(world_size):
            raise PlanError(f"Loader: rank is within 0 … world_size−1, got rank {rank} of {world_size}")
        one_of("Loader", "split", split, Split)
        one_of("Loader", "uneven", uneven, Uneven)
        if split == "records" and uneven == "drop":
            raise PlanError(
                "Loader: uneven='drop' leaves out a last step without a batch for every rank, which split='records' "
                "never has; use split='batches', or batch(drop_remainder=True)"
            )
        if timeout is not None and (
            isinstance(timeout, bool) or not (isinstance(timeout, (int, float)) and timeout > 0)
        ):
            raise PlanError(f"Loader: timeout is above 0 seconds, got {timeout!r}")
        if mode is not None:
            one_of("Loader", "mode", mode, Mode)
        if mode and not auto and (mode == "inline") != (workers == 0):
            raise PlanError(
                f"Loader: mode is 'inline' without workers, 'threads' or 'processes' with some, got mode={mode!r} with "
                f"{workers} workers"
            )
        self._data = data
        self._program = compile_program(data._node)
        self._workers = Runners(data, mode, "auto" if auto else workers, prefetch, max_bytes, timeout)
        self._rank = rank
        self._world_size = world_size
        self._split = split
        self._uneven = uneven
        self._to = to
        self._deliver = deliver(to)
        self._position = Position()
        # Weak, so that an iterator that its user drops ends at once, and its workers with it.
        self._run: weakref.ref[Iteration] | None = None
        self._stats = self._workers.new_stats()
        self._schedule = self._make_schedule()
        self._readers: set[int] = set()  # threads that are reading a batch just now

    def __getstate__(self) -> dict[str, Any]:
        """The description and the position; a running iteration and its threads stay where they are."""
        left_out: dict[str, Any] = {"_program": None, "_run": None, "_schedule": None, "_readers": set()}
        return {**vars(self), **left_out, "_stats": self._workers.new_stats()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Compiles the description anew: a loader's readers, which know where streams are, are its own."""
        vars(self).update(state)
        self._program = compile_program(self._data._node)
        self._schedule = self._make_schedule()

    def _like(self, *, workers: int, rank: int, world_size: int, mode: Mode | None = None) -> Loader:
        """A loader of the same description and settings, at the beginning."""
        kept: dict[str, Any] = {"split": self._split, "uneven": self._uneven, "to": self._to}
        limits = self._workers.like(workers, mode)
        return Loader(self._data, rank=rank, world_size=world_size, **kept, **limits)

    def _make_schedule(self) -> Schedule:
        return Schedule(self._program, self._rank, self._world_size, self._split, self._uneven, self._stats)

    def __repr__(self) -> str:
        p = self._position
        return f"Loader({self._data!r}, workers={self._workers}, at batch {p.done} of epoch {p.epoch})"

    # iteration -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Tree]:
        """The rest of the current epoch. An iteration that was begun before ends."""
        self._stop()
        if (before := self._run() if self._run else None) is not None:
            before.replaced = True
        run = Iteration(self, self._iterate())
        self._run = weakref.ref(run)
        return run

    def _iterate(self) -> Generator[tuple[Position, Tree]]:
        epoch = self._position.epoch
        self._stats.began()
        blocks: Generator[Result[Block]] | None = None
        results: Generator[Result[Piece]] | Generator[Result[Share]]
        reading = (self._program.streams, self._program.reader.where)
        if self._program.late is None:
            pieces = self._schedule.pieces(self._position)
            results = self._workers.run(pieces, self._work, self._convert, self._stats, *reading)
        else:
            every = self._schedule.blocks(self._position)
            found = BlockStats(self._stats)
            blocks = self._workers.run(every, self._work, lambda left, _: left, found, *reading)
            batches = assembler(self._program, self._position).cut(blocks)
            shares = self._schedule.shares(batches, self._position)
            results = run_inline(shares, self._finish, self._stats)
        try:
            for result in results:
                self._stats.gave(result.piece.records)
                yield result.piece.after, result.value
        finally:
            results.close()
            if blocks is not None:
                blocks.close()
            for stream in self._program.streams:
                stream.cursor.drop_all()
        if self._position.epoch == epoch:
            self._position = Position(epoch + 1)

    def _work(self, piece: Piece | Block, clock: Clock) -> Any:
        thread = threading.get_ident()
        self._readers.add(thread)
        try:
            return work_of(self._program)(self._program, piece, clock)
        finally:
            self._readers.discard(thread)

    def _convert(self, tree: Tree, clock: Clock) -> Tree:
        if self._to != "numpy":
            with clock.stage(f"to {self._to}"):
                return self._deliver(tree)
        return tree

    def _finish(self, share: Share, clock: Clock) -> Tree:
        reader = self._program.reader
        make = reader.finish_none if share.is_example else reader.finish
        return self._convert(make(share.tree, share.rows, clock), clock)

    def __len__(self) -> int:
        """Batches of a whole epoch, as this rank gets them.

        Raises:
            TypeError: If it isn't known (a stream, a filter) or endless.
        """
        batches = self._program.plan.num_batches(self._position.epoch)
        if batches is None or self._program.streams:
            raise TypeError("these batches come from a stream or a filter, or have no end: their number isn't known")
        if self._split == "records" or self._world_size == 1:
            return batches
        steps, rest = divmod(batches, self._world_size)
        return steps + (self._uneven == "short" and self._rank < rest)

    # position --------------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to, counted from 0."""
        return self._position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of an epoch.

        Args:
            epoch: Which, from 0 on.

        Raises:
            PlanError: If `epoch` is negative.

        Example:
            >>> import headrace as hr
            >>> loader = hr.Loader(hr.from_dataset(range(4)).shuffle(seed=1).batch(4))
            >>> loader.set_epoch(1)
            >>> [batch.tolist() for batch in loader]
            [[3, 0, 1, 2]]
        """
        epoch = _whole("epoch", epoch, 0)
        self._stop()
        self._position = Position(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as a document of less than 1 KB that `json` can write.

        It is the same on every rank and for any number of workers, and can be loaded with other numbers of both.

        Example:
            >>> import numpy as np
            >>> import headrace as hr
            >>> data = hr.from_arrays(np.arange(10)).batch(4)
            >>> loader = hr.Loader(data)
            >>> first = next(iter(loader))
            >>> state = loader.state_dict()
            >>> other = hr.Loader(data, workers=1)
            >>> other.load_state_dict(state)
            >>> [batch.tolist() for batch in other]
            [[4, 5, 6, 7], [8, 9]]
        """
        return dump(self._position, self._program)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a saved position; the next loop gives the rest of its epoch.

        Args:
            state: What `state_dict` gave, also after JSON.

        Raises:
            StateError: If the state is damaged or was saved with other data or another description.

        Example:
            >>> import headrace as hr
            >>> loader = hr.Loader(hr.from_dataset(range(4)).batch(2))
            >>> running = iter(loader)
            >>> _, state, _ = next(running), loader.state_dict(), next(running)
            >>> loader.load_state_dict(state)
            >>> [batch.tolist() for batch in loader]
            [[2, 3]]
        """
        position = load(state, self._program)
        self._check_place(position)
        self._stop()
        self._position = position

    def skip(self, batches: int) -> None:
        """Goes on by so many batches without reading them, over the ends of epochs.

        They are counted over all ranks, as in the state: with `split="batches"` a step takes `world_size` of them.

        Args:
            batches: How many.

        Raises:
            PlanError: If `batches` is negative.
            StateError: If only reading could tell where they end: of what filters leave.

        Example:
            >>> import numpy as np
            >>> import headrace as hr
            >>> loader = hr.Loader(hr.from_arrays(np.arange(10)).batch(4))
            >>> loader.skip(4)
            >>> loader.epoch, next(iter(loader)).tolist()
            (1, [4, 5, 6, 7])
        """
        position = skip(self._position, self._program, _whole("batches", batches, 0))
        self._stop()
        self._position = position

    def _check_place(self, position: Position) -> None:
        program = self._program
        windows, index, batches = program.plan.num_windows(position.epoch), position.window, 0
        bucketed = program.late is not None and program.late.grouping is not None
        if bucketed:
            index, _ = first_block(program, position)
        if windows is None or index < windows:
            if bucketed:
                return  # how many batches the window has is seen when it is read
            window = self._schedule.window(position.epoch, index)
            batches = len(window) if program.late is None else len(window.rows(0))
        elif position.window > 0:
            raise StateError(
                f"the loader's state is damaged: it is in window {position.window}, the epoch has {windows} windows"
            )
        if position.batch > batches:
            raise StateError(
                f"the loader's state is damaged: it is after batch {position.batch} of window {position.window}, which "
                f"has {batches} batches"
            )

    # end and report --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the current iteration and its workers. The position stays, and iterating again goes on from it.

        Raises:
            RuntimeError: If it is called while the loader reads a batch: by a function of `map`, or by another thread.
                So does everything else that moves the loader.
        """
        self._stop()
        self._workers.close()

    def _stop(self) -> None:
        """Ends the current iteration; worker processes stay for the next one."""
        run = self._run() if self._run else None
        if run is not None:
            if run.batches.gi_running or threading.get_ident() in self._readers:
                raise RuntimeError(
                    "this loader is reading a batch just now: a function that it calls, or another thread, can't "
                    "iterate, move or close it meanwhile; make a second Loader of the same data"
                )
            run.batches.close()

    def __enter__(self) -> Loader:
        """`with hr.Loader(…) as loader:` closes it at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def stats(self) -> Stats:
        """What the run has cost so far and what bounds it.

        Example:
            >>> import numpy as np
            >>> import headrace as hr
            >>> loader = hr.Loader(hr.from_arrays(np.arange(10)).batch(4))
            >>> for batch in loader:
            ...     pass
            >>> report = loader.stats()
            >>> report.batches, report.bytes
            (3, 80)
        """
        return self._stats.report()

    def profile(
        self, *, batches: int = 100, step: Callable[[Tree], Any] | None = None, seconds: float = 10.0
    ) -> Profile:
        """Measures what better loading could gain: the loader alone, with a step, and the step alone.

        The step alone gets the same batch over and over, as if loading cost nothing. The loader is afterwards where it
        was, but a loop over it that was begun before ends, and the statistics start anew.

        Args:
            batches: How many to take for each measurement, at most. Epochs follow each other.
            step: What is done with a batch, a training step say; None measures the loader alone.
            seconds: After so long a measurement ends, with however many batches.

        Raises:
            PlanError: If an argument is out of range.
            DataError: If there are no batches.

        Example:
            >>> import numpy as np
            >>> import headrace as hr
            >>> loader = hr.Loader(hr.from_arrays(np.arange(100.0)).batch(10), workers=1)
            >>> found = loader.profile(batches=20, step=lambda batch: batch.sum())
            >>> found.stats.batches, found.gain >= 1
            (20, True)
        """
        position = self._position
        try:
            return profile(self, self._stats, batches=batches, step=step, seconds=seconds)
        finally:
            self.close()
            self._position = position

    def reset_stats(self) -> None:
        """Starts the report anew."""
        self._stats.reset()
