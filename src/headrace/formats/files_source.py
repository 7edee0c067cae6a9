"""What sources have in common whose files stay open: naming them, telling them from others, sending them elsewhere."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from headrace import _native
from headrace.formats.files import FileState, find_again
from headrace.formats.sidecar import IndexMode
from headrace.formats.source import Fingerprint, Source


class OpenFile(Protocol):
    """A file that a source has open."""

    @property
    def path(self) -> str:
        """As it was asked for."""

    @property
    def bytes(self) -> _native.FileBytes:
        """Its content."""

    @property
    def state(self) -> FileState:
        """What it was when it was opened."""


class FilesSource(Source):
    """Records of files that stay open. Other processes open them anew, and make sure that they are the same.

    A class says how files are opened, and keeps what it needs for that in the attributes named in `_settings`.
    """

    _settings: tuple[str, ...] = ()
    _files: Sequence[Any] = ()
    _index: IndexMode = "auto"

    @abstractmethod
    def _open(self, paths: list[str]) -> None:
        """Opens the files (each an `OpenFile`), and what reads them."""

    @property
    def paths(self) -> list[str]:
        """The files, in the order of their records."""
        return [file.path for file in self._files]

    def fingerprint(self) -> Fingerprint:
        """Records, bytes and a sample of the content, of all files together; the same for plain and packed files."""
        self._check_open()
        samples = np.array([file.bytes.sample() for file in self._files], np.uint64)
        size = sum(file.bytes.size for file in self._files)
        return {"records": self.num_records, "bytes": size, "sample": f"{_native.hash64(samples.view(np.uint8)):016x}"}

    def _check_open(self) -> None:
        if not self._files:
            raise ValueError("this source is closed; make a new one to read on")

    def __getstate__(self) -> dict[str, Any]:
        self._check_open()
        return {name: getattr(self, name) for name in self._settings} | {
            "files": [(os.path.abspath(file.path), file.path, file.state) for file in self._files],
            "_index": "memory" if self._index == "memory" else "auto",
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("files")
        for name, value in state.items():
            setattr(self, name, value)
        self._open([find_again(*file) for file in files])
