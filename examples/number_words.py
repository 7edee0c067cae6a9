"""Makes a small parallel corpus of real grammar: numbers in words, English to Vietnamese.

It is a toy, and says so: the sentences come from num2words, not from people, and there are only about thirty words on
each side. But the grammar is real. English puts "and" and commas where Vietnamese has none; Vietnamese says "mười"
for ten but "mươi" in twenty, "năm" for five but "lăm" behind a ten, "một" for one but "mốt" behind twenty, and "lẻ"
for a missing ten. A model that translates numbers it has never seen has learnt those rules.

    python examples/number_words.py FOLDER

writes train, valid and test files (`train.en`, `train.vi`, …) of numbers that don't overlap.
"""

from __future__ import annotations

import argparse
import pathlib
import random

SIZES = {"train": 30_000, "valid": 500, "test": 1_000}
LARGEST = 999_999


def words(number: int, language: str) -> str:
    """A number in words, lower case, with punctuation as tokens of its own.

    Example:
        >>> words(21_345, "en")
        'twenty - one thousand , three hundred and forty - five'
    """
    from num2words import num2words

    text: str = num2words(number, lang=language)
    return " ".join(text.lower().replace("-", " - ").replace(",", " , ").split())


def sample_numbers(count: int, rng: random.Random) -> list[int]:
    """Different numbers from 0 to 999,999; short ones come more often than among all numbers."""
    found: dict[int, None] = {}
    while len(found) < count:
        digits = rng.choices(range(1, 7), weights=[1, 2, 8, 20, 40, 80])[0]
        found[rng.randrange(10**digits)] = None
    return list(found)


def write_corpus(folder: pathlib.Path, seed: int = 1, source: str = "en", target: str = "vi") -> None:
    """Writes the files of a corpus.

    Args:
        folder: Is made if it isn't there.
        seed: Of the choice of numbers.
        source: Language of the source side, as num2words names it.
        target: Language of the target side.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    numbers = sample_numbers(sum(SIZES.values()), rng)
    rng.shuffle(numbers)
    for name, size in SIZES.items():
        part, numbers = numbers[:size], numbers[size:]
        for language in (source, target):
            lines = "".join(words(number, language) + "\n" for number in part)
            (folder / f"{name}.{language}").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write_corpus(options.folder, options.seed)
