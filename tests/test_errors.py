"""The errors that headrace raises itself: all of them public, documented and picklable."""

from __future__ import annotations

import ast
import os
import pathlib
import pickle
import signal
import threading
from collections.abc import Iterator

import pytest

import headrace as hr
from headrace import errors

PACKAGE = pathlib.Path(hr.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "errors.md"

# Never seen as themselves: users catch the DataError that they are, or read the message that a command makes of them.
INSIDE = {"RecordError", "TooLarge", "TargetError"}


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield path.relative_to(PACKAGE).parts[0], node


def own_errors() -> Iterator[tuple[str, str, set[str]]]:
    """Each class derived from HeadraceError, with its room and all classes above it."""
    above: dict[str, set[str]] = {"HeadraceError": set()}
    found = list(classes())
    while True:
        before = len(above)
        for room, node in found:
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if node.name not in above and bases & above.keys():
                above[node.name] = bases.union(*(above[base] for base in bases & above.keys()))
                yield room, node.name, above[node.name]
        if len(above) == before:
            return


def test_every_error_is_in_both_trees() -> None:
    names = list(own_errors())
    assert len(names) > 20
    wanted = {name for _, name, above in names if name not in INSIDE and "OpError" not in above}
    page, module = PAGE.read_text(), errors.__doc__ or ""
    assert sorted(name for name in wanted if name not in page) == []
    assert sorted(name for name in wanted if name not in module) == []


def test_errors_of_the_core_are_public() -> None:
    surfaces = {"cntk", "tf1", "torch", "nmt", "cli"}
    core = {name for room, name, _ in own_errors() if room not in surfaces} - INSIDE
    assert sorted(core - set(hr.__all__)) == []


@pytest.mark.parametrize(
    "error",
    [
        hr.WorkerError(1, 77, "KeyError", "Traceback", KeyError("a")),
        hr.WorkerDiedError("worker process 1 was killed", 77, -9),
    ],
)
def test_errors_of_workers_can_be_pickled(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again).keys() == vars(error).keys()


def test_what_cannot_be_sent_to_processes_is_an_error_of_ours() -> None:
    lock = threading.Lock()
    data = hr.from_dataset(range(8)).map(lambda n: (lock, n)[1]).batch(2)
    loader = hr.Loader(data, workers=1, mode="processes")
    other = threading.Event()
    thread = threading.Thread(target=other.wait)
    thread.start()  # so that the workers can't be forked with the lock as it is
    try:
        with pytest.raises(hr.NotPicklableError, match="can't be sent"):
            list(loader)
    finally:
        other.set()
        thread.join()
        loader.close()


class Unsendable(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(threading.Lock())


def test_an_error_that_cannot_be_sent_back_is_told_of() -> None:
    def fails(n: int) -> int:
        raise Unsendable(n)

    with (
        hr.Loader(hr.from_dataset(range(4)).map(fails).batch(2), workers=1, mode="processes") as loader,
        pytest.raises(hr.WorkerError, match="Unsendable") as caught,
    ):
        list(loader)
    assert (caught.value.name, caught.value.original) == ("Unsendable", None)


def test_workers_that_die_one_after_another_are_an_error_of_ours() -> None:
    def ends(n: int) -> int:
        if n == 5:
            os._exit(3)
        return n

    filtered = hr.from_dataset(range(9)).filter(lambda n: ends(n) < 9, block=4)
    for data, kind in ((hr.from_dataset(range(9)).map(ends), "batch"), (filtered, "block")):
        with (
            hr.Loader(data.batch(4), workers=1, mode="processes") as loader,
            pytest.raises(hr.WorkerDiedError) as caught,
        ):
            list(loader)
        assert caught.value.exitcode == 3
        told = f"exited unexpectedly with code 3 in the {kind} of 4 records, record 4 of range … record 7 of range ("
        assert told in str(caught.value)
        assert "3 workers have died at it, so it is given up. Read it without workers" in str(caught.value)


def test_who_is_killed_may_have_been_out_of_memory() -> None:
    data = hr.from_dataset(range(1)).map(lambda n: os.kill(os.getpid(), signal.SIGKILL)).batch(4)
    with (
        hr.Loader(data, workers=1, mode="processes") as loader,
        pytest.raises(hr.WorkerDiedError, match=r"in the batch of record 0 of range .* make batches smaller"),
    ):
        list(loader)
