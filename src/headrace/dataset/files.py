"""Whole files as the beginning of a description."""

from __future__ import annotations

import os
from collections.abc import Sequence

from headrace.dataset.dataset import Dataset
from headrace.dataset.leaf import SourceNode
from headrace.formats.files import Paths, find_files, natural
from headrace.formats.whole_files import WholeFiles, find_pictures


def read_files(files: Paths) -> Dataset:
    """Reads whole files, in any order, as dicts of `"path"` and `"data"`, the bytes.

    Files are opened as they are read; only paths are kept in memory. A saved state belongs to names and sizes.

    Args:
        files: A file, a glob pattern, or a list of those. The files of a pattern come in the order of their names, in
            which numbers count as numbers: `frame9.png` comes before `frame10.png`.

    Raises:
        FileNotFoundError: If a file isn't there or a pattern matches none.
        IsADirectoryError: If a path is a directory.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in (9, 10):
        ...         _ = pathlib.Path(folder, f"part{number}.bin").write_bytes(b"%d" % number)
        ...     [record["data"] for record in hr.read_files(folder + "/*.bin")]
        [b'9', b'10']
    """
    return Dataset(SourceNode(WholeFiles(find_files(files, natural), "data")))


def read_image_folder(folder: str | os.PathLike[str], *, classes: Sequence[str] | None = None) -> Dataset:
    """Reads pictures from a folder that has a folder for each class: dicts of `"path"`, `"image"` and `"label"`.

    Labels count the classes in the order of their names, and records come by class and name: the order of torchvision's
    `ImageFolder`. Images are bytes until `decode_image("image")`. Files with other endings than .jpg, .jpeg, .png, .bmp
    and .gif are passed over.

    Args:
        folder: The folder.
        classes: The names of its folders in the order of their labels; None takes them all, sorted.

    Raises:
        FileNotFoundError: If the folder isn't there.
        NotADirectoryError: If it, or the folder of a class, is none.
        DataError: If there is no class, or one without pictures.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("cat", "dog"):
        ...         pathlib.Path(folder, name).mkdir()
        ...         _ = pathlib.Path(folder, name, "1.jpg").write_bytes(name.encode())
        ...     [(record["image"], int(record["label"])) for record in hr.read_image_folder(folder)]
        [(b'cat', 0), (b'dog', 1)]
    """
    paths, labels = find_pictures(folder, classes)
    return Dataset(SourceNode(WholeFiles(paths, "image", labels)))
