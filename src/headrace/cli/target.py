"""Finds what a command is to work on: an object in a Python file or module, named `FILE_OR_MODULE:NAME`."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import traceback
from types import ModuleType
from typing import Any

import headrace as hr
from headrace.cli.output import DataProblem


class TargetError(hr.HeadraceError):
    """Nothing can be found under the name that was given."""


def load_target(target: str) -> Any:
    """The object that a command line names.

    Args:
        target: `script.py:NAME` or `package.module:NAME`, where NAME may have dots. Without a name, the only dataset,
            batches or loader there is taken.

    Raises:
        TargetError: If there is no such file, module or name.
        DataProblem: If the file raises an error.
    """
    place, _, name = target.rpartition(":")
    if not place or place.endswith((":", "\\")):
        place, name = target, ""
    module = _load(place)
    if not name:
        return _only(module, place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = ", ".join(sorted(_candidates(module))) or "nothing that gives records"
            raise TargetError(f"{place} has no {name!r}; it has {names}")
        found = getattr(found, part)
    return found


def _candidates(module: ModuleType) -> dict[str, Any]:
    kinds = (hr.Dataset, hr.Batches, hr.Loader)
    return {
        name: value for name, value in vars(module).items() if isinstance(value, kinds) and not name.startswith("_")
    }


def _only(module: ModuleType, place: str) -> Any:
    found = _candidates(module)
    if len(found) != 1:
        names = f"it has {', '.join(sorted(found))}" if found else "it has no dataset, batches or loader by itself"
        raise TargetError(f"say which of {place}: {place}:NAME; {names}")
    return next(iter(found.values()))


def _load(place: str) -> ModuleType:
    path = pathlib.Path(place)
    is_file = path.suffix == ".py" or path.is_file()
    if is_file and not path.is_file():
        raise TargetError(f"{place}: there is no such file")
    folder = str(path.resolve().parent) if is_file else ""
    if folder not in sys.path:  # as Python does for a script, or for `python -m`
        sys.path.insert(0, folder)
    name = path.stem if is_file else place
    try:
        if not is_file:
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise TargetError(f"{place} is no Python file; its name should end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # for functions of the file to be sent to other processes
        spec.loader.exec_module(module)
        return module
    except TargetError:
        raise
    except ModuleNotFoundError as error:
        if not is_file and error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise TargetError(f"there is no module {error.name!r} (and no file {place})") from None
        raise DataProblem(_told(place, error)) from None
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise DataProblem(_told(place, error)) from None


def _told(place: str, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    where = f"{frames[-1].filename}, line {frames[-1].lineno}" if len(frames) > 1 else place
    if isinstance(error, SyntaxError):
        where = f"{error.filename}, line {error.lineno}"
    return f"{place} can't be run: {type(error).__name__}: {error} ({where})"
