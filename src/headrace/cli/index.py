"""`headrace index`: makes the indexes of CNTK's text and of TFRecord files ahead of their first use."""

from __future__ import annotations

import glob
import os
import time
from typing import Annotated, Any

import typer

from headrace.cli import options
from headrace.cli.inputs import format_of
from headrace.cli.output import count, line, print_json, remark
from headrace.errors import DataError
from headrace.formats.ctf_index import CtfFile, open_ctf
from headrace.formats.files import SIDECAR_SUFFIX, find_files
from headrace.formats.record_source import TFRecordSource
from headrace.formats.tfrecord import is_tfrecord


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
    """Make the indexes of files in CNTK's text format, and of TFRecord files.

    Reading makes them, too, when a file is first opened; this does it ahead, where many processes are to start at once
    or the folder can't be written to later. They lie beside the files (.hrindex) and may be deleted at any time.

    \b
    Examples:
      headrace index 'part-*.ctf'
      headrace index train.ctf --rebuild
      headrace index train.ctf --remove
      headrace index 'train-*.tfrecord'
    """  # noqa: D301  typer wants the character, not the backslash
    for path in find_files([os.fspath(file) for file in files]):
        if remove:
            found = _remove(path)
        elif format_of(path) == "tfrecord" or (format_of(path) is None and is_tfrecord(path)):
            found = _make_of_records(path, rebuild)
        else:
            found = _make(path, skip_ids, size_of, rebuild)
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


def _make_of_records(path: str, rebuild: bool) -> dict[str, Any]:
    began = time.perf_counter()
    source = TFRecordSource(path, index="rebuild" if rebuild else "auto")
    seconds = time.perf_counter() - began
    made = not source.indexed
    size = int(source.fingerprint()["bytes"] or 0)
    source.close()
    if made and not TFRecordSource(path).indexed:
        raise DataError(f"{path}: no index can be kept beside it: it is packed, or its folder can't be written to")
    return {"file": path, "records": source.num_records, "bytes": size, "made": made, "seconds": seconds}


def _warn(file: CtfFile) -> None:
    if file.num_repeats:
        remark(f"warning: {file.path}: {count(file.num_repeats, 'id')} again; headrace check names them")


def _show(found: dict[str, Any]) -> None:
    units = [unit for unit in ("sequences", "samples", "lines", "records") if unit in found]
    what = ", ".join(count(found[unit], unit[:-1]) for unit in units)
    if found["made"]:
        speed = found["bytes"] / max(found["seconds"], 1e-9) / 1e6
        line(f"{found['file']}: {what}, indexed with {speed:,.0f} MB/s")
    else:
        line(f"{found['file']}: {what}, the index was there already")
