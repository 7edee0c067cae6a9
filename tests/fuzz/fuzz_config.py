"""Coverage-guided fuzzing of CNTK's configurations: `python -m tests.fuzz.fuzz_config CORPUS… [-max_total_time=900]`.

Needs `pip install atheris`; its arguments are libFuzzer's: `-merge=1 SMALL LARGE` minimises a corpus. With
`--keep FILE CORPUS` it writes the small inputs of a corpus to a file, one a line in hexadecimal, which
`tests/cntk/test_config_fuzz.py` replays.
"""

from __future__ import annotations

import importlib
import logging
import os
import pathlib
import sys
import tempfile
import types
from collections.abc import Iterator

LONGEST = 4000
"""Characters of a message, at most: inputs are quoted in part only."""


def one_input(data: bytes, folder: pathlib.Path) -> None:
    """Reads bytes as a configuration: what comes is a result or an error of ours, with messages of bounded length."""
    from headrace.cntk import ConfigError, ReaderConfig, parse_config, read_config

    path = folder / "r.cntk"
    path.write_bytes(data)
    for section in ("reader", None):
        try:
            config = read_config(path, section, must_exist=False)
        except ConfigError as error:
            bounded(str(error))
            continue
        assert isinstance(config, ReaderConfig)
        assert config.deserializers
        assert all(len(warning) < LONGEST for warning in config.warnings)
        assert (config.truncation_length > 0) == config.truncated
        assert config.randomize == (config.window is not None)
        for one in config.deserializers:
            assert one.chunk_size > 0
            assert one.streams or one.kind == "cbf"
            assert sum(stream.defines_mb_size for stream in one.streams.values()) <= 1
    try:
        parse_config(data.decode("utf-8", "replace"))
    except ConfigError as error:
        bounded(str(error))


def bounded(message: str) -> None:
    """Checks the length of a message."""
    assert 0 < len(message) < LONGEST


def dictionary(path: pathlib.Path) -> None:
    """Writes the words that a fuzzer may put in."""
    from headrace.cntk.config.names import KNOWN

    words = {name for names in KNOWN.values() for name in names}
    words |= {"CNTKTextFormatReader", "CNTKTextFormatDeserializer", "CNTKBinaryReader", "CNTKBinaryFormatDeserializer"}
    words |= {
        "dense",
        "sparse",
        "true",
        "false",
        "default",
        "auto",
        "none",
        "double",
        "reader",
        "$a$",
        "*9",
        "= [",
        ")]",
    }
    path.write_text("".join(f'"{word}"\n' for word in sorted(words)))


def functions(package: str) -> Iterator[types.FunctionType]:
    """All functions of a package that has been imported. (An installation for editing has loaders of its own, with
    which the fuzzer's hook for imports sees nothing.)"""
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{package}."):
            values = list(vars(module).values())
            values += [value for kind in values if isinstance(kind, type) for value in vars(kind).values()]
            for value in values:
                plain = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
                if isinstance(plain, types.FunctionType) and plain.__module__ == name:
                    yield plain


def keep(target: pathlib.Path, corpus: pathlib.Path, longest: int = 200) -> None:
    """Writes the inputs of a corpus that aren't long."""
    inputs = {path.read_bytes() for path in corpus.iterdir() if path.stat().st_size <= longest}
    target.write_text("".join(f"{data.hex()}\n" for data in sorted(inputs, key=lambda data: (len(data), data))))


def main() -> None:
    """Fuzzes until told to stop."""
    if sys.argv[1:2] == ["--keep"]:
        keep(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
        return
    atheris = importlib.import_module("atheris")
    importlib.import_module("headrace.cntk.config")
    for function in functions("headrace.cntk.config"):
        atheris.instrument_func(function)
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    again = f"env PYTHONPATH={pathlib.Path(__file__).parents[2]} {sys.executable} -m tests.fuzz.fuzz_config"
    paths = [argument if argument.startswith("-") else os.path.abspath(argument) for argument in sys.argv[1:]]
    arguments = [again, *paths]  # the first is what `-merge=1` runs
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.path.isdir(memory) else None) as name:
        folder = pathlib.Path(name)
        os.chdir(folder)
        dictionary(folder / "words")
        atheris.Setup([*arguments, f"-dict={folder / 'words'}"], lambda data: one_input(data, folder))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
