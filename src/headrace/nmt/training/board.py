"""What TensorBoard shows of a run: event files, in `train_log` as the tutorial has it.

An event file is a TFRecord file of messages. The few that are needed are put together here, so that training takes
neither TensorFlow nor TensorBoard; whoever looks at the curves does: `tensorboard --logdir=OUT_DIR/train_log`.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from headrace.nmt.text.files import make_folder, naming

__all__ = ["Board"]

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # how the value of a field is laid out
_STRING = 7  # the number of the type in a tensor of texts


class Board:
    """Writes an event file; what is written is on disk after `flush` or `close`.

    Args:
        folder: Where it goes; None: nothing is written.

    Example:
        >>> import tempfile, headrace as hr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     board = Board(Path(folder))
        ...     board.begin(step=0)
        ...     board.scalars(1, {"train_loss": 2.5})
        ...     board.close()
        ...     len(list(hr.read_tfrecord(Path(folder, "events.out.tfevents.*"))))
        3
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def begin(self, step: int) -> None:
        """Opens the file; what an earlier run may have written of later steps, TensorBoard then forgets."""
        if self._folder is None:
            return
        make_folder(self._folder)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._file = (self._folder / name).open("ab")
        self._event(0, _field(3, b"brain.Event:2"))
        self._event(step + 1 if step else 0, _field(7, _field(1, 1)))  # a session starts
        self.flush()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes a point of several curves."""
        self._summary(step, (_field(1, tag.encode()) + _field(2, value) for tag, value in values.items()))

    def picture(self, step: int, tag: str, png: bytes) -> None:
        """Writes a picture."""
        width, height = struct.unpack(">II", png[16:24])  # of the header, which comes first
        image = _field(1, height) + _field(2, width) + _field(3, 4) + _field(4, png)
        self._summary(step, [_field(1, tag.encode()) + _field(4, image)])

    def text(self, step: int, tag: str, text: str) -> None:
        """Writes a text in Markdown."""
        content = text.encode("utf-8", "replace")
        tensor = _field(1, _STRING) + _field(2, _field(2, _field(1, 1))) + _field(8, content)
        plugin = _field(1, _field(1, b"text"))
        self._summary(step, [_field(1, tag.encode()) + _field(8, tensor) + _field(9, plugin)])

    def flush(self) -> None:
        """Hands over to the system what was written."""
        if self._file is not None:
            with naming(Path(self._file.name)):
                self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            file, self._file = self._file, None
            with naming(Path(file.name)):
                file.close()

    def _summary(self, step: int, values: Iterable[bytes]) -> None:
        if self._file is not None:
            self._event(step, _field(5, b"".join(_field(1, value) for value in values)))

    def _event(self, step: int, what: bytes) -> None:
        assert self._file is not None
        record = _key(1, _DOUBLE) + struct.pack("<d", time.time()) + _field(2, step) + what
        length = struct.pack("<Q", len(record))
        with naming(Path(self._file.name)):
            self._file.write(length + _checksum(length) + record + _checksum(record))


# Messages of protocol buffers ----------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _key(number: int, layout: int) -> bytes:
    return _varint(number << 3 | layout)


def _field(number: int, value: int | float | bytes) -> bytes:
    """Lays out a field: whole numbers, numbers of four bytes, and whatever is bytes already."""
    if isinstance(value, bytes):
        return _key(number, _BYTES) + _varint(len(value)) + value
    if isinstance(value, int):
        return _key(number, _VARINT) + _varint(value)
    return _key(number, _FLOAT) + struct.pack("<f", max(-3.4e38, min(3.4e38, value)))


def _make_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _make_table()


def _checksum(content: bytes) -> bytes:
    """Returns CRC-32C as TFRecord files have it: turned, and a constant added."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)
