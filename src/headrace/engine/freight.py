"""What travels between processes: jobs on their way to workers, results on their way back.

Large buffers (arrays, tensors) travel beside the pickle, in shared memory, and are used there without another copy.
"""

from __future__ import annotations

import copyreg
import functools
import io
import mmap
import pickle
import sys
import types
from collections import ChainMap
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.attributes import attributes
from headrace.engine.arena import cut_buffers, make_segment, map_segment, total_bytes, write_buffers
from headrace.errors import NotPicklableError

if TYPE_CHECKING:
    from headrace.engine.glance import Glance

_IN_BAND = 512  # bytes; a smaller buffer costs less inside the pickle than beside it
_DEEPEST = 8
_BLOCK = 1 << 20


# results -------------------------------------------------------------------------------------------------------------


def pack(value: Any) -> tuple[bytes, list[memoryview]]:
    """A pickle of a value, and the buffers that go beside it.

    Raises:
        Exception: Whatever the value's own pickling raises.
    """
    try:
        return _dump(value, pickle.Pickler)
    except Exception:
        # A local class or a lambda, perhaps; where cloudpickle doesn't help either, its error is as good.
        if (cloud := _cloud_pickler()) is None:
            raise
        return _dump(value, cloud)


def unpack(stream: bytes | memoryview, buffers: Sequence[memoryview]) -> Any:
    """The value of a pickle and its buffers, which it goes on using."""
    return pickle.loads(stream, buffers=buffers)


def _dump(value: Any, pickler: Any) -> tuple[bytes, list[memoryview]]:
    buffers: list[memoryview] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _IN_BAND:
            return True
        buffers.append(raw)
        return False

    file = io.BytesIO()
    _tabled(pickler)(file, pickle.HIGHEST_PROTOCOL, buffer_callback=beside).dump(value)
    return file.getvalue(), buffers


def _tabled(pickler: Any) -> Any:
    return _with_tables(pickler, "torch" in sys.modules)


def pickler_of(by_value: bool) -> Any:
    """The class that jobs are packed by, by value or by name."""
    return _tabled((_cloud_pickler() if by_value else None) or pickle.Pickler)


@functools.cache
def _with_tables(pickler: Any, tensors: bool) -> Any:
    table: dict[Any, Any] = {io.TextIOWrapper: _refuse}  # cloudpickle would send a copy of the text in a file's place
    if tensors:
        from headrace.engine.tensors import reducers

        table |= reducers()
    # The table is looked up as a pickler is made, so it must be the class's own.
    own = getattr(pickler, "dispatch_table", None)  # of pickle's own class it is only the place for one
    tables = ChainMap(table, own if isinstance(own, MutableMapping) else copyreg.dispatch_table)
    return type("Pickler", (pickler,), {"dispatch_table": tables})


def _refuse(file: Any) -> Any:
    raise TypeError(f"cannot pickle an open file: {file!r:.200}")


def _cloud_pickler() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle.Pickler


# jobs ----------------------------------------------------------------------------------------------------------------


class Packed:
    """A job as a pickle and the buffers beside it, which are still the job's own memory.

    Args:
        job: The job.
        by_value: Whether what `__main__` defines goes along as code. Processes that weren't forked from this one need
            that; in forked ones, names are enough.

    Raises:
        NotPicklableError: If the job can't travel; `explain` says why.
    """

    def __init__(self, job: Any, *, by_value: bool) -> None:
        self.by_value = by_value
        cloud = _cloud_pickler() if by_value else None
        try:
            self.stream, self.buffers = pack(job) if cloud is None else _dump(job, cloud)
        except Exception as error:
            raise NotPicklableError(f"can't be sent to worker processes: {error}") from error
        self.sizes = [buffer.nbytes for buffer in self.buffers]


