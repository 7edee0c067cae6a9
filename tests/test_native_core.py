"""Builds the native core with its own tests under sanitizers, and runs them."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import headrace

ROOT = pathlib.Path(headrace.__file__).parents[2]


def test_the_core_passes_its_tests_under_sanitizers() -> None:
    # The one beside the interpreter first: the system's may be older than the build needs.
    beside = pathlib.Path(sys.executable).parent
    cmake = shutil.which("cmake", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if cmake is None:
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
