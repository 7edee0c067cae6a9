"""What an epoch's order was drawn from, as a few numbers that can be kept and used again."""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from headrace.errors import StateError

_LARGEST = 1 << 20  # bytes of a state that is taken for one


def keep_torch(state: torch.Tensor, seed: int) -> dict[str, Any]:
    """A state of a torch generator: its seed, if it was just seeded, or else the 3 KB that it takes."""
    fresh = torch.Generator().manual_seed(seed)
    if torch.equal(fresh.get_state(), state):
        return {"seed": seed}
    return {"state": base64.b64encode(zlib.compress(state.numpy().tobytes(), 9)).decode()}


def torch_state(kept: Any) -> torch.Tensor:
    """The state that was kept.

    Raises:
        StateError: If it is damaged.
    """
    try:
        if "seed" in kept:
            return torch.Generator().manual_seed(kept["seed"]).get_state()
        raw = zlib.decompressobj().decompress(base64.b64decode(kept["state"]), _LARGEST)
        state = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        torch.Generator().set_state(state)
        return state
    except Exception as error:
        raise StateError(f"the loader's state is damaged: a generator's state can't be read: {error}") from error


class Surroundings:
    """The process's random generators, while a sampler of unknown make draws its order from them.

    Args:
        kept: What was kept of them at the same place of an earlier run, to be as they were then; None: they are as they
            are.
    """

    def __init__(self, kept: dict[str, Any] | None) -> None:
        self._then = kept
        self._before: dict[str, Any] = {}
        self._drawn: set[str] = set()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """What is drawn in here is noted; or it is drawn as it was then, and the generators put back."""
        if self._then is not None and not self._then:
            yield
            return
        before = self._before = _states()
        if self._then is None:
            try:
                yield
            finally:
                after = _states()
                self._drawn = {name for name in before if not _equal(before[name], after[name])}
            return
        if unknown := self._then.keys() - before.keys():
            raise StateError(f"the loader's state is damaged: it has an order drawn from {sorted(unknown)}")
        for name, text in self._then.items():
            _set(name, text)
        try:
            yield
        finally:
            for name in self._then:
                _set(name, _packed(name, before[name]))

    def kept(self) -> dict[str, Any]:
        """What to keep of the generators that were drawn from, as they were in the beginning."""
        return {name: _packed(name, self._before[name]) for name in sorted(self._drawn)}


def _states() -> dict[str, Any]:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=True),
        "torch": (torch.default_generator.get_state(), torch.default_generator.initial_seed()),
    }


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left[0], torch.Tensor):
        return torch.equal(left[0], right[0])
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True) if a is not None or b is not None)


def _packed(name: str, state: Any) -> Any:
    if name == "torch":
        return keep_torch(*state)
    if name == "numpy":
        _, keys, pos, has, cached = state
        words, rest = np.asarray(keys, np.uint32), [int(pos), int(has), float(cached)]
    else:
        words, rest = np.array(state[1], np.uint32), [state[2]]
    return [base64.b64encode(zlib.compress(words.tobytes(), 9)).decode(), *rest]


def _set(name: str, text: Any) -> None:
    try:
        if name == "torch":
            torch.default_generator.set_state(torch_state(text))
            return
        raw = zlib.decompressobj().decompress(base64.b64decode(text[0]), _LARGEST)
        words = np.frombuffer(raw, np.uint32)
        if name == "numpy":
            np.random.set_state(("MT19937", words, *text[1:]))
        else:
            random.setstate((3, tuple(words.tolist()), text[1]))
    except StateError:
        raise
    except Exception as error:
        raise StateError(f"the loader's state is damaged: {name}'s generator can't be read: {error}") from error
