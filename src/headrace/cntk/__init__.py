"""The surface of CNTK's readers: its configuration files and text writers, so far.

Code and files that were written for CNTK 2.7 are understood here. Translates names, defaults and errors; what reads
data stands in the other rooms.
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
from headrace.cntk.text import sequence_to_cntk_text_format

__all__ = [
    "ConfigError",
    "DeserializerConfig",
    "ReaderConfig",
    "StreamConfig",
    "format_config",
    "parse_config",
    "read_config",
    "sequence_to_cntk_text_format",
]
