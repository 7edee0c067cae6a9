"""Where a loader's pieces are carried out: by the consumer, on threads, or by worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import Tree
from headrace.blocks import Block
from headrace.clock import Clock
from headrace.dataset import Batches, Program, StreamReader, compile_program, without_streams
from headrace.engine import (
    Advice,
    Auto,
    Mode,
    Observer,
    Result,
    StatsCollector,
    Work,
    run_auto,
    run_inline,
    run_threads,
)
from headrace.engine.auto import Runner
from headrace.errors import WorkerError, add_note
from headrace.plan import Rows
from headrace.schedule import Piece
from headrace.state import Position

if TYPE_CHECKING:
    from headrace.engine import Crew, ProcessRun, Seat

P = TypeVar("P")

ADVICE = Advice(
    {
        "read": "Convert the data once to a form that is read faster, or keep it in memory.",
        "parse": "Parse fewer features, or convert the data once.",
        "map": "Make the function of `map` cheaper, work on whole batches (`.batch(…).map(…)`), or do its work ahead.",
        "map batches": "Make the function that maps batches cheaper, or do its work ahead.",
        "filter": "Filter blocks of records (`filter(…, batched=True)`), or drop records once, ahead.",
        "collate": "Give arrays (`from_arrays`), or a dataset with `__getitems__`, instead of single records.",
        "tokens": "Look words up once and store the numbers.",
        "order": "Read from files that can be read at any place, iterate less in the stream itself, or plan smaller "
        "windows.",
    },
    frozenset({"map", "map batches", "filter", "collate"}),
    "`workers=1`",
    "`prefetch`, or `max_bytes` if they are large",
)


def read_piece(program: Program, piece: Piece, clock: Clock) -> Tree:
    """Reads one batch, or an empty one that is like others."""
    if piece.example is not None:
        return program.reader.read_none(piece.example, clock)
    return program.reader.read(piece.rows, clock)


def sift_block(program: Program, block: Block, clock: Clock) -> tuple[Tree, NDArray[np.int64]]:
    """Reads one block and leaves of it what the description's filters leave."""
    assert program.late is not None
    return program.late.reader.sift(block.rows, clock)


def work_of(program: Program) -> Callable[[Program, Any, Clock], Any]:
    """What carries out the pieces of a description."""
    return read_piece if program.late is None else sift_block


class ReadJob:
    """Carries out the pieces of a description in a worker process. What they need of streams comes with them.

    Args:
        data: The description.
    """

    def __init__(self, data: Batches) -> None:
        self.node = without_streams(data._node)

    def open(self, seat: Seat) -> Callable[[Any, Clock], Any]:
        """Compiles the description: readers are a process's own."""
        program = compile_program(self.node)
        work = work_of(program)

        def carry_out(shipment: Shipment[Any], clock: Clock) -> Any:
            for stream, handed in zip(program.streams, shipment.handed, strict=True):
                stream.take_over(handed)
            return work(program, shipment.piece, clock)

        return carry_out


class Shipment(Generic[P]):
    """A piece with the records of streams that it is about: one process reads a stream, any may work on its records.

    Args:
        piece: The piece.
        handed: What each stream's reader handed over for it.
    """

    def __init__(self, piece: P, handed: list[Any]) -> None:
        self.piece = piece
        self.handed = handed

    def __reduce__(self) -> Any:
        """On its way to a worker it leaves behind where streams are, in words of their own that may not travel."""
        piece: Any = self.piece
        slim = replace(piece, streams=()) if isinstance(piece, Block) else replace(piece, after=Position())
        return Shipment, (slim, self.handed)


def ship(pieces: Iterator[Any], streams: Sequence[StreamReader]) -> Generator[Shipment[Any]]:
    """Takes pieces one by one, as `pieces` has read streams on to each of them."""
    for piece in pieces:
        yield Shipment(piece, [stream.hand_over(_rows_of(piece)) for stream in streams])


def _rows_of(piece: Any) -> Rows:
    """The records that are read for a piece."""
    found: Rows = getattr(piece, "example", None) or piece.rows
    return found


def _name(where: Callable[[NDArray[np.int64]], str], shipment: Shipment[Any]) -> str:
    """What a piece is, in words."""
    rows, kind = _rows_of(shipment.piece), "block" if isinstance(shipment.piece, Block) else "batch"
    first, last = where(rows.ids[:, 0]), where(rows.ids[:, -1])
    return f"the {kind} of {first}" if len(rows) == 1 else f"the {kind} of {len(rows)} records, {first} … {last}"


