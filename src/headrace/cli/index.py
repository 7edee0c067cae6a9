"""`headrace index`: makes the indexes of files in CNTK's text format ahead of their first use."""

from __future__ import annotations

import glob
import os
import time
from typing import Annotated, Any

import typer

from headrace.cli import options
from headrace.cli.output import count, line, print_json, remark
from headrace.errors import DataError
from headrace.formats.ctf_index import CtfFile, open_ctf
from headrace.formats.files import SIDECAR_SUFFIX, find_files


def index(
    files: options.Files,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make indexes anew that are there already.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove indexes instead of making them.")] = False,
    skip_ids: options.SkipIds = False,
    size_of: Annotated[
        str, typer.Option("--defines-size", metavar="ALIAS", help="The stream that defines the size of sequences.")
    ] = "",
    as_json: options.Json = False,
) -> int:
    """Make the indexes of files in CNTK's text format.

    Reading makes them, too, when a file is first opened; this does it ahead, where many processes are to start at once
    or the folder can't be written to later. They lie beside the files (.hrindex) and may be deleted at any time.

    \b
    Examples:
      headrace index 'part-*.ctf'
      headrace index train.ctf --rebuild
      headrace index train.ctf --remove
    """  # noqa: D301  typer wants the character, not the backslash
    for path in find_files([os.fspath(file) for file in files]):
        found = _remove(path) if remove else _make(path, skip_ids, size_of, rebuild)
        if as_json:
            print_json(found)
        elif remove:
            line(f"{path}: {count(len(found['removed']), 'index', 'indexes')} removed")
        else:
            _show(found)
    return 0


def _remove(path: str) -> dict[str, Any]:
    beside = [path + SIDECAR_SUFFIX, *sorted(glob.glob(f"{glob.escape(path)}.*{SIDECAR_SUFFIX}"))]
    removed = [name for name in beside if os.path.isfile(name)]
    for name in removed:
        os.unlink(name)
    return {"file": path, "removed": removed}


def _make(path: str, skip_ids: bool, size_of: str, rebuild: bool) -> dict[str, Any]:
    began = time.perf_counter()
    file = open_ctf(path, skip_ids=skip_ids, main=size_of, index="rebuild" if rebuild else "auto")
    seconds = time.perf_counter() - began
    made = file.beside is None
    if made and open_ctf(path, skip_ids=skip_ids, main=size_of, index="auto").beside is None:
        raise DataError(f"{path}: no index can be kept beside it: it is packed, or its folder can't be written to")
    _warn(file)
    samples = int(file.samples.sum()) if len(file.samples) else file.num_records
    return {
        "file": path,
        "sequences": file.num_records,
        "samples" if size_of else "lines": samples,
        "ids": file.ids,
        "bytes": file.bytes.size,
        "made": made,
        "seconds": seconds,
    }


def _warn(file: CtfFile) -> None:
    if file.num_repeats:
        remark(f"warning: {file.path}: {count(file.num_repeats, 'id')} again; headrace check names them")


def _show(found: dict[str, Any]) -> None:
    unit = "samples" if "samples" in found else "lines"
    what = f"{count(found['sequences'], 'sequence')}, {count(found[unit], unit[:-1])}"
    if found["made"]:
        speed = found["bytes"] / max(found["seconds"], 1e-9) / 1e6
        line(f"{found['file']}: {what}, indexed with {speed:,.0f} MB/s")
    else:
        line(f"{found['file']}: {what}, the index was there already")
