"""Writes docs/reference.md: every public name with the first sentence of its documentation.

python docs/make_reference.py > docs/reference.md
"""

from __future__ import annotations

import inspect
import sys

import headrace as hr


def summary(value: object) -> str:
    """The first sentence of a docstring, on one line."""
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def members(value: type) -> dict[str, object]:
    """A class's own members, and those of bases that only divide it into files."""
    bases = [base for base in value.__mro__[1:] if base.__module__.startswith("headrace") and not public(base)]
    found: dict[str, object] = {}
    for base in [*reversed(bases), value]:
        found |= vars(base)
    return found


def public(base: type) -> bool:
    """Whether a class has a row of its own."""
    return getattr(hr, base.__name__, None) is base


def rows(name: str, value: object) -> list[str]:
    """A row for a name, and for a class one for each of its own public members."""
    found = [f"| `{name}` | {summary(value)} |"]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for member, own in sorted(members(value).items()):
            if not member.startswith("_") and (callable(own) or isinstance(own, (property, classmethod))):
                shown = getattr(value, member) if isinstance(own, classmethod) else own
                found.append(f"| `{name}.{member}` | {summary(shown)} |")
    return found


def reference() -> str:
    """The whole page."""
    lines = [
        "# Reference",
        "",
        "`import headrace as hr`; `help(hr.Dataset.bucket)` tells arguments, errors and examples.",
        "",
    ]
    lines += ["| name | what it is |", "| --- | --- |"]
    for name in sorted(hr.__all__, key=str.casefold):
        lines += rows(f"hr.{name}", getattr(hr, name))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
