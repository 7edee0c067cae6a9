"""Words of running text, about as the tokenizer of Moses makes them: what `detokenize` undoes."""

from __future__ import annotations

import re

__all__ = ["tokenize"]

_APART = re.compile(r"([^\s\w.,'’\-·])|(\.{2,})")  # characters that are words of their own, and rows of full stops
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")  # not the one in 1,000
_APOSTROPHE = re.compile(r"['’]")
_ENTITIES = {"&": "&amp;", "|": "&#124;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;", "[": "&#91;"}
_AFTER = {"fr", "it", "ca"}  # languages whose apostrophe ends a word: l' eau


def tokenize(text: str, language: str = "", entities: bool = False) -> str:
    r"""Puts blanks round punctuation.

    A full stop stays with its word in numbers, after a single letter, where the word has another one, and within a
    sentence before a small letter or a digit, as in "z. B. um 8.30".

    Args:
        text: A sentence.
        language: Its code: an apostrophe between letters begins a word in en, ends one in fr, it and ca, and is a word
            elsewhere.
        entities: Write & ' " and brackets as Moses does, `&quot;`.

    Example:
        >>> tokenize('He said: "It\'s 3.5 km, or 2,000 steps."', "en")
        'He said : " It \'s 3.5 km , or 2,000 steps . "'
    """
    text = _APART.sub(lambda found: f" {found[0]} ", text)
    text = _COMMA.sub(" , ", text)
    text = _APOSTROPHE.sub(lambda found: _apostrophe(text, found, language), text)
    words = text.split()
    done: list[str] = []
    for place, word in enumerate(words):
        stem = word[:-1]
        if word.endswith(".") and stem and "." not in (stem[-1], word[0]) and _ends(stem, words[place + 1 :]):
            done += [stem, "."]
        else:
            done.append(word)
    if entities:
        done = ["".join(_ENTITIES.get(letter, letter) for letter in word).replace("]", "&#93;") for word in done]
    return " ".join(done)


def _apostrophe(text: str, found: re.Match[str], language: str) -> str:
    between = text[: found.start()][-1:].isalpha() and text[found.end() :][:1].isalpha()
    if between and language == "en":
        return f" {found[0]}"
    if between and language in _AFTER:
        return f"{found[0]} "
    return f" {found[0]} "


def _ends(stem: str, rest: list[str]) -> bool:
    """Says whether a full stop ends a sentence, rather than shortening the word before it."""
    following = next((word for word in rest if any(map(str.isalnum, word))), "")
    if not following:
        return True
    shortened = "." in stem or (len(stem) == 1 and stem.isalpha())
    return not (shortened or following[0].islower() or following[0].isdigit())
