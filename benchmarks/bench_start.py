"""What it costs to begin: the import, the size of the package, and the first batch after restoring a saved position.

`import ms` is what `import headrace` adds to importing NumPy. `package MB` is what the wheel without extras puts on
disk. The position is restored in the middle and near the end of an epoch of 1M pairs of lines with buckets; `state
bytes` is the size of the saved document as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import time

from benchmarks import bench_text_pairs


def prepare(folder: pathlib.Path) -> None:
    """Shares the files of the benchmark of text pairs."""
    shared = folder.parent / "text_pairs"
    shared.mkdir(exist_ok=True)
    bench_text_pairs.prepare(shared)


def _import(folder: pathlib.Path) -> dict[str, float]:
    import os
    import subprocess
    import sys

    code = "import time, numpy; t = time.perf_counter(); import headrace; print(time.perf_counter() - t)"
    # With bytecode kept, as installed packages have it, whatever the environment says.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times = [float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(7)]
    import headrace

    package = pathlib.Path(headrace.__file__).parent
    files = [p for p in package.rglob("*") if p.is_file() and p.suffix in (".py", ".pyi", ".typed")]
    extension = importlib.util.find_spec("headrace._native")
    assert extension is not None
    assert extension.origin is not None
    native = pathlib.Path(extension.origin)
    size = sum(p.stat().st_size for p in [*files, native])
    return {"import ms": 1000 * sorted(times)[3], "package MB": size / 1e6}


def _restore(share: float) -> dict[str, float]:
    import headrace as hr

    folder = pathlib.Path(__file__).parents[1] / "build" / "bench" / "data" / "text_pairs"
    data = bench_text_pairs._batches(folder)
    loader = hr.Loader(data)
    steps = int(len(loader) * share)
    for number, _ in enumerate(loader, 1):
        if number == steps:
            break
    state = json.dumps(loader.state_dict())
    # A fresh description and loader, as a new process has them; files are opened before the clock starts.
    again = bench_text_pairs._batches(folder)
    began = time.perf_counter()
    restored = hr.Loader(again)
    restored.load_state_dict(json.loads(state))
    next(iter(restored))
    return {"first batch ms": 1000 * (time.perf_counter() - began), "state bytes": len(state)}


CONTENDERS = {
    "import": _import,
    "restore at 1 %": lambda folder: _restore(0.01),
    "restore at 50 %": lambda folder: _restore(0.5),
    "restore at 99 %": lambda folder: _restore(0.99),
}
