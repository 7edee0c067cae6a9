"""The table of flags in docs/nmt.md is the one of the program."""

from pathlib import Path

import headrace
from headrace.nmt.flags import _shown
from headrace.nmt.hparams import FIELDS

PAGE = Path(headrace.__file__).parents[2] / "docs" / "nmt.md"


def table() -> str:
    """Returns the table as it should be."""
    rows = ["| flag | default | meaning |", "| --- | --- | --- |"]
    for name, flag in FIELDS.items():
        choices = [f"`{choice}`" for choice in flag.metadata["choices"] if choice]
        meaning = flag.metadata["help"] + (f" ({', '.join(choices)})" if choices else "")
        rows.append(f"| `--{name}` | `{_shown(flag.default)}` | {meaning} |")
    return "\n".join(rows)


def test_the_table_of_flags_is_up_to_date() -> None:
    assert table() in PAGE.read_text(), f"docs/nmt.md should have this table:\n{table()}"
