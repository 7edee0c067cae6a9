"""Looks a built wheel through, installs it into an environment of its own, and tries it there.

`python check_wheel.py WHEEL`, as `make wheel` runs it. A script, not a test: it installs NumPy from the package index.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import venv
import zipfile

MAX_BYTES = 5_000_000
FOLDERS = {"headrace"}  # besides the wheel's own `headrace-….dist-info`
NEEDED = (
    *("headrace/__init__.py", "headrace/py.typed", "headrace/_native.pyi", "headrace/formats/__init__.py"),
    "headrace/nmt/serving/page.html",
)


def look_through(wheel: pathlib.Path) -> list[str]:
    """What is wrong with the size or the contents of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    info = {name.split("/")[0] for name in names if ".dist-info/" in name}
    wrong = [f"{name} is missing" for name in NEEDED if name not in names]
    if not any(name.startswith("headrace/_native.") and name.endswith(".so") for name in names):
        wrong.append("the native core is missing")
    if not any(name.endswith("/LICENSE") and name.split("/")[0] in info for name in names):
        wrong.append("the license is missing")
    wrong += [f"{name} doesn't belong there" for name in names if name.split("/")[0] not in FOLDERS | info]
    size = wheel.stat().st_size
    if size >= MAX_BYTES:
        wrong.append(f"it has {size:,} bytes, expected less than {MAX_BYTES:,}")
    return wrong


def try_out(wheel: pathlib.Path) -> None:
    """Installs the wheel and what it depends on, nothing else, and runs the smoke test outside the repository."""
    smoke = (pathlib.Path(__file__).parent / "smoke.py").read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        (folder / "smoke.py").write_text(smoke)
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        for command in (
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)],
            [str(python), "smoke.py", str(folder / "venv")],
        ):
            subprocess.run(command, cwd=folder, env=environment, check=True)


def main() -> None:
    """Checks the wheel that the command line names."""
    if len(sys.argv) != 2:
        sys.exit(f"expected one wheel, got {sys.argv[1:]}: remove the folder and build again")
    wheel = pathlib.Path(sys.argv[1]).resolve()
    if wrong := look_through(wheel):
        sys.exit("\n".join([f"{wheel.name}:", *wrong]))
    try_out(wheel)
    sys.stdout.write(f"{wheel.name}: {wheel.stat().st_size:,} bytes, installs and works\n")


if __name__ == "__main__":
    main()
