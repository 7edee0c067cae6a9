"""Sees that a job hasn't changed since it was packed, without packing it again.

Packing a list of a million strings takes tenths of a second. Looking whether it still consists of the very same objects
takes some milliseconds, and is as sure: what can't be changed and is the same object is the same.
"""

from __future__ import annotations

import functools
import io
import pickle
from typing import Any

import numpy as np

from headrace._native import Snapshot, snapshot_of
from headrace.engine.freight import pickler_of

# Both are where looking takes about as long as pickling: of one container, and of all the rest of a job. A crew glances
# only at jobs whose pickles are larger than its own limit, for smaller ones are packed sooner than looked at.
_LARGE = 256  # items of a container
_MOST = 1 << 16  # bytes that must still be pickled


class _Vain(Exception):
    """A glance wouldn't be quicker than packing, or not as sure."""


class Glance:
    """What a job looked like.

    Lists, tuples, dicts and arrays that are large and consist of what is seen at a glance are told by snapshots of
    them; all else of the job is pickled and compared as ever.

    Args:
        job: The job.
        by_value: As it is packed.
    """

    def __init__(self, job: Any, by_value: bool) -> None:
        self._by_value = by_value
        self._snapshots: dict[int, Snapshot] = {}  # by the address of what they are of, which they keep alive
        self._rest = self._pickle(job, self._note)

    @classmethod
    def at(cls, job: Any, by_value: bool) -> Glance | None:
        """A glance at a job; None where it would be of no use."""
        try:
            glance = cls(job, by_value)
        except Exception:  # of the job's own pickling, too: packing it will tell
            return None
        return glance if glance._snapshots else None

    def holds(self, job: Any) -> bool:
        """Whether a job is that very one, and nothing in it has changed."""
        try:
            rest = self._pickle(job, self._recall)
        except Exception:
            return False
        return rest == self._rest and all(snapshot.holds() for snapshot in self._snapshots.values())

    def _note(self, part: Any) -> Any:
        kind = type(part)
        if kind is np.ndarray:
            large = part.nbytes >= _LARGE
        else:
            large = kind in (list, dict, tuple) and len(part) >= _LARGE
        if large and id(part) not in self._snapshots:
            if (snapshot := snapshot_of(part, np.ndarray, np.number)) is None:
                return None
            self._snapshots[id(part)] = snapshot
        return self._recall(part)

    def _recall(self, part: Any) -> Any:
        return id(part) if id(part) in self._snapshots else None

    def _pickle(self, job: Any, name: Any) -> bytes:
        file = _Short()
        pickler = _naming(pickler_of(self._by_value))(file, pickle.HIGHEST_PROTOCOL, buffer_callback=_refuse)
        pickler.name = name
        pickler.dump(job)
        return file.getvalue()


class _Short(io.BytesIO):
    def write(self, part: Any, /) -> int:
        written = super().write(part)
        if self.tell() > _MOST:
            raise _Vain
        return written


def _refuse(_: pickle.PickleBuffer) -> bool:
    raise _Vain  # a tensor, perhaps: packed at the speed of memory


@functools.cache
def _naming(pickler: Any) -> Any:
    """A pickler that writes a name in the place of whatever it has one for."""
    return type("NamingPickler", (pickler,), {"persistent_id": lambda self, part: self.name(part)})
