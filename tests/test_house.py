"""The house rules: who may import whom, what is public, how large a file may be."""

from __future__ import annotations

import ast
import graphlib
import importlib
import inspect
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import pytest

import headrace

PACKAGE = pathlib.Path(headrace.__file__).parent
NATIVE = PACKAGE.parents[1] / "native"

# Each room may import the rooms and modules named here, and itself.
ALLOWED = {
    "errors": set(),
    "clock": set(),
    "checks": {"errors"},
    "attributes": set(),
    "plan": {"checks", "_native", "errors"},
    "batch": {"checks", "_native", "errors"},
    "vocab": {"checks", "_native", "errors", "batch", "formats.atomic", "formats.files"},
    "formats": {"checks", "_native", "errors", "batch", "vocab"},  # vocab for text.py alone, see below
    "dataset": {"checks", "errors", "clock", "batch", "formats", "plan", "vocab"},
    "engine": {"attributes", "_native", "errors", "clock", "batch"},
    "state": {"errors", "dataset", "formats", "plan"},
    "blocks": {"errors", "clock", "batch", "dataset", "engine", "formats", "plan", "state"},
    "schedule": {"batch", "blocks", "dataset", "engine", "formats", "plan", "state"},
    "quality": {"checks", "errors", "dataset"},
    "profile": {"checks", "errors", "engine"},
    "runs": {"errors", "clock", "batch", "blocks", "dataset", "engine", "plan", "schedule", "state"},
    "loader": {
        "checks",
        "runs",
        "errors",
        "clock",
        "blocks",
        "batch",
        "dataset",
        "engine",
        "formats",
        "profile",
        "schedule",
        "state",
    },
    "proof": {"checks", "errors", "clock", "batch", "dataset", "engine", "loader", "plan"},
    "cntk": {"checks", "", "errors", "clock", "batch", "formats", "plan", "engine"},  # "": the public surface
    "tf1": {"", "errors", "formats"},
    "torch": {"errors", "attributes", "clock", "engine", "profile"},
    "cli": {"", "errors", "batch", "formats", "cntk", "nmt.cli.programs", "plan.batches", "profile", "state"},
    "nmt": {""},  # the public surface, `import headrace as hr`, and nothing behind it
}
OPTIONAL = {
    "torch",
    "sacrebleu",
    "matplotlib",
    "rich",
    "num2words",
    "jax",
    "PIL",
    "pyarrow",
    "scipy",
    "zstandard",
    "fsspec",
    "typer",
    "cloudpickle",
    "cv2",
}

When = Literal["import", "call", "typing"]
PATHS = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def statements(body: Iterable[ast.AST], when: When) -> Iterator[tuple[ast.AST, When]]:
    """All nodes below, with when they run: as the file is imported, in a call, or in a type checker only."""
    for node in body:
        yield node, when
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from statements(ast.iter_child_nodes(node), "call" if when == "import" else when)
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from statements(node.body, "typing")
            yield from statements(node.orelse, when)
        else:
            yield from statements(ast.iter_child_nodes(node), when)


