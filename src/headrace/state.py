"""The document that says where a loader is: short, readable, checked before it is used."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.dataset.program import Program
from headrace.errors import StateError
from headrace.formats.stream import Mark
from headrace.plan import FixedBatches

VERSION = 1
_LARGEST = 1 << 46  # 65,536 records a window of that number is 2^62 records, more than plans have
_LONGEST_STEP = 120
_LONGEST_PIPELINE = 480  # characters of description that are kept in words; the whole document stays under 1 KB


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the plan: before the batch `batch` of a window of an epoch; after filters, before a place in a block.

    Attributes:
        epoch: Counted from 0.
        window: The window of the plan, or the block.
        batch: Batches of the window that come before, or positions of the block.
        done: Batches of the epoch that come before, over all ranks.
        streams: Where each stream is, if any can tell; None for those that can't.
    """

    epoch: int = 0
    window: int = 0
    batch: int = 0
    done: int = 0
    streams: tuple[Mark | None, ...] = ()


def dump(position: Position, program: Program) -> dict[str, Any]:
    """Makes the document of a position."""
    document = {
        "headrace": VERSION,
        "epoch": position.epoch,
        "batch": position.done,
        "window": [position.window, position.batch],
        "data": _data(program),
        "pipeline": _pipeline(program.steps),
    }
    if isinstance(program.plan, FixedBatches):
        # Nobody needs it to go on; with it a position can be moved where the data isn't at hand.
        document["batches"] = [program.plan.per_window, program.plan.num_batches(0) if not program.streams else None]
    if any(mark is not None for mark in position.streams):
        document["streams"] = [_dump_mark(mark) for mark in position.streams]
    return document


def _dump_mark(mark: Mark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    of, own = mark.state
    try:
        json.dumps(own, allow_nan=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(
            f"the state of a stream, from its {of}'s state_dict(), can't be written as JSON ({error}); let it hold "
            "numbers, texts, lists and dicts alone"
        ) from None
    return {"record": mark.record, "of": of, "state": copy.deepcopy(own)}


def _load_marks(given: Any, epoch: int) -> tuple[Mark | None, ...]:
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)):
        raise StateError(f"the loader's state is damaged: streams is {given!r:.60}, expected a list")
    marks: list[Mark | None] = []
    for part in given:
        if part is None:
            marks.append(None)
            continue
        known = isinstance(part, Mapping) and {"record", "of", "state"} <= set(part)
        if not known or type(part["record"]) is not int or part["record"] < 0 or part["of"] not in _OWNERS:
            raise StateError(f"the loader's state is damaged: {part!r:.80} is no place in a stream")
        marks.append(Mark(epoch, part["record"], [part["of"], part["state"]]))
    return tuple(marks)


_OWNERS = ("iterator", "iterable", "shuffle", "filter")
_NAMES = ("headrace", "epoch", "batch", "window", "data", "pipeline")


def parse(state: Mapping[str, Any]) -> Position:
    """Reads the position out of a document, as far as that can be judged without the data.

    Raises:
        StateError: If the document is damaged or of another version.
    """
    if not isinstance(state, Mapping):
        raise StateError(
            f"expected a loader's state, the dict that state_dict() gave, got {type(state).__name__} {state!r:.60}; "
            "read it with json.loads if it was saved as JSON"
        )
    if "headrace" not in state:
        raise StateError(
            "expected what state_dict() of headrace.Loader gave; this document is of another kind: its keys are "
            f"{sorted(map(str, state))!r:.120}"
        )
    version = state.get("headrace")
    if type(version) is not int or version != VERSION:
        newer = "; it was saved by a newer headrace" if type(version) is int and version > VERSION else ""
        raise StateError(f"expected a loader's state of version {VERSION}, got version {version!r:.60}{newer}")
    missing = sorted(set(_NAMES) - set(state))
    if missing:
        raise StateError(f"the loader's state has no {missing[0]!r}: it is cut short or of another kind")
    for name in ("data", "pipeline"):
        if not isinstance(state[name], (list, tuple)):
            raise StateError(f"the loader's state is damaged: {name} is {state[name]!r:.60}, expected a list")
    window = state["window"]
    if not isinstance(window, (list, tuple)) or len(window) != 2:
        raise StateError(f"the loader's state is damaged: window is {window!r:.80}, expected two numbers")
    numbers = (state["epoch"], window[0], window[1], state["batch"])
    for number in numbers:
        if type(number) is not int or not 0 <= number < _LARGEST:
            raise StateError(f"the loader's state is damaged: {number!r:.60} is no position")
    return Position(*numbers, streams=_load_marks(state.get("streams"), state["epoch"]))


