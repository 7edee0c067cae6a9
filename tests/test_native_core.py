"""Builds the native core with its own tests under sanitizers, and runs them."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

import headrace

ROOT = pathlib.Path(headrace.__file__).parents[2]


def test_the_core_passes_its_tests_under_sanitizers(tmp_path: pathlib.Path) -> None:
    cmake = shutil.which("cmake") or str(pathlib.Path(__import__("sys").executable).parent / "cmake")
    if not pathlib.Path(cmake).exists():
        pytest.skip("needs cmake")
    build = ROOT / "build" / "native-tests"
    build.mkdir(parents=True, exist_ok=True)
    steps = [
        [cmake, "-S", str(ROOT), "-B", str(build), "-DHEADRACE_NATIVE_TESTS=ON", "-DCMAKE_BUILD_TYPE=Debug"],
        [cmake, "--build", str(build), "--parallel", "2"],
        [str(pathlib.Path(cmake).with_name("ctest")), "--test-dir", str(build), "--output-on-failure"],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(step)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
