"""What a minibatch source says about its streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headrace.checks import whole
from headrace.formats.sequences import SequenceStream


@dataclass(frozen=True, slots=True)
class StreamInformation:
    """A stream of a minibatch source; what minibatches are keyed by.

    Attributes:
        name: What it is called.
        stream_id: Its number.
        storage_format: `"dense"` or `"sparse"`.
        dtype: Type of the values.
        shape: The shape of a sample; a number alone is taken for a vector of so many.
        defines_mb_size: Whether minibatches are measured by its samples.

    Example:
        >>> from headrace.cntk import StreamInformation
        >>> StreamInformation("x", 0, "dense", "float32", (784,)).shape
        (784,)
    """

    name: str
    stream_id: int
    storage_format: Literal["dense", "sparse"]
    dtype: Any
    shape: tuple[int, ...]
    defines_mb_size: bool = False

    def __post_init__(self) -> None:
        if self.storage_format not in ("dense", "sparse"):
            raise ValueError(
                f"stream {self.name!r}: storage_format is 'dense' or 'sparse', got {self.storage_format!r}"
            )
        if not isinstance(self.name, str):
            raise ValueError(f"a stream is named by a str, got {self.name!r:.60}")
        shape = self.shape if isinstance(self.shape, (tuple, list)) else (self.shape,)
        what = f"each dimension of stream {self.name!r}"
        object.__setattr__(self, "shape", tuple(whole(what, n, 0, (1 << 31) - 1) for n in shape))
        try:
            object.__setattr__(self, "dtype", np.dtype(self.dtype))
        except TypeError:
            raise ValueError(f"stream {self.name!r}: dtype is a type of NumPy's, got {self.dtype!r:.60}") from None

    @property
    def is_sparse(self) -> bool:
        """Whether samples are sparse."""
        return self.storage_format == "sparse"

    @classmethod
    def of(cls, stream: SequenceStream, number: int) -> StreamInformation:
        """Says it about a stream of a source."""
        kind: Literal["dense", "sparse"] = "sparse" if stream.sparse else "dense"
        return cls(stream.name, number, kind, stream.dtype, stream.shape, stream.defines_size)


class Record(dict[str, Any]):
    """Values by name, also as attributes: `streams.x` is `streams["x"]`.

    Example:
        >>> from headrace.cntk.streams import Record
        >>> Record(x=1).x
        1
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}, only {', '.join(self) or 'nothing'}") from None
