"""The surface of CNTK's readers: configuration files, deserializers, minibatch sources, text writers.

Code and files that were written for CNTK 2.7 are understood here. Translates names, defaults and errors; what reads
data stands in the other rooms. A minibatch's way: `deserializers.py` describe files (`user_deserializer.py` chunks of a
user's), `join.py` puts them side by side, the plan cuts (`plan/minibatches.py`), `ahead.py` parses on threads,
`minibatch.py` hands over what `minibatch_data.py` is; `truncated.py` holds sequences in slots, `checkpoint.py` says
where reading is, `streams.py` what there is. `user_sources.py` reads no file (`user_data.py` takes arrays). `config/`
reads configurations. `text.py`, `txt2ctf.py` and `ctf2bin.py` write as CNTK's scripts do.
"""

from headrace.cntk.config import (
    ConfigError,
    DeserializerConfig,
    ReaderConfig,
    StreamConfig,
    format_config,
    parse_config,
    read_config,
)
from headrace.cntk.deserializers import CBFDeserializer, CTFDeserializer, Deserializer, StreamDef, StreamDefs
from headrace.cntk.minibatch import (
    DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
    FULL_DATA_SWEEP,
    INFINITELY_REPEAT,
    MinibatchSource,
)
from headrace.cntk.minibatch_data import MinibatchData, SequencePiece
from headrace.cntk.source_config import MinibatchSourceConfig, TraceLevel
from headrace.cntk.streams import StreamInformation
from headrace.cntk.text import sequence_to_cntk_text_format
from headrace.cntk.user_deserializer import UserDeserializer
from headrace.cntk.user_sources import MinibatchSourceFromData, UserMinibatchSource

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "CBFDeserializer",
    "CTFDeserializer",
    "ConfigError",
    "Deserializer",
    "DeserializerConfig",
    "MinibatchData",
    "MinibatchSource",
    "MinibatchSourceConfig",
    "MinibatchSourceFromData",
    "ReaderConfig",
    "SequencePiece",
    "StreamConfig",
    "StreamDef",
    "StreamDefs",
    "StreamInformation",
    "TraceLevel",
    "UserDeserializer",
    "UserMinibatchSource",
    "format_config",
    "parse_config",
    "read_config",
    "sequence_to_cntk_text_format",
]
