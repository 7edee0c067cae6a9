"""The house rules: who may import whom, what is public, how large a file may be."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

import headrace

PACKAGE = pathlib.Path(headrace.__file__).parent
NATIVE = PACKAGE.parents[1] / "native"

# Each room may import the rooms named here, and itself.
ALLOWED = {
    "errors": set(),
    "clock": set(),
    "plan": {"_native", "errors"},
    "batch": {"_native", "errors"},
    "vocab": {"_native", "errors", "batch", "formats"},
    "formats": {"_native", "errors", "batch", "vocab"},
    "dataset": {"errors", "clock", "batch", "formats", "plan", "vocab"},
    "engine": {"errors", "clock", "batch"},
    "state": {"errors", "dataset"},
    "loader": {"errors", "clock", "batch", "dataset", "engine", "formats", "plan", "state"},
    "verify": {"batch", "dataset", "loader"},
    "nmt": {""},  # the public surface, `import headrace as hr`, and nothing behind it
}
OPTIONAL = {"torch", "sacrebleu", "matplotlib", "rich", "num2words", "jax", "ray", "PIL"}


def imports(path: pathlib.Path) -> list[tuple[str, bool]]:
    """Modules that a file imports, and whether it does so when it is itself imported."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found += [
                (f"{node.module}.{alias.name}" if node.module == "headrace" else str(node.module), id(node) in top)
                for alias in node.names
            ]
    return found


def rooms() -> list[tuple[str, pathlib.Path]]:
    paths = [p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py" or p.parent != PACKAGE]
    return [(p.relative_to(PACKAGE).parts[0].removesuffix(".py"), p) for p in sorted(paths)]


@pytest.mark.parametrize(("room", "path"), rooms(), ids=lambda x: str(getattr(x, "name", x)))
def test_rooms_import_only_what_they_may(room: str, path: pathlib.Path) -> None:
    for module, at_top in imports(path):
        head, _, rest = module.partition(".")
        if head == "headrace":
            other = rest.split(".")[0]
            public = {""} if other in headrace.__all__ else {other}
            assert public <= ALLOWED[room] | {room}, f"{room} must not import {module}"
        if head in OPTIONAL and room != "nmt":
            assert not at_top, f"{path.name} imports {head} before it is used"


def test_every_room_has_a_rule() -> None:
    assert {room for room, _ in rooms()} == set(ALLOWED)


def test_the_public_surface_is_sorted_and_complete() -> None:
    assert sorted(headrace.__all__) == headrace.__all__
    defined = {
        name
        for name, value in vars(headrace).items()
        if not name.startswith("_") and getattr(value, "__module__", "headrace").startswith("headrace")
        if not isinstance(value, type(sys))
    }
    assert defined == set(headrace.__all__)


def test_all_public_names_have_documentation() -> None:
    assert [name for name in headrace.__all__ if not getattr(headrace, name).__doc__] == []


@pytest.mark.parametrize(
    "path", [*PACKAGE.rglob("*.py"), *NATIVE.rglob("*.cpp"), *NATIVE.rglob("*.h")], ids=lambda p: p.name
)
def test_files_stay_small(path: pathlib.Path) -> None:
    limit = 500 if path.suffix == ".py" else 800
    assert len(path.read_text().splitlines()) <= limit


@pytest.mark.parametrize("path", [*NATIVE.glob("*.cpp"), *NATIVE.glob("*.h")], ids=lambda p: p.name)
def test_the_core_knows_nothing_of_python(path: pathlib.Path) -> None:
    text = path.read_text()
    assert "nanobind" not in text
    assert "Python.h" not in text


def test_importing_headrace_imports_numpy_alone() -> None:
    code = "import sys, headrace; print([m for m in ('torch', 'pandas', 'scipy', 'matplotlib') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_stub_of_the_native_core_is_up_to_date(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("nanobind", reason="the stub is made by nanobind")
    stub = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "headrace._native", "-o", str(stub)]
    subprocess.run(command, check=True, capture_output=True)
    assert stub.read_text() == (PACKAGE / "_native.pyi").read_text(), f"make it anew: {' '.join(command[1:])}"
