"""How a minibatch source reads, put together one thing after another, as CNTK's bindings have it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cntk.deserializers import Deserializer
from headrace.cntk.minibatch import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS, INFINITELY_REPEAT, MinibatchSource


class TraceLevel(enum.IntEnum):
    """How much is told in the log, for `trace_level`.

    Example:
        >>> from headrace.cntk import TraceLevel
        >>> int(TraceLevel.Info)
        2
    """

    Error = 0
    Warning = 1
    Info = 2


@dataclass
class MinibatchSourceConfig:
    r"""What a `MinibatchSource` is made of; each field may be set afterwards.

    Args:
        deserializers: One, or several.
        randomize: False reads in the order of the data: the windows are then 0.

    Raises:
        TypeError: If there is another argument.

    Attributes:
        deserializers: As of `MinibatchSource`.
        randomize: As said; where a window is set afterwards, it counts.
        max_samples: As of `MinibatchSource`.
        max_sweeps: As of `MinibatchSource`.
        randomization_window_in_chunks: As of `MinibatchSource`.
        randomization_window_in_samples: As of `MinibatchSource`.
        randomization_seed: As of `MinibatchSource`.
        trace_level: As of `MinibatchSource`.
        is_multithreaded: `multithreaded_deserializer` of `MinibatchSource`.
        is_frame_mode_enabled: `frame_mode` of `MinibatchSource`.
        truncation_length: As of `MinibatchSource`.
        max_errors: As of `MinibatchSource`.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.cntk import CTFDeserializer, MinibatchSourceConfig, StreamDef, StreamDefs, TraceLevel
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "train.ctf")
        >>> _ = path.write_text("|x 1 2\n|x 3 4\n")
        >>> text = CTFDeserializer(path, StreamDefs(x=StreamDef(field="x", shape=2)))
        >>> config = MinibatchSourceConfig([text], randomize=False)
        >>> config.max_sweeps, config.trace_level = 1, TraceLevel.Error
        >>> with config.minibatch_source() as source:
        ...     source.next_minibatch(2)[source["x"]].asarray().tolist()
        [[[1.0, 2.0]], [[3.0, 4.0]]]
        >>> folder.cleanup()
    """

    deserializers: Deserializer | Sequence[Deserializer]
    randomize: bool = True
    max_samples: int = INFINITELY_REPEAT
    max_sweeps: int = INFINITELY_REPEAT
    randomization_window_in_chunks: int | None = None
    randomization_window_in_samples: int = 0
    randomization_seed: int = 0
    trace_level: int = TraceLevel.Warning
    is_multithreaded: bool | None = None
    is_frame_mode_enabled: bool = False
    truncation_length: int = 0
    max_errors: int = 0

    def __post_init__(self) -> None:
        if self.randomization_window_in_chunks is None:
            window = DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
            self.randomization_window_in_chunks = window if self.randomize else 0

    def minibatch_source(self) -> MinibatchSource:
        """Opens the files, and gives minibatches.

        Raises:
            OSError: If a file can't be opened.
            DataError: If the data has no sequence, or has longer ones in frame mode.
            PlanError: If fields contradict each other.

        Example:
            As of the class.
        """
        return MinibatchSource(
            self.deserializers,
            max_samples=self.max_samples,
            max_sweeps=self.max_sweeps,
            randomization_window_in_chunks=self.randomization_window_in_chunks or 0,
            randomization_window_in_samples=self.randomization_window_in_samples,
            randomization_seed=self.randomization_seed,
            trace_level=self.trace_level,
            multithreaded_deserializer=self.is_multithreaded,
            frame_mode=self.is_frame_mode_enabled,
            truncation_length=self.truncation_length,
            max_errors=self.max_errors,
        )