def imports(tree: ast.Module) -> Iterator[tuple[str, When]]:
    """Modules that a file imports, and when."""
    for node, when in statements(tree.body, "import"):
        if isinstance(node, ast.Import):
            yield from ((alias.name, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if node.module == "headrace" or inner in PATHS else str(node.module)), when


def private_names(tree: ast.Module) -> list[str]:
    """What a file reaches for behind the public surface: `hr.plan`, where `hr` is headrace."""
    aliases = [a for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    names = {a.asname or a.name for a in aliases if a.name == "headrace"}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
        if node.attr not in {*headrace.__all__, "__version__"}
    ]


def room_of(module: str) -> str:
    return module.removeprefix("headrace").removeprefix(".").partition(".")[0]


def breaches(room: str, tree: ast.Module) -> list[str]:
    """What a file of a room does that the rules above forbid."""
    found = [f"reaches for {name}" for name in private_names(tree)]
    for module, when in imports(tree):
        head, _, inside = module.partition(".")
        if head == "headrace":
            other = room_of(module)
            allowed = ALLOWED[room] | {room}
            if {"" if other in headrace.__all__ else other, inside}.isdisjoint(allowed):
                found.append(f"imports {module}")
        if head in OPTIONAL and room not in ("nmt", "cli", "torch") and when == "import":
            found.append(f"imports {module} before it is used")
    return found


@pytest.mark.parametrize("module", [name for name in PATHS if name != "headrace"])
def test_rooms_keep_the_rules(module: str) -> None:
    assert breaches(room_of(module), ast.parse(PATHS[module].read_text())) == []


@pytest.mark.parametrize(
    ("room", "code", "expected"),
    [
        ("plan", "import headrace.batch.pad", ["imports headrace.batch.pad"]),
        ("plan", "def f():\n  from headrace.formats import text", ["imports headrace.formats.text"]),
        ("plan", "from headrace import errors, _native", []),
        ("vocab", "from headrace.formats import files, text", ["imports headrace.formats.text"]),
        ("batch", "try:\n  import torch\nexcept ImportError: pass", ["imports torch before it is used"]),
        ("batch", "if True:\n  from torch import nn", ["imports torch before it is used"]),
        ("batch", "class A:\n  import torch.nn", ["imports torch.nn before it is used"]),
        ("batch", "if TYPE_CHECKING:\n  import torch\nelse:\n  import jax", ["imports jax before it is used"]),
        ("batch", "def f():\n  import torch", []),
        ("cli", "import typer", []),
        ("nmt", "import headrace as hr\nhr.plan.Leaf, hr.Loader", ["reaches for hr.plan"]),
        ("nmt", "from headrace import Loader, plan", ["imports headrace.plan"]),
        ("nmt", "from headrace.loader import Loader", ["imports headrace.loader"]),
    ],
)
def test_breaches_of_the_rules_are_seen(room: str, code: str, expected: list[str]) -> None:
    assert breaches(room, ast.parse(code)) == expected


def test_only_reading_text_knows_vocabularies() -> None:
    """Elsewhere formats know bytes and columns; text looks ids up while it reads, in one native pass."""
    users = [name for name, path in PATHS.items() if "headrace.vocab" in dict(imports(ast.parse(path.read_text())))]
    assert {name for name in users if room_of(name) == "formats"} == {"headrace.formats.text"}


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph = {
        name: {module for module, when in imports(ast.parse(path.read_text())) if when == "import"} & PATHS.keys()
        for name, path in PATHS.items()
        if name != "headrace"
    }
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_every_room_has_a_rule() -> None:
    assert {room_of(module) for module in PATHS if module != "headrace"} == set(ALLOWED)


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


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """All functions and methods of the public surface that take arguments, and all its classes but errors."""
    of_columns = {"checked", "join", "parts"}  # of whoever makes a column of a new type
    for name in headrace.__all__:
        value = getattr(headrace, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            continue
        yield name, value
        if inspect.isclass(value):
            for member, method in inspect.getmembers(value, lambda x: inspect.isfunction(x) or inspect.ismethod(x)):
                takes = set(inspect.signature(method).parameters) - {"self"}
                if not member.startswith("_") and member not in of_columns and takes:
                    yield f"{name}.{member}", method


@pytest.mark.parametrize(("name", "value"), [*public_functions()])
def test_public_functions_have_arguments_and_an_example(name: str, value: Callable[..., object]) -> None:
    text = inspect.getdoc(value) or ""
    assert "Example:\n" in text
    if not inspect.isclass(value):
        assert "Args:\n" in text


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
    code = (
        "import sys, numpy, numpy.random; before = set(sys.modules); import headrace; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(out.stdout)) - {"numpy"} == {"headrace"}


def test_the_stub_of_the_native_core_is_up_to_date(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("nanobind", reason="the stub is made by nanobind")
    stub = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "headrace._native", "-o", str(stub)]
    subprocess.run(command, check=True, capture_output=True)
    assert stub.read_text() == (PACKAGE / "_native.pyi").read_text(), f"make it anew: {' '.join(command[1:])}"


def test_a_core_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.reload(headrace)  # as it is, it fits
    monkeypatch.setattr(headrace._native, "core_version", lambda: "9.9")
    with pytest.raises(ImportError, match=r"found the native core of headrace 9.9 in .*install headrace again"):
        importlib.reload(headrace)
