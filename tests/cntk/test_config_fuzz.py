"""Malformed configurations: an error of ours or a result, whatever the bytes. What a fuzzer found is replayed."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cntk import ConfigError, read_config
from tests.fuzz.fuzz_config import one_input

KEPT = pathlib.Path(__file__).parents[1] / "fuzz" / "config.hex"
OLD = b"""precision = "double"  # of all
root = data
reader = [
    readerType = "CNTKTextFormatReader"
    file = "$root$/train.ctf"; randomizationWindow = 12, maxErrors = 3
    truncated = true
    truncationLength = 20
    input = [
        words = [ alias = "w"; dim = 30; format = "sparse"; definesMBSize = true ]
        tags = { dim = 4; format = dense }
    ]
]
"""
COMPOSITE = b"""reader = {
    verbosity = 0; randomize = auto; randomizationWindow = 30
    deserializers = (
        { type = "CNTKTextFormatDeserializer"; module = "CNTKTextFormatReader"; file = a.ctf
          input = { x = { dim = 5; format = "dense" }; y = { alias = l; dim = 9; format = "sparse" } } } :
        { type = "CNTKBinaryFormatDeserializer"; file = b.cbf; input = { z = { alias = q } } }
    )
}
"""
WORDS = [*"[]{}()$=:;,#\n\xffé", '"', "*9", "default", "$root$", "-1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("configurations")


@pytest.mark.parametrize("text", [OLD, COMPOSITE])
def test_as_it_is_it_is_read(text: bytes, folder: pathlib.Path) -> None:
    (folder / "r.cntk").write_bytes(text)
    assert read_config(folder / "r.cntk", must_exist=False).warnings == ()


@pytest.mark.parametrize("text", [OLD, COMPOSITE])
def test_cut_off_at_every_byte(text: bytes, folder: pathlib.Path) -> None:
    for length in range(len(text)):
        one_input(text[:length], folder)


@pytest.mark.parametrize("text", [OLD, COMPOSITE])
def test_without_each_single_byte(text: bytes, folder: pathlib.Path) -> None:
    for at in range(len(text)):
        one_input(text[:at] + text[at + 1 :], folder)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A configuration in which some places were changed, moved or put in."""
    text = bytearray(draw(st.sampled_from([OLD, COMPOSITE])))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text) - 1))
        kind = draw(st.sampled_from(["flip", "word", "cut", "twice"]))
        until = at + draw(st.integers(1, 40))
        if kind == "flip":
            text[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "word":
            text[at:at] = draw(st.sampled_from(WORDS)).encode("latin-1")
        elif kind == "cut":
            del text[at : min(until, len(text) - 1)]
        else:
            text[at:at] = text[at:until]
    return bytes(text)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged())
def test_damaged_configurations(folder: pathlib.Path, text: bytes) -> None:
    one_input(text, folder)


def kept() -> Iterator[bytes]:
    """What a fuzzer found worth keeping."""
    yield from map(bytes.fromhex, KEPT.read_text().split())


def test_what_a_fuzzer_found(folder: pathlib.Path) -> None:
    inputs = list(kept())
    assert inputs
    for data in inputs:
        one_input(data, folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reader = " + "[a=" * 100_000, "at most 64 brackets within one another"),
        ("reader = { deserializers = ( x*1000000000 ) }", "at most 100,000 items"),
        ("reader = { deserializers = ( x*99999999999999999999 ) }", "expected a number of repetitions"),
        ("a = $b$; b = $a$\nreader = [ file = $a$ ]", "found a circle: a → b → a"),
        ("".join(f"v{i} = $v{i + 1}$\n" for i in range(70)) + "v70 = 1\nreader = $v0$", "at most 64 variables"),
        (
            "v0 = " + "x" * 64 + "".join(f"\nv{i} = " + f"$v{i - 1}$" * 8 for i in range(1, 60)) + "\nreader = $v59$",
            "at most 4,194,304 characters",
        ),
        ("reader = [ readerType = " + "x" * 1_000_000 + " ]", "which is unknown"),
        (
            "reader = [ readerType = CNTKTextFormatReader; traceLevel = " + "9" * 100_000 + " ]",
            "expected a number",
        ),
        ("x" * 1_000_000, "expected a section 'reader'"),
        ("[" * 1_000_000, "at most 64 brackets"),
        ('"' * 999_999, 'a closing "'),
        ("=\n" * 50_000, "expected a value after"),
    ],
)
def test_large_and_deep_texts_are_refused(text: str, message: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.cntk"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        read_config(path, must_exist=False)
    assert len(str(error.value)) < 4000


def test_many_unknown_entries_are_counted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.cntk"
    unknown = "\n".join(f"window{number} = 1" for number in range(9000))
    path.write_text(f"readerType = CNTKBinaryReader; file = a\n{unknown}")
    assert read_config(path, None, must_exist=False).warnings[-1] == "and 8,900 more"
