"""Files in CNTK's text format as people have them, made from a seed, of any size.

Four kinds: pictures of 784 whole numbers with a one-hot label (as MNIST is written), 784 decimals of four places, bags
of about 50 words out of a million, and tagged sequences of three sparse streams (as ATIS is).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

PIXELS = 784
WORDS = 1_000_000
VOCABULARY, TAGS, INTENTS = 10_000, 120, 26
_LINES = 2_000  # made at a time


def _joined(numbers: NDArray[np.str_], before: list[str]) -> str:
    return "".join(f"{head}{' '.join(row)}\n" for head, row in zip(before, numbers.tolist(), strict=True))


def _one_hot(labels: NDArray[np.int64]) -> list[str]:
    vectors = [" ".join("1" if i == k else "0" for i in range(10)) for k in range(10)]
    return [f"|labels {vectors[label]} |features " for label in labels.tolist()]


def _integers(rng: np.random.Generator) -> Iterator[str]:
    texts = np.array([str(i) for i in range(256)])
    while True:
        pixels = rng.integers(0, 256, (_LINES, PIXELS))
        pixels[rng.random((_LINES, PIXELS)) < 0.6] = 0  # most of a digit's picture is empty
        yield _joined(texts[pixels], _one_hot(rng.integers(0, 10, _LINES)))


def _decimals(rng: np.random.Generator) -> Iterator[str]:
    texts = np.array([f"{(i - 20_000) / 10_000:.4f}" for i in range(40_000)])
    while True:
        yield _joined(texts[rng.integers(0, 40_000, (_LINES, PIXELS))], _one_hot(rng.integers(0, 10, _LINES)))


def _words(rng: np.random.Generator) -> Iterator[str]:
    while True:
        lines = []
        for count in np.maximum(rng.poisson(50, _LINES), 1).tolist():
            words = np.sort(rng.integers(0, WORDS, count)).tolist()
            counts = rng.integers(1, 4, count).tolist()
            entries = " ".join([f"{word}:{times}" for word, times in zip(words, counts, strict=True)])
            lines.append(f"|y {int(rng.integers(0, 2))} |x {entries}\n")
        yield "".join(lines)


def _tagged(rng: np.random.Generator) -> Iterator[str]:
    key = 0
    while True:
        lines = []
        for length in rng.integers(4, 31, _LINES).tolist():
            words = rng.integers(0, VOCABULARY, length).tolist()
            tags = rng.integers(0, TAGS, length).tolist()
            lines.append(f"{key}\t|S0 {words[0]}:1\t|S1 {int(rng.integers(0, INTENTS))}:1\t|S2 {tags[0]}:1\n")
            lines += [f"{key}\t|S0 {w}:1\t|S2 {t}:1\n" for w, t in zip(words[1:], tags[1:], strict=True)]
            key += 1
        yield "".join(lines)


KINDS: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "integers": _integers,
    "decimals": _decimals,
    "words": _words,
    "tagged": _tagged,
}

STREAMS: dict[str, dict[str, tuple[int, bool]]] = {
    "integers": {"features": (PIXELS, False), "labels": (10, False)},
    "decimals": {"features": (PIXELS, False), "labels": (10, False)},
    "words": {"x": (WORDS, True), "y": (1, False)},
    "tagged": {"S0": (VOCABULARY, True), "S1": (INTENTS, True), "S2": (TAGS, True)},
}
"""Width of each stream, and whether it is sparse."""


def write_ctf_file(path: pathlib.Path, kind: str, size: int) -> None:
    """Writes about `size` bytes, unless a file of that size is there."""
    if path.exists() and path.stat().st_size >= size:
        return
    part = path.with_suffix(".part")
    with part.open("w") as file:
        for text in KINDS[kind](np.random.default_rng(1)):
            file.write(text)
            if file.tell() >= size:
                break
    part.rename(path)
