"""The surface of CNTK's readers: its configuration files, so far.

Code and files that were written for CNTK 2.7 are understood here. Translates names, defaults and errors; what reads
data stands in the other rooms.
"""

from headrace.cntk.config import ConfigError, parse_config

__all__ = ["ConfigError", "parse_config"]
