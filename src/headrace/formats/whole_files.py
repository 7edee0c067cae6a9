"""Whole files as records: the path and the bytes of each."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Bytes, Strings
from headrace.batch.tree import Tree
from headrace.checks import path_of
from headrace.errors import DataError
from headrace.formats.files import AnyPath
from headrace.formats.source import Fingerprint, Source

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
"""Endings of the names of pictures, in small letters."""


class WholeFiles(Source):
    """Files, each of which is a record; they are opened as they are read.

    Args:
        paths: The files.
        data: What the column of their bytes is called.
        labels: A number for each, which makes a column `"label"`.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from headrace.formats.whole_files import WholeFiles
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.bin")
        ...     _ = path.write_bytes(b"content")
        ...     WholeFiles([str(path)], "data").read(np.array([0]))["data"].tolist()
        [b'content']
    """

    kind = "files"

    def __init__(self, paths: Sequence[str], data: str, labels: NDArray[np.int64] | None = None) -> None:
        self._paths = Strings.from_rows(paths)  # in one piece: there may be millions
        self._data = data
        self._labels = labels
        self._fingerprint: Fingerprint | None = None

    @property
    def num_records(self) -> int:
        """As many as files."""
        return len(self._paths)

    def read(self, records: NDArray[np.int64]) -> Tree:
        """Reads files from their beginning to their end.

        Raises:
            OSError: If one can't be read.
        """
        paths = self._paths.take(records)
        contents = []
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                contents.append(file.read())
        columns: dict[str, Tree] = {"path": paths, self._data: Bytes.from_rows(contents)}
        if self._labels is not None:
            columns["label"] = self._labels[records]
        return columns

    def column_names(self) -> list[str]:
        """The path and the bytes, and the label where there is one."""
        return ["path", self._data, *(["label"] if self._labels is not None else [])]

    def fingerprint(self) -> Fingerprint:
        """Number, names from their common folder on, sizes and labels; what is in the files isn't looked at."""
        if self._fingerprint is None:
            paths = list(self._paths)
            folder = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
            names = "\n".join(os.path.relpath(path, folder) for path in paths)
            sizes = np.array([os.stat(path).st_size for path in paths], np.int64)
            found = _native.hash64(np.frombuffer(names.encode(), np.uint8))
            for numbers in (sizes, self._labels if self._labels is not None else sizes[:0]):
                found = _native.absorb(found, _native.hash64(numbers.view(np.uint8)))
            self._fingerprint = {"records": len(paths), "bytes": int(sizes.sum()), "names": f"{found:016x}"}
        return dict(self._fingerprint)

    def where(self, record: int) -> str:
        """The file."""
        path: str = self._paths[record]
        return path


def find_pictures(folder: AnyPath, classes: Sequence[str] | None = None) -> tuple[list[str], NDArray[np.int64]]:
    """The pictures below a folder that has a folder for each class, in the order that torchvision's has.

    Args:
        folder: The folder.
        classes: Its folders, in the order of their labels; None takes them all, sorted.

    Returns:
        Paths, and the label of each.

    Raises:
        OSError: If a folder isn't there.
        DataError: If there is no class, one comes twice, or one has no picture.
    """
    folder = path_of(folder)
    if classes is None:
        classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        if not classes:
            raise DataError(f"{folder}: expected a folder for each class of pictures, found none; see read_files")
    elif (
        not isinstance(classes, Sequence)
        or isinstance(classes, (str, bytes))
        or not all(isinstance(name, str) for name in classes)
        or not classes
        or len(set(classes)) != len(classes)
    ):
        raise DataError(f"classes: expected different names of folders, at least one, got {classes!r:.80}")
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        inside = os.path.join(folder, name)
        if not os.path.isdir(inside):
            raise NotADirectoryError(errno.ENOTDIR, "expected the folder of a class, found none; check classes", inside)
        before = len(paths)
        for root, _, names in sorted(os.walk(inside, followlinks=True)):
            paths += [os.path.join(root, one) for one in sorted(names) if one.lower().endswith(PICTURES)]
        if len(paths) == before:
            raise DataError(f"{inside}: expected pictures ({', '.join(PICTURES)}), found none; leave it out of classes")
        labels += [label] * (len(paths) - before)
    return paths, np.array(labels, np.int64)
