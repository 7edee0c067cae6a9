"""The special words, which every vocabulary begins with."""

from __future__ import annotations

__all__ = ["EOS", "NUM_SPECIAL", "SOS", "UNK", "UNKNOWN"]

UNK, SOS, EOS = 0, 1, 2  # their ids: a word that is not in the vocabulary, begin and end of a sentence
NUM_SPECIAL = 3
UNKNOWN = "<unk>"  # what the first is called; the names of the others are settings
