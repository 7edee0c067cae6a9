"""The error of configuration files."""

from __future__ import annotations

from headrace import DataError


class ConfigError(DataError):
    """A configuration can't be read, or contradicts itself; the message names the place."""