class Runners:
    """What carries out the pieces of a loader: the consumer, threads or processes.

    Args:
        data: The description of which processes are to carry out the pieces.
        mode: What they are; None: threads, if there are any.
        number: How many; 0 if the consumer does the work, `"auto"` to find out.
        prefetch: Pieces ahead of the consumer, for each.
        max_bytes: Bytes of results ahead of the consumer.
        timeout: Seconds to wait for a result.
    """

    def __init__(
        self,
        data: Batches,
        mode: Mode | None,
        number: int | Literal["auto"],
        prefetch: int,
        max_bytes: int,
        timeout: float | None,
    ) -> None:
        self._data = data
        self._modes: tuple[Mode, ...] = (mode,) if mode else ("threads", "processes")  # to find out about
        self._mode: Mode = mode or ("threads" if number else "inline")
        self._number = number
        self._prefetch = prefetch
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._auto = self._new_auto()
        self._crew: Crew | None = None  # kept from one run to the next
        self._processes: ProcessRun[Any] | None = None  # that is going on

    def _new_auto(self) -> Auto | None:
        return Auto(self._modes) if self._number == "auto" else None

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to this process and this machine, where another may choose otherwise."""
        return {**vars(self), "_crew": None, "_processes": None, "_auto": self._new_auto()}

    def __repr__(self) -> str:
        return repr(self._number)

    def new_stats(self) -> StatsCollector:
        """What these workers report to."""
        if self._number == "auto":
            return StatsCollector(0, 0, advice=ADVICE)
        return StatsCollector(self._number, self._number * self._prefetch, self._mode, ADVICE)

    def run(
        self,
        pieces: Iterator[P],
        work: Work[P],
        after: Work[Any],
        stats: Observer,
        streams: Sequence[StreamReader],
        where: Callable[[NDArray[np.int64]], str],
    ) -> Generator[Result[P]]:
        """Carries out pieces, results in their order.

        Args:
            pieces: The pieces.
            work: Carries out one, in this process.
            after: What is done in this process, whichever carries out the piece, with what it gave.
            stats: Is told of waiting and of results.
            streams: The readers of streams that `pieces` reads on.
            where: Names a record by its ids, for messages.
        """

        def here(piece: P, clock: Clock) -> Any:
            return after(work(piece, clock), clock)

        def inline(pieces: Iterator[P], _: int) -> Generator[Result[P]]:
            return run_inline(pieces, here, stats)

        def threads(pieces: Iterator[P], workers: int) -> Generator[Result[P]]:
            limits = {"prefetch": self._prefetch, "max_bytes": self._max_bytes}
            return run_threads(pieces, here, stats, workers=workers, timeout=self._timeout, **limits)

        def processes(pieces: Iterator[P], workers: int) -> Generator[Result[P]]:
            return self._run_processes(ship(pieces, streams), workers, after, stats, partial(_name, where))

        runners: dict[Mode, Runner[P]] = {"inline": inline, "threads": threads, "processes": processes}
        if self._auto is not None:
            return run_auto(pieces, self._auto, runners, stats, prefetch=self._prefetch)
        assert self._number != "auto"
        return runners[self._mode](pieces, self._number)

    def _run_processes(
        self,
        pieces: Iterator[Shipment[P]],
        workers: int,
        after: Work[Any],
        stats: Observer,
        name_of: Callable[[Shipment[P]], str],
    ) -> Generator[Result[P]]:
        from headrace.engine import Crew, ProcessRun  # not before there are to be processes

        if self._crew is None or self._crew.workers != workers:
            self._crew = Crew(workers)
        began = time.perf_counter()
        run = ProcessRun(
            self._crew,
            pieces,
            ReadJob(self._data),
            stats,
            prefetch=self._prefetch,
            max_bytes=self._max_bytes,
            timeout=self._timeout,
            name_of=name_of,
        )
        if self._auto is not None:
            stats.waited(time.perf_counter() - began, ready=0)  # for them to start, in the midst of an epoch
        self._processes = run
        try:
            for result in run:
                if result.error is not None:
                    raise _own_error(result.error)
                yield Result(result.piece.piece, after(result.value, result.clock), None, result.nbytes, result.clock)
        finally:
            run.close()
            if self._auto is not None and self._auto.decided and self._auto.current.mode != "processes":
                self.close()

    def like(self, number: int, mode: Mode | None) -> dict[str, Any]:
        """The settings of these workers for another loader, as its arguments."""
        mode = (mode or (None if self._mode == "inline" else self._mode)) if number else None
        limits = {"prefetch": self._prefetch, "max_bytes": self._max_bytes, "timeout": self._timeout}
        return {"workers": number, "mode": mode, **limits}

    def kill(self, number: int) -> bool:
        """Ends one of the processes that work for the run that goes on; whether there was one."""
        return self._processes is not None and self._processes.kill(number)

    def close(self) -> None:
        """Lets processes go."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None


def _own_error(error: BaseException) -> BaseException:
    """An error of a worker process as it was raised there, with the traceback from there in a note."""
    if not isinstance(error, WorkerError) or error.original is None:
        return error
    add_note(error.original, f"headrace: {error}")
    return error.original
