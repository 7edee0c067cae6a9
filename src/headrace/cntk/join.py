"""Joins the sequences of several sources by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DataError, PlanError
from headrace.formats.sequences import Parsed, SequenceSource, SequenceStream
from headrace.formats.source import Fingerprint

Part = tuple[NDArray[np.int64], Parsed]
"""The records of one source that were parsed, and what came of it."""

_NAMED = 5  # keys that a message names


class Join:
    """Sequences of one source, each with what the others have under the same key.

    The first source is the primary: its sequences, in its chunks and its order, are what is read. A sequence whose key
    another source lacks is left out. Of several sequences of one key in another source the first is taken.

    Args:
        sources: The sources; one alone needs no keys.
        names: What messages call them.
        chunk_size: Bytes of the primary's chunks.

    Attributes:
        streams: Of all sources, in their order.
        num_records: How many sequences are left.
        sizes: Samples of each, as minibatches count them: of the source that defines the size, else of the longest.
            None if each has one.
        chunks: Where the primary's chunks begin among the sequences that are left, and last the number of those.
        remarks: What was left out, in sentences.

    Raises:
        PlanError: If two sources have a stream of one name, or define the size both.
        DataError: If no sequence is left.
    """

    def __init__(self, sources: Sequence[SequenceSource], names: Sequence[str], chunk_size: int) -> None:
        self._sources = list(sources)
        self._names = list(names)
        self.streams = self._all_streams()
        self.remarks: list[str] = []
        primary = self._sources[0]
        if not primary.num_records:
            raise DataError(f"{self._names[0]} has no sequences")
        self._maps: list[NDArray[np.int64] | None] = [None] * len(self._sources)
        if len(self._sources) > 1:
            self._match()
        kept = self._maps[0]
        self.num_records = primary.num_records if kept is None else len(kept)
        self.sizes = self._all_sizes()
        chunks = np.asarray(primary.chunks(chunk_size), np.int64)
        self.chunks = chunks if kept is None else np.unique(np.searchsorted(kept, chunks))

    def _all_streams(self) -> tuple[SequenceStream, ...]:
        owners: dict[str, str] = {}
        for source, name in zip(self._sources, self._names, strict=True):
            for stream in source.streams:
                if stream.name in owners:
                    raise PlanError(
                        f"{owners[stream.name]} and {name} both have a stream {stream.name!r}; name one differently"
                    )
                owners[stream.name] = name
        return tuple(stream for source in self._sources for stream in source.streams)

    def _match(self) -> None:
        keys = self._sources[0].keys()
        found: list[NDArray[np.int64] | None] = [None]
        kept = np.ones(len(keys), bool)
        for source, name in zip(self._sources[1:], self._names[1:], strict=True):
            other = source.keys()
            if np.array_equal(other, keys) and _ascend(other):
                found.append(None)
                continue
            order = None if _ascend(other) else np.argsort(other, kind="stable")
            ranked = other if order is None else other[order]
            places = np.searchsorted(ranked, keys)
            missing = places == len(ranked)
            missing[~missing] = ranked[places[~missing]] != keys[~missing]
            places[missing] = 0
            if missing.any():
                kept &= ~missing
                some = ", ".join(map(str, keys[missing][:_NAMED].tolist()))
                self.remarks.append(
                    f"{int(missing.sum())} of {len(keys)} sequences of {self._names[0]} are left out, as {name} has "
                    f"none with their keys: {some}{', …' if missing.sum() > _NAMED else ''}"
                )
            repeated = len(ranked) - len(np.unique(ranked))
            if repeated:
                self.remarks.append(
                    f"{name} has {repeated} sequences whose key came before; the first of a key is read"
                )
            found.append(places.astype(np.int64) if order is None else order[places])
        if not kept.any():
            raise DataError(
                f"none of the {len(keys)} sequences of {self._names[0]} has a partner of the same key in all of "
                f"{', '.join(self._names[1:])}; keys are the sequence ids, or line numbers in a file without ids"
            )
        if kept.all():
            self._maps = found
            return
        left = np.flatnonzero(kept)
        self._maps = [left if places is None else places[left] for places in found]

    def _all_sizes(self) -> NDArray[Any] | None:
        definers = [i for i, s in enumerate(self._sources) if any(stream.defines_size for stream in s.streams)]
        if len(definers) > 1:
            raise PlanError(
                f"only one deserializer may have a stream that defines the size of minibatches, got "
                f"{', '.join(self._names[i] for i in definers)}"
            )
        sizes: NDArray[Any] | None = None
        for i in definers or range(len(self._sources)):
            own = self._sources[i].sizes
            if own is not None:
                places = self._maps[i]
                own = own if places is None else own[places]
                sizes = own if sizes is None else np.maximum(sizes, own)
        if sizes is not None and not definers and any(source.sizes is None for source in self._sources):
            sizes = np.maximum(sizes, 1)
        return sizes

    def samples(self) -> NDArray[np.uint64]:
        """Samples of each chunk."""
        if self.sizes is None:
            return np.diff(self.chunks).astype(np.uint64)
        return np.add.reduceat(self.sizes, self.chunks[:-1], dtype=np.uint64)

    @property
    def num_bytes(self) -> int:
        """Bytes of all sources together, roughly."""
        return sum(source.num_bytes for source in self._sources)

    def parse(self, records: NDArray[np.int64]) -> list[Part]:
        """Parses sequences by number, one source after the other."""
        parts = []
        for source, places in zip(self._sources, self._maps, strict=True):
            own = records if places is None else places[records]
            parts.append((own, source.parse(own)))
        return parts

    def fingerprint(self) -> list[Fingerprint]:
        """What tells this data from other data."""
        return [source.fingerprint() for source in self._sources]

    def where(self, record: int) -> str:
        """Names a sequence for messages."""
        places = self._maps[0]
        return self._sources[0].where(record if places is None else int(places[record]))

    def close(self) -> None:
        """Closes the sources."""
        for source in self._sources:
            source.close()


def _ascend(keys: NDArray[np.uint64]) -> bool:
    """Whether no key comes twice, and each is larger than the one before."""
    return bool((keys[1:] > keys[:-1]).all())