def load(state: Mapping[str, Any], program: Program) -> Position:
    """Reads the position out of a document, after comparing it with what it will be used for.

    Raises:
        StateError: If the document is damaged, of another version, or made with other data or another description; the
            message says what differs.
    """
    position = parse(state)
    expected = dump(Position(), program)
    _compare("source", "data", list(state["data"]), expected["data"])
    _compare("step", "description", list(state["pipeline"]), expected["pipeline"])
    if position.streams and len(position.streams) != len(program.streams):
        raise StateError(
            f"the state has places in {len(position.streams)} streams, the description has {len(program.streams)}"
        )
    begun = position.window > 0 or position.batch > 0
    if program.late is not None and program.late.grouping is None:
        # What the filters leave isn't known, but of nothing there are no batches.
        possible = begun or position.done == 0
    else:
        possible = position.done >= position.batch and (position.window > 0 or position.done == position.batch)
    if not possible:
        raise StateError(
            f"the loader's state is damaged: batch {position.done} of the epoch can't be in window "
            f"{[position.window, position.batch]}"
        )
    return position


def skip(position: Position, program: Program, count: int) -> Position:
    """The position that so many batches more lead to, over the ends of epochs.

    Raises:
        StateError: If that can't be known without reading.
    """
    if not count:
        return position
    if program.late is not None:
        raise StateError(
            "batches of what filters leave, or of lengths that only reading tells, can't be skipped without reading: "
            "how many records they take isn't known"
        )
    plan, epoch, index, batch, done = program.plan, position.epoch, position.window, position.batch, position.done
    while True:
        index, batch, lacking = plan.skip(epoch, index, batch, count)
        done += count - lacking
        if program.streams:
            if lacking:
                raise StateError(f"the stream has no more than {done} batches in this epoch, asked for {lacking} more")
            return Position(epoch, index, batch, done, position.streams)  # from there they are read on
        if not lacking:
            return Position(epoch + 1) if plan.is_over(epoch, index, batch) else Position(epoch, index, batch, done)
        if plan.num_batches(epoch + 1) == 0:
            raise StateError("there are no batches to skip: the epoch is empty")
        epoch, index, batch, done, count = epoch + 1, 0, 0, 0, lacking
        if isinstance(plan, FixedBatches):  # as many batches in every epoch
            epochs = (count - 1) // (plan.num_batches(epoch) or 1)
            epoch, count = epoch + epochs, count - epochs * (plan.num_batches(epoch) or 0)
        if epoch >= _LARGEST:
            raise StateError(f"positions go up to epoch 2^46, asked for epoch {epoch}")


def _compare(what: str, whole: str, saved: list[Any], present: list[Any]) -> None:
    for i, (before, now) in enumerate(zip(saved, present, strict=False)):
        if before != now:
            raise StateError(
                f"the state was saved with another {whole}: {what} {i} was {before}, is now {now}; "
                f"restore with the same {whole}, or begin anew"
            )
    if len(saved) != len(present):
        raise StateError(
            f"the state was saved with another {whole}: {len(saved)} {what}s then, {len(present)} now; "
            f"restore with the same {whole}, or begin anew"
        )


def _data(program: Program) -> list[Any]:
    prints = program.fingerprints
    if len(prints) <= 4:
        return list(prints)
    # Many sources would make the document long: their count and one digest still tell whether they are the same.
    return [{"sources": len(prints), "digest": _digest(repr(prints))}]


def _pipeline(steps: tuple[str, ...]) -> list[str]:
    words = [step if len(step) <= _LONGEST_STEP else f"{step.split('(')[0]}({_digest(step)})" for step in steps]
    if sum(map(len, words)) > _LONGEST_PIPELINE:
        words = [f"{step.split('(')[0]}({_digest(step)})" for step in steps]
    if sum(map(len, words)) > _LONGEST_PIPELINE:
        words = [f"{len(steps)} steps ({_digest(repr(steps))})"]
    return words


def _digest(text: str) -> str:
    import hashlib  # loads OpenSSL, which few states need

    return hashlib.sha256(text.encode()).hexdigest()[:12]
