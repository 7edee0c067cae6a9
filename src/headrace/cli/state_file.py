"""Files with a loader's state as JSON: read with distrust, compared, and moved on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.errors import StateError
from headrace.plan.batches import skip_evenly
from headrace.state import parse

_LARGEST = 1 << 20  # bytes; a state has less than 1 KB, and the states of a few streams


def read_state(path: Path, key: str = "") -> dict[str, Any]:
    """The state in a file, checked as far as that goes without the data.

    Args:
        path: A JSON file.
        key: Where in it the state is, if it isn't all of it: names with dots between.

    Raises:
        OSError: If the file can't be read.
        StateError: If it holds no state, or a damaged one; the message names the file.
    """
    try:
        document = _find(_read_json(path), key)
        parse(document)
    except StateError as error:
        raise StateError(f"{path}: {error}") from None
    return document


def _read_json(path: Path) -> Any:
    with open(path, "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise StateError("larger than 1 MB, which no loader's state is; save the state by itself, as JSON")
    if not content.strip():
        raise StateError("the file is empty: it was perhaps cut short when it was written")
    if content.startswith((b"PK\x03\x04", b"\x80")):
        raise StateError(
            "not JSON but what torch.save or pickle write, which could run anything when opened; load it in Python, "
            "and write the loader's part by json.dump"
        )
    try:
        return json.loads(content.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise StateError(f"not UTF-8: byte {error.start} is {content[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        ends = error.pos >= len(error.doc.rstrip())
        what = "cut short" if ends or "Unterminated" in error.msg else "not JSON"
        raise StateError(f"{what}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise StateError(f"damaged: {str(error) or 'too deeply nested'}"[:200]) from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of a state")


def _find(document: Any, key: str) -> dict[str, Any]:
    for name in key.split(".") if key else ():
        if not isinstance(document, dict) or name not in document:
            raise StateError(f"there is no {key!r} in it")
        document = document[name]
    if isinstance(document, dict) and "headrace" not in document:
        inner = [name for name, value in document.items() if isinstance(value, dict) and "headrace" in value]
        if inner:
            raise StateError(f"the state is a part of it; say --key {' or --key '.join(map(plain, inner[:3]))}")
    if not isinstance(document, dict):
        raise StateError(f"expected an object with a loader's state, got {type(document).__name__}")
    return document


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """What differs between two states: the name of the part, and what it is in each (None where it is lacking)."""
    found = [
        (name, one.get(name), other.get(name)) for name in ("epoch", "batch", "window") if one[name] != other[name]
    ]
    for name, what in (("data", "source"), ("pipeline", "step")):
        parts = list(one[name]), list(other[name])
        for i in range(max(map(len, parts))):
            a, b = (part[i] if i < len(part) else None for part in parts)
            if a != b:
                found.append((f"{what} {i}", a, b))
    rest = sorted((set(one) | set(other)) - {"epoch", "batch", "window", "data", "pipeline"})
    found += [(name, one.get(name), other.get(name)) for name in rest if one.get(name) != other.get(name)]
    return found


def evenly(state: dict[str, Any]) -> tuple[int, int | None] | None:
    """Batches of a window and of an epoch, if all epochs have as many and the state says so."""
    given = state.get("batches")
    if given is None:
        return None
    if (
        not isinstance(given, list)
        or len(given) != 2
        or type(given[0]) is not int
        or given[0] < 1
        or not (given[1] is None or (type(given[1]) is int and given[1] >= 0))
    ):
        raise StateError(f"the loader's state is damaged: batches is {given!r:.60}, expected two numbers")
    return given[0], given[1]


def distance(one: dict[str, Any], other: dict[str, Any]) -> int | None:
    """Batches from one position to another of the same run, if the states say enough."""
    even = evenly(one)
    if even is None or any(one.get(name) != other.get(name) for name in ("data", "pipeline", "batches")):
        return None
    epochs = other["epoch"] - one["epoch"]
    if even[1] is None and epochs:
        return None
    return int(other["batch"] - one["batch"] + epochs * (even[1] or 0))


def moved(state: dict[str, Any], count: int) -> dict[str, Any]:
    """A state so many batches further, worked out from the state alone.

    Raises:
        StateError: If the state doesn't say enough for that.
    """
    even = evenly(state)
    if even is None:
        raise StateError(
            "how many batches a window has isn't in this state (batches by length, packed rows, filters); name the "
            "description: --data SCRIPT.py:NAME"
        )
    per_window, total = even
    place = parse(state)
    if place.window * per_window + place.batch != place.done or (total is not None and place.done > total):
        raise StateError(
            f"the loader's state is damaged: batch {place.done} of {total} isn't at {place.batch} of window "
            f"{place.window}, which have {per_window} batches"
        )
    if not count:
        return state
    index, batch, lacking = skip_evenly(per_window, total, place.window, place.batch, count)
    epoch, done = place.epoch, place.done + count - lacking
    if total is not None and done >= total:
        if not total:
            raise StateError("there are no batches to skip: the epoch is empty")
        further, rest = divmod(lacking, total)
        epoch, done = epoch + 1 + further, rest
        index, batch, _ = skip_evenly(per_window, total, 0, 0, rest)
    found = {**state, "epoch": epoch, "batch": done, "window": [index, batch]}
    parse(found)  # beyond what a position can be
    return found


def plain(value: Any) -> str:
    """Text that a terminal shows as it is: what could move its cursor or colour it is escaped."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
