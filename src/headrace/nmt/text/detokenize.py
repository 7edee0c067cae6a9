"""Running text of the words of a tokenizer such as that of Moses: no blanks before punctuation, and so on."""

from __future__ import annotations

import re

__all__ = ["detokenize"]

_ENTITIES = {"&#124;": "|", "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]"}
_CLOSING = re.compile(r"[.,;:!?%)\]}…»”’]+|'[^\W\d_]+|n't")  # follow the word before them: also 's, 're, n't
_OPENING = re.compile(r"[(\[{¿¡«“$£€#]+|[^\W\d_]+['’]")  # come right before the next word: also l', d'
_QUOTES = {'"', "'"}  # both in turn


def detokenize(line: str) -> str:
    """Joins words to running text. What is running text already stays nearly as it is.

    Example:
        >>> detokenize("he said : &quot; I know , ( really ) the T @-@ shirt price . &quot;")
        'he said: "I know, (really) the T-shirt price."'
    """
    for entity, character in _ENTITIES.items():
        line = line.replace(entity, character)
    text, glued = "", True  # glued: the next word follows without a blank
    opened: set[str] = set()
    for word in line.replace("&amp;", "&").replace(" @-@ ", "-").split():
        if word in _QUOTES:
            closing = word in opened
            opened ^= {word}
            text += word if closing or glued else f" {word}"
            glued = not closing
        else:
            text += word if glued or _CLOSING.fullmatch(word) else f" {word}"
            glued = bool(_OPENING.fullmatch(word))
    return text
