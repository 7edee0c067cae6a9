"""Byte-pair encoding."""

import random
from collections import Counter
from itertools import pairwise

import pytest

import headrace as hr
from headrace.nmt.text.bpe import END, Bpe, learn


def slow(counts: dict[str, int], merges: int) -> list[tuple[str, str]]:
    """Learns by counting all pairs anew each time."""
    words = {word: [*word[:-1], word[-1] + END] for word in counts}
    learned = []
    for _ in range(merges):
        totals: Counter[tuple[str, str]] = Counter()
        for word, pieces in words.items():
            for pair in pairwise(pieces):
                totals[pair] += counts[word]
        totals = Counter({pair: count for pair, count in totals.items() if count >= 2})
        if not totals:
            break
        best = min(totals, key=lambda pair: (-totals[pair], pair))
        learned.append(best)
        for word, pieces in words.items():
            joined: list[str] = []
            rest = list(pieces)
            while rest:
                if tuple(rest[:2]) == best:
                    joined.append("".join(best))
                    rest = rest[2:]
                else:
                    joined.append(rest.pop(0))
            words[word] = joined
    return learned


@pytest.mark.parametrize("seed", range(6))
def test_learning_is_counting_pairs(seed: int) -> None:
    rng = random.Random(seed)
    words = {"".join(rng.choices("aab", k=rng.randint(1, 9))): rng.randint(1, 5) for _ in range(40)}
    bpe = learn(words, 60)
    assert bpe.merges == slow(words, 60)
    # What was learned cuts the words as they were when learning ended, and what was cut can be joined.
    for word in words:
        assert bpe.encode(word).replace("@@ ", "") == word


def test_the_file_of_merges() -> None:
    bpe = learn({"läuft": 3, "lief": 3}, 3)
    text = bpe.text()
    assert text.startswith("#version: 0.2\n")
    assert Bpe.parse(text).merges == bpe.merges
    with pytest.raises(hr.DataError, match=r"codes, line 1: expected '#version: 0.2', got 'l i'"):
        Bpe.parse("l i\n", "codes")
    with pytest.raises(hr.DataError, match="codes, line 3: expected two pieces and a blank, got 'a b c'"):
        Bpe.parse("#version: 0.2\na b\na b c\n", "codes")


def test_earlier_merges_come_first() -> None:
    bpe = Bpe([("b", "c" + END), ("a", "b"), ("a", "bc" + END)])
    assert bpe.encode("abc  ab") == "abc a@@ b"
    assert Bpe([("a", "a")]).encode("aaaab") == "aa@@ aa@@ b"
    assert Bpe([]).encode("") == ""


def test_dropout() -> None:
    bpe = learn({"abcabc": 5, "abc": 5, "cab": 2}, 10)
    rng = random.Random(0)
    seen = {bpe.encode("abcabc cab", rng.random, 0.5) for _ in range(60)}
    assert len(seen) > 8
    assert {line.replace("@@ ", "") for line in seen} == {"abcabc cab"}
    assert {piece for line in seen for piece in line.split()} <= set(bpe.pieces())
    assert bpe.encode("abcabc", rng.random, 0.0) == bpe.encode("abcabc") == "abcabc"
    assert bpe.encode("abc", lambda: 0.0, 0.9) == "a@@ b@@ c"


def test_words_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.nmt.text.bpe._REMEMBERED", 2)
    bpe = Bpe([("l", "o"), ("lo", "w</w>")])
    expected = ["low l@@ o", "s@@ low low s@@ o", "low"]
    assert [bpe.encode(line) for line in ("low lo", "slow low so", "low")] == expected
    assert len(bpe._known) <= 2
