"""`tf.gfile`: files and folders, by the names that programs of TensorFlow 1 use."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import IO, Any

__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
    "Walk",
    "copy",
    "exists",
    "glob",
    "isdir",
    "listdir",
    "makedirs",
    "mkdir",
    "remove",
    "rename",
    "rmtree",
    "walk",
]


def GFile(name: str | os.PathLike[str], mode: str = "r") -> IO[Any]:
    """Opens a file; texts are UTF-8.

    Raises:
        OSError: If that can't be done.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace import tf1 as tf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tf.gfile.GFile(folder + "/words", "w") as file:
        ...         _ = file.write("mill")
        ...     tf.gfile.Exists(folder + "/words"), tf.gfile.ListDirectory(folder)
        (True, ['words'])
    """
    return open(name, mode, encoding=None if "b" in mode else "utf-8")


FastGFile = Open = GFile


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file or folder of that name."""
    return os.path.exists(path)


def isdir(path: str | os.PathLike[str]) -> bool:
    """Whether it is a folder."""
    return os.path.isdir(path)


def listdir(path: str | os.PathLike[str]) -> list[str]:
    """The names in a folder, sorted.

    Raises:
        OSError: If there is no such folder.
    """
    return sorted(os.listdir(path))


def glob(pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files and folders that a pattern matches, or one of several, sorted."""
    patterns = [pattern] if isinstance(pattern, (str, os.PathLike)) else pattern
    return sorted({path for one in patterns for path in _glob.glob(os.fspath(one))})


def mkdir(path: str | os.PathLike[str]) -> None:
    """Makes a folder.

    Raises:
        OSError: If it is there, or what it should be in isn't.
    """
    os.mkdir(path)


def makedirs(path: str | os.PathLike[str]) -> None:
    """Makes a folder and those that it is in, where they aren't there.

    Raises:
        OSError: If that can't be done.
    """
    os.makedirs(path, exist_ok=True)


def remove(path: str | os.PathLike[str]) -> None:
    """Deletes a file.

    Raises:
        OSError: If that can't be done.
    """
    os.remove(path)


def rmtree(path: str | os.PathLike[str]) -> None:
    """Deletes a folder with all that is in it.

    Raises:
        OSError: If that can't be done.
    """
    shutil.rmtree(path)


def rename(src: str | os.PathLike[str], dst: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Gives a file another name.

    Raises:
        OSError: If that can't be done, or something has that name and `overwrite` isn't given.
    """
    _check_free(dst, overwrite)
    os.replace(src, dst)


def copy(src: str | os.PathLike[str], dst: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Copies a file.

    Raises:
        OSError: As for `rename`.
    """
    _check_free(dst, overwrite)
    shutil.copyfile(src, dst)


def walk(top: str | os.PathLike[str], topdown: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder below one, with the names of the folders and files in it."""
    return os.walk(os.fspath(top), topdown)


def _check_free(path: str | os.PathLike[str], overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{os.fspath(path)} is there; say overwrite=True to replace it")


Exists, IsDirectory, ListDirectory, Glob, Walk = exists, isdir, listdir, glob, walk
MkDir, MakeDirs, Remove, DeleteRecursively, Rename, Copy = mkdir, makedirs, remove, rmtree, rename, copy
