"""Runs what the documentation shows: every Python snippet, and every example in a docstring."""

from __future__ import annotations

import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import runpy
from typing import Any

import pytest

import headrace

ROOT = pathlib.Path(headrace.__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def modules() -> list[str]:
    found = pkgutil.walk_packages(headrace.__path__, "headrace.")
    return ["headrace", *(m.name for m in found if not m.name.endswith(("__main__", "_native")))]


def test_no_module_is_forgotten() -> None:
    """A folder without `__init__.py` would be passed over."""
    folder = pathlib.Path(headrace.__file__).parent
    files = {p.relative_to(folder.parent).with_suffix("").parts for p in folder.rglob("*.py")}
    names = {".".join(parts).removesuffix(".__init__") for parts in files}
    assert set(modules()) == {name for name in names if not name.endswith("__main__")}


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(name: str) -> None:
    if name.startswith(("headrace.nmt", "headrace.batch.convert")):
        pytest.importorskip("torch")
    if name.startswith("headrace.cli."):
        pytest.importorskip("typer")
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_snippets_of_pages(page: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippets of a page run one after another, as a reader would type them."""
    snippets = SNIPPET.findall(page.read_text())
    if any("torch" in snippet or "headrace.nmt" in snippet for snippet in snippets):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, snippet in enumerate(snippets, 1):
        exec(compile(snippet, f"{page.name}, snippet {number}", "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert os.path.exists(page.parent / target), f"{page.name} links to {target}"


def test_make_targets_named_in_pages_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)", page.read_text()):
            assert f"\n{target}:" in makefile, f"{page.name} names make {target}"


def test_the_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["reference"]()
    assert made == (ROOT / "docs" / "reference.md").read_text(), "python docs/make_reference.py > docs/reference.md"
