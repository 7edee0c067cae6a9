"""Runs what the documentation shows: every Python snippet, and every example in a docstring."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import pathlib
import pkgutil
import re
import runpy
import shlex
from typing import Any

import pytest

import headrace
from tests.shell import Shell

ROOT = pathlib.Path(headrace.__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```(python|console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COURSE = [ROOT / "docs" / f"nmt-tutorial{part}.md" for part in ("", "-training", "-attention", "-tips")]
# Pages that go on from each other run in one folder and one session, the others alone.
SESSIONS = [COURSE, *([page] for page in PAGES if page not in COURSE)]


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
    if name.startswith(("headrace.nmt", "headrace.torch", "headrace.batch.convert")):
        pytest.importorskip("torch")
    if name.startswith("headrace.cli."):
        pytest.importorskip("typer")
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


@pytest.mark.parametrize("pages", SESSIONS, ids=lambda pages: str(pages[0].relative_to(ROOT)))
def test_snippets_of_pages(
    pages: list[pathlib.Path], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The snippets of a page run one after another, as a reader would type them.

    Of commands of the shell those run that are on the pages on translation; the others install things.
    """
    snippets = [(page, language, text) for page in pages for language, text in SNIPPET.findall(page.read_text())]
    if any("torch" in snippet or "headrace.nmt" in snippet for *_, snippet in snippets):
        pytest.importorskip("torch")
    if any(language == "console" for _, language, _ in snippets):
        pytest.importorskip("typer")
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path) if pages[0].name.startswith(("nmt", "serving")) else None
    if shell is not None:
        import torch

        threads = torch.get_num_threads()
        request.addfinalizer(lambda: torch.set_num_threads(threads))
        torch.set_num_threads(1)  # two that share a small matrix wait for each other on a busy machine
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, (page, language, snippet) in enumerate(snippets, 1):
        if language == "console":
            run_console(snippet)
        elif language == "python":
            exec(compile(snippet, f"{page.name}, snippet {number}", "exec"), namespace)
        elif shell is not None:
            shell.run(snippet)


def run_console(snippet: str) -> None:
    """Runs commands, which begin with `$`, and compares what they print (three dots stand for anything)."""
    for part in re.split(r"^\$ ", snippet, flags=re.MULTILINE)[1:]:
        command, _, expected = part.replace("\\\n", " ").partition("\n")
        name, *arguments = shlex.split(command)
        assert name == "headrace", f"only the headrace command can be shown, got {command}"
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            importlib.import_module("headrace.cli").main(arguments)
        same = doctest.OutputChecker().check_output(expected, out.getvalue(), doctest.ELLIPSIS)
        assert same, f"$ {command}\n{out.getvalue()}"


def test_a_snippet_that_prints_something_else_is_found() -> None:
    pytest.importorskip("typer")
    run_console(f"$ headrace --version\nheadrace {headrace.__version__}\n$ headrace \\\n  --version\nhead...\n")
    with pytest.raises(AssertionError, match="headrace --version"):
        run_console("$ headrace --version\nheadrace 7\n")


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
