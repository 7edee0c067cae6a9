"""What it costs to begin: the import, the size of the package, and the first batch after restoring a saved position.

`import ms` is what `import headrace` adds to importing NumPy. `package MB` is what the wheel puts on disk, `wheel MB`
what is downloaded. The position is restored in a new process, near the beginning, in the middle and near the end of an
epoch of 1M pairs of lines with buckets; `state bytes` is the size of the saved document as JSON.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable

from benchmarks import bench_text_pairs

ROOT = pathlib.Path(__file__).parents[1]

SHARES = (0.01, 0.5, 0.99)  # of an epoch


def prepare(folder: pathlib.Path) -> None:
    """Builds the wheel, and saves positions in the benchmark of text pairs for other processes to restore."""
    import headrace as hr

    shared = _pairs(folder)
    shared.mkdir(exist_ok=True)
    bench_text_pairs.prepare(shared)
    for old in folder.glob("*.whl"):
        old.unlink()
    command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # cmake and ninja
    settings = "--config-settings=build-dir=build/wheel"
    subprocess.run([sys.executable, *command, settings], check=True, env={**os.environ, "PATH": path})
    loader = hr.Loader(bench_text_pairs._batches(shared))
    steps = {int(len(loader) * share): share for share in SHARES}
    for number, _ in enumerate(loader, 1):
        if number in steps:
            _state(folder, steps[number]).write_text(json.dumps(loader.state_dict()))


def _pairs(folder: pathlib.Path) -> pathlib.Path:
    return folder.parent / "text_pairs"


def _state(folder: pathlib.Path, share: float) -> pathlib.Path:
    return folder / f"state-{share:.0%}.json"


def _import(folder: pathlib.Path) -> dict[str, float]:
    code = "import time, numpy; t = time.perf_counter(); import headrace; print(time.perf_counter() - t)"
    # With bytecode kept, as installed packages have it, whatever the environment says.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times = [float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(7)]
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    return {"import ms": 1000 * sorted(times)[3], "package MB": size / 1e6, "wheel MB": wheel.stat().st_size / 1e6}


def _restore(folder: pathlib.Path, share: float) -> dict[str, float]:
    import headrace as hr

    state = _state(folder, share).read_text()
    data = bench_text_pairs._batches(_pairs(folder))  # files are opened before the clock starts
    began = time.perf_counter()
    loader = hr.Loader(data)
    loader.load_state_dict(json.loads(state))
    next(iter(loader))
    return {"first batch ms": 1000 * (time.perf_counter() - began), "state bytes": len(state)}


CONTENDERS: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {
    "import": _import,
    **{f"restore at {share:.0%}": functools.partial(_restore, share=share) for share in SHARES},
}
