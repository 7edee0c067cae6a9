"""Runs benchmarks: `python -m benchmarks [NAME …] [--rounds N]`. JSON goes to build/bench, a table to the terminal."""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import platform
import re
import statistics
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
OUT = FOLDER.parent / "build" / "bench"
NAMES = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def optional_modules(name: str) -> set[str]:
    """What a benchmark's contenders may lack: the modules that it names as `OPTIONAL`."""
    return set(getattr(importlib.import_module(f"benchmarks.bench_{name}"), "OPTIONAL", ()))


def run_contender(name: str, contender: str, data: pathlib.Path) -> dict[str, float] | None:
    """Runs one contender in a process of its own; None if an optional module that it needs isn't installed."""
    code = (
        "import importlib, json, pathlib, sys; "
        f"module = importlib.import_module('benchmarks.bench_{name}'); "
        f"print(json.dumps(module.CONTENDERS[{contender!r}](pathlib.Path({str(data)!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=FOLDER.parent)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        missing = re.search(r"ModuleNotFoundError: No module named '([^'.]+)", last)
        if missing and missing[1] in optional_modules(name):
            return None
        raise SystemExit(f"{name}, {contender}:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def run(name: str, rounds: int) -> dict[str, dict[str, float]]:
    """Runs all contenders of a benchmark in turn, and takes the median of each figure."""
    module = importlib.import_module(f"benchmarks.bench_{name}")
    data = OUT / "data" / name
    data.mkdir(parents=True, exist_ok=True)
    module.prepare(data)
    figures: dict[str, list[dict[str, float]]] = {contender: [] for contender in module.CONTENDERS}
    for _ in range(rounds):
        for contender, seen in figures.items():
            result = run_contender(name, contender, data)
            if result is not None:
                seen.append(result)
    return {
        contender: {key: statistics.median(one[key] for one in seen) for key in seen[0]}
        for contender, seen in figures.items()
        if seen
    }


def main() -> None:
    """Parses the command line, runs, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--rounds", type=int, default=3, help="times that each contender runs (default: 3)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark {sorted(unknown)[0]!r}; there are {', '.join(NAMES)}")
    for name in arguments.names or NAMES:
        results = run(name, arguments.rounds)
        report = {"benchmark": name, "python": platform.python_version(), "machine": platform.machine()}
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / f"{name}.json").write_text(json.dumps({**report, "results": results}, indent=2) + "\n")
        print(f"\n{name}")
        for contender, figures in results.items():
            row = "  ".join(f"{key} {value:,.4g}" for key, value in figures.items())
            print(f"  {contender:<28} {row}")


if __name__ == "__main__":
    main()