class Parcel:
    """A packed job in shared memory, for any number of workers and openings.

    Args:
        packed: The job.

    Attributes:
        glance: Knows the job again that this was packed of; None: packing it again does.

    Raises:
        OSError: If there is no memory for it.
    """

    def __init__(self, packed: Packed) -> None:
        self.by_value = packed.by_value
        self.stream = packed.stream
        self.sizes = packed.sizes
        self.glance: Glance | None = None
        self._buffers = total_bytes(packed.buffers)
        self.nbytes = self._buffers + len(self.stream)
        self._file = make_segment(self.nbytes)
        with map_segment(self.fd, self.nbytes) as target, memoryview(target) as view:
            write_buffers(view, packed.buffers)
            view[self._buffers :] = self.stream

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    @property
    def fd(self) -> int:
        """The descriptor of the memory."""
        return self._file.fileno()

    @property
    def label(self) -> tuple[int, int, list[int]]:
        """What `open_parcel` needs beside the descriptor."""
        return self.nbytes, self._buffers, self.sizes

    @property
    def names_main(self) -> bool:
        """Whether it refers to something in `__main__` by name, which may have another meaning by now."""
        return not self.by_value and b"__main__" in self.stream

    def holds(self, packed: Packed) -> bool:
        """Whether this is that very job: nothing in it has changed since, in place or otherwise."""
        if packed.by_value != self.by_value or packed.stream != self.stream or packed.sizes != self.sizes:
            return False
        if not self._buffers:
            return True
        with mmap.mmap(self.fd, self.nbytes, prot=mmap.PROT_READ) as source, memoryview(source) as view:
            mine = cut_buffers(view, self.sizes)
            try:
                return all(_are_equal(left, right) for left, right in zip(mine, packed.buffers, strict=True))
            finally:
                for part in mine:
                    part.release()


def _are_equal(left: memoryview, right: memoryview) -> bool:
    # NumPy compares at the speed of memory, which memoryviews do not.
    for at in range(0, left.nbytes, _BLOCK):
        block = slice(at, at + _BLOCK)
        if not np.array_equal(np.frombuffer(left[block], np.uint8), np.frombuffer(right[block], np.uint8)):
            return False
    return True


def open_parcel(fd: int, label: tuple[int, int, list[int]]) -> Any:
    """A new copy of a parcel's job. Its arrays are the parcel's memory until they are written to."""
    nbytes, begin, sizes = label
    view = memoryview(map_segment(fd, nbytes, private=True))
    return unpack(view[begin:], cut_buffers(view, sizes))


def explain(job: Any, error: NotPicklableError) -> NotPicklableError:
    """The error with what to do about it, and the attribute that can't travel, as a path from the job."""
    path, kind, reason = _culprit(job, error.__cause__ or error)
    what = f"{path} ({kind})" if path else kind
    advice = "make it in the worker, at first use, leave it out in __getstate__"
    if _cloud_pickler() is None:
        advice += ", install cloudpickle, which sends functions and classes of scripts and notebooks"
    return NotPicklableError(
        f"worker processes need a copy of what reads the data, and {what} can't be sent to them: {reason}. Either "
        f"{advice}, or use threads, which need no copy"
    )


def _culprit(thing: Any, error: BaseException) -> tuple[str, str, str]:
    """The innermost attribute that can't be pickled: its path, its type, and the reason."""
    path: list[str] = []
    seen: set[int] = set()
    while len(path) < _DEEPEST and id(thing) not in seen:
        seen.add(id(thing))
        for name, part in _parts(thing):
            try:
                pack(part)
            except Exception as inner:
                path.append(name)
                thing, error = part, inner
                break
        else:
            break
    return "".join(path).lstrip("."), type(thing).__name__, f"{type(error).__name__}: {error}"


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", part) for key, part in thing.items())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from ((f"[{i}]", part) for i, part in enumerate(thing))
    elif isinstance(thing, types.FunctionType):
        names = thing.__code__.co_freevars
        for name, cell in zip(names, thing.__closure__ or (), strict=True):
            yield f".{name}", cell.cell_contents
        yield from (
            (f".{name}", thing.__globals__[name]) for name in thing.__code__.co_names if name in thing.__globals__
        )
    elif isinstance(thing, types.MethodType):
        yield ".__self__", thing.__self__
    else:
        yield from ((f".{name}", part) for name, part in attributes(thing))
