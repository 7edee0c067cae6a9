"""The check of wheels sees what is wrong with one; `make wheel` uses it on the real one."""

from __future__ import annotations

import pathlib
import zipfile

from tests.packaging.check_wheel import MAX_BYTES, NEEDED, look_through

INFO = "headrace-1.0.dist-info"
GOOD = [*NEEDED, "headrace/_native.cpython-311-x86_64-linux-gnu.so", f"{INFO}/licenses/LICENSE", f"{INFO}/RECORD"]


def wheel(path: pathlib.Path, names: list[str], size: int = 0) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, bytes(size))
    return path


def test_a_good_wheel_passes(tmp_path: pathlib.Path) -> None:
    assert look_through(wheel(tmp_path / "a.whl", GOOD)) == []


def test_what_is_missing_or_too_much_is_named(tmp_path: pathlib.Path) -> None:
    assert look_through(wheel(tmp_path / "a.whl", [*GOOD, "tests/test_a.py", "benchmarks/b.py"])) == [
        "tests/test_a.py doesn't belong there",
        "benchmarks/b.py doesn't belong there",
    ]
    assert look_through(wheel(tmp_path / "b.whl", [f"{INFO}/RECORD"])) == [
        *(f"{name} is missing" for name in NEEDED),
        "the native core is missing",
        "the license is missing",
    ]
    (wrong,) = look_through(wheel(tmp_path / "c.whl", GOOD, MAX_BYTES // len(GOOD)))
    assert "expected less than 5,000,000" in wrong
