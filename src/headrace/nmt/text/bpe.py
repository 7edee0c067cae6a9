"""Byte-pair encoding: the pieces of words, learned by joining the most frequent pair of neighbours again and again.

The file of merges is that of subword-nmt (version 0.2), so that codes from there can be used here, and the other way.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

import headrace as hr

__all__ = ["Bpe", "learn"]

END = "</w>"  # marks the last piece of a word: that of "rest" is not that of "restless"
JOIN = "@@"  # marks all others in text, as the tutorial's subword_option=bpe expects
_HEAD = "#version: 0.2"
_REMEMBERED = 1 << 17  # words whose pieces are kept

Pair = tuple[str, str]


class Bpe:
    """Cuts words into pieces.

    Args:
        merges: The pairs to join, the earliest learned first.

    Example:
        >>> bpe = Bpe([("l", "o"), ("lo", "w</w>"), ("e", "r</w>")])
        >>> bpe.encode("low lower")
        'low lo@@ w@@ er'
    """

    def __init__(self, merges: Iterable[Pair]) -> None:
        self.merges = list(merges)
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(self.merges)))}
        self._known: dict[str, str] = {}

    @classmethod
    def parse(cls, text: str, name: str = "the merges") -> Bpe:
        """Reads a file of merges.

        Args:
            text: Its content.
            name: What to call it in messages.

        Raises:
            DataError: It is none; the message names the line.
        """
        lines = text.split("\n")
        if lines[0].strip() != _HEAD:
            raise hr.DataError(f"{name}, line 1: expected {_HEAD!r}, got {lines[0][:40]!r}: is this a file of merges?")
        merges: list[Pair] = []
        for number, line in enumerate(lines[1:], 2):
            if not line:
                continue
            pair = line.split(" ")
            if len(pair) != 2 or not all(pair):
                raise hr.DataError(f"{name}, line {number}: expected two pieces and a blank, got {line[:40]!r}")
            merges.append((pair[0], pair[1]))
        return cls(merges)

    def text(self) -> str:
        """Returns what `parse` reads."""
        return "".join(f"{line}\n" for line in (_HEAD, *map(" ".join, self.merges)))

    def encode(self, line: str, draw: Callable[[], float] | None = None, dropout: float = 0.0) -> str:
        """Cuts the words of a line.

        Args:
            line: Words separated by blanks.
            draw: Returns random numbers from 0 to 1; with them, words are cut in many ways (BPE-dropout).
            dropout: How likely a join is passed over each time that it could be made.

        Example:
            >>> Bpe([("a", "b</w>")]).encode("ab ab", iter([0.9, 0.05]).__next__, dropout=0.1)
            'ab a@@ b'
        """
        words = [word for word in line.split(" ") if word]
        if draw is not None and dropout > 0.0:
            return " ".join(_text_of(self._cut(word, lambda: draw() >= dropout)) for word in words)
        return " ".join(map(self._look_up, words))

    def _look_up(self, word: str) -> str:
        cut = self._known.get(word)
        if cut is None:
            if len(self._known) >= _REMEMBERED:  # whoever serves others meets ever new words
                self._known.clear()
            cut = self._known[word] = _text_of(self._cut(word, lambda: True))
        return cut

    def _cut(self, word: str, keep: Callable[[], bool]) -> list[str]:
        pieces = [*word[:-1], word[-1] + END]
        while True:
            found = [
                (self._ranks[pair], place)
                for place, pair in enumerate(itertools.pairwise(pieces))
                if pair in self._ranks and keep()
            ]
            if not found:
                return pieces
            best = min(found)[0]
            for place in reversed(_apart([place for rank, place in found if rank == best])):
                pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]

    def pieces(self) -> list[str]:
        """Returns every piece that may come of the letters of the merges, as it stands in text."""
        letters = sorted({letter for pair in self.merges for part in pair for letter in part.removesuffix(END)})
        joined = ["".join(pair) for pair in self.merges]
        whole = [*joined, *(letter + end for letter in letters for end in ("", END))]
        return list(dict.fromkeys(piece.removesuffix(END) if piece.endswith(END) else piece + JOIN for piece in whole))


def _apart(places: list[int]) -> list[int]:
    """Leaves out places whose pair overlaps the one before: of "aaa" the first two are joined."""
    chosen: list[int] = []
    for place in places:
        if not chosen or place > chosen[-1] + 1:
            chosen.append(place)
    return chosen


def _text_of(pieces: list[str]) -> str:
    return " ".join([*(piece + JOIN for piece in pieces[:-1]), pieces[-1].removesuffix(END)])


def learn(counts: Mapping[str, int], merges: int, min_count: int = 2) -> Bpe:
    """Learns which pieces to join.

    Args:
        counts: How often each word comes.
        merges: Joins to learn: about as many pieces there will be, beside the letters.
        min_count: A pair that comes less often is not worth a piece.

    Returns:
        The merges. Of equally frequent pairs the first in the order of their letters is joined first, so that the
        same words give the same pieces.

    Example:
        >>> learn({"low": 5, "lowest": 2, "newest": 6, "widest": 3}, merges=4).merges
        [('e', 's'), ('es', 't</w>'), ('w', 'est</w>'), ('l', 'o')]
    """
    words = [([*word[:-1], word[-1] + END], count) for word, count in sorted(counts.items()) if word]
    totals: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)  # the words that have a pair, or had it
    for number, (pieces, count) in enumerate(words):
        for pair in itertools.pairwise(pieces):
            totals[pair] += count
            places[pair].add(number)
    # A pair whose count changes comes onto the heap once more; entries whose count is no longer true are passed over.
    heap = [(-count, pair) for pair, count in totals.items()]
    heapq.heapify(heap)
    learned: list[Pair] = []
    while heap and len(learned) < merges:
        negative, best = heapq.heappop(heap)
        if -negative != totals[best]:
            continue
        if -negative < min_count:
            break
        learned.append(best)
        changed: set[Pair] = set()
        for number in places.pop(best):
            pieces, count = words[number]
            before = Counter(itertools.pairwise(pieces))
            where = [place for place, pair in enumerate(itertools.pairwise(pieces)) if pair == best]
            for place in reversed(_apart(where)):
                pieces[place : place + 2] = ["".join(best)]
            after = Counter(itertools.pairwise(pieces))
            for pair in before.keys() | after.keys():
                if before[pair] != after[pair]:
                    totals[pair] += count * (after[pair] - before[pair])
                    changed.add(pair)
                if after[pair]:
                    places[pair].add(number)
        for pair in changed:
            if totals[pair] > 0 and pair != best:
                heapq.heappush(heap, (-totals[pair], pair))
    return Bpe(learned)
