from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cntk import ConfigError, parse_config
from headrace.cntk.config.section import Section
from headrace.cntk.config.text import Line, Span, Text


def section(text: str) -> Section:
    whole = Text.from_lines(Line(line, "reader.cntk", n) for n, line in enumerate(text.split("\n"), 1))
    return Section([Span(whole, 0, len(whole.string))])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# nothing but this\n\n  # and this", {}),
        ("n = 3\nm=4 ; k = five, x=6", {"n": "3", "m": "4", "k": "five", "x": "6"}),
        ("path = a b = c", {"path": "a b = c"}),
        ("go", {"go": "true"}),
        ('empty = ""', {"empty": ""}),
        ('s = "one; two, [three"', {"s": "one; two, [three"}),
        ("s = 'x'", {"s": "'x'"}),
        ("a=1 # note\nb=x#y # stays\nc=2", {"a": "1", "b": "x#y # stays", "c": "2"}),
        ('file = "a #b"  # note', {"file": "a #b"}),
        ("a = 1 // text", {"a": "1 // text"}),
        ("\ufeffa=1", {"a": "1"}),
        ("a=1\r\nb=[c=2]\r\n", {"a": "1", "b": {"c": "2"}}),
        ("a[b=1]", {"a": {"b": "1"}}),
        ("a = [\n b = { c = 1 }\n d = 2\n]", {"a": {"b": {"c": "1"}, "d": "2"}}),
        ("A = [x=1; y=1]\na = [Y=2; z=3]", {"A": {"x": "1", "y": "2", "z": "3"}}),
        ("a = {x=1}\na = {y=2}", {"a": {"y": "2"}}),
        ("a = [x=1]\na = 5", {"a": "5"}),
        ("a = [|x=1|y=2;3]", {"a": {"x": "1", "y": "2;3"}}),
        ("a = ( 1 : 2 , 3\n4 )", {"a": ["1", "2", "3", "4"]}),
        ("a = (x*3:y)", {"a": ["x", "x", "x", "y"]}),
        ("a = (;x:y;z)", {"a": ["x:y", "z"]}),
        ("a = ( {b=1} {b=2} : {b=3} )", {"a": [{"b": "1"}, {"b": "2"}, {"b": "3"}]}),
        ("a = 1:2:3", {"a": "1:2:3"}),
        ("root=/d\nf=$ROOT$/x\ng=$f$.txt", {"root": "/d", "f": "/d/x", "g": "/d/x.txt"}),
        ('root=/d\nf="$root$/a;b"', {"root": "/d", "f": "/d/a;b"}),
        ("a=$1$\nb=$x y$\nc=5$\nd=$$", {"a": "$1$", "b": "$x y$", "c": "5$", "d": "$$"}),
        ("d=1\ns=[e=$d$]", {"d": "1", "s": {"e": "1"}}),
    ],
)
def test_what_a_configuration_says(text: str, expected: dict[str, Any]) -> None:
    assert parse_config(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1\nb =", r"r\.cntk, line 2, column 1: expected a value after 'b =' on the same line"),
        ("s =\n[a=1]", r"line 1, column 1: .*the bracket of a section stands on the line of its key"),
        ('\n  a = "x', r'line 2, column 7: expected a closing " for this one'),
        ("a = [\n b=1\n", r"line 1, column 5: expected a closing \] for this one"),
        ("a = [\n b=1 }", r"line 2, column 6: expected \] to close the \[ at r\.cntk, line 1, column 5, found }"),
        ("a = $b$", r"line 1, column 5: expected a variable 'b' at the top of the configuration"),
        ("a = $b$\nb = $c$\nc=$a$", "found a circle: b → c → a → b"),
        ("a = x$a$", "found a circle: a → a"),
        ("a = (x*y)", r"line 1, column 7: expected a number of repetitions after \*, found 'y'"),
        pytest.param("\n".join(f"a{i} = (x*90000)" for i in range(20)), "at most 1,000,000 items in all", id="arrays"),
        ("a = (x*1000000000)", "at most 100,000 items in an array, found 1,000,000,000"),
        ("a = [" * 65 + "b=1" + "]" * 65, "at most 64 brackets within one another"),
        ("b=[c=1\nd=2]\ns=[e=$b$]", "to have a value on one line"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(text, "r.cntk")


def test_variables_cannot_grow_without_end() -> None:
    text = "v0=" + "x" * 64 + "".join(f"\nv{i}=" + f"$v{i - 1}$" * 8 for i in range(1, 60))
    with pytest.raises(ConfigError, match="insert at most 4,194,304 characters"):
        parse_config(text)


def test_long_chains_of_variables_are_refused() -> None:
    text = "".join(f"v{i}=$v{i + 1}$\n" for i in range(1000)) + "v1000=1"
    with pytest.raises(ConfigError, match="at most 64 variables that stand in one another"):
        parse_config(text)


def test_names_are_looked_up_outwards() -> None:
    inner = section("precision=double\ntrain=[\nreader=[ seed = 5 ] ]").section("train")
    assert inner is not None
    reader = inner.section("READER")
    assert reader is not None
    assert reader.text("precision") == "double"
    assert reader.text("precision", "float", own=True) == "float"
    assert reader.integer("Seed", 0, 0, 100) == 5
    assert reader.section("nothing") is None


@pytest.mark.parametrize("text", ["t", "true", "T", "True", "TRUE", "1"])
def test_truth_values(text: str) -> None:
    assert section(f"a={text}").boolean("a", False)


@pytest.mark.parametrize("text", ["f", "false", "F", "False", "FALSE", "0", '""'])
def test_false_values(text: str) -> None:
    assert not section(f"a={text}").boolean("a", True)


def test_default_is_not_given() -> None:
    assert section("a=default").boolean("a", True)
    assert section("a=default").integer("a", 7, 0, 9) == 7


@pytest.mark.parametrize("text", ["yes", "tRue", "2"])
def test_other_words_are_no_truth_values(text: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"reader\.cntk, line 1, column 3: a: expected true or false, found '{text}'"
    ):
        section(f"a={text}").boolean("a", True)


def test_whole_numbers() -> None:
    assert section("a=32").integer("a", 0, 0, 100) == 32
    assert section("a=-1").integer("a", 0, 0, 2**64 - 1) == 2**64 - 1
    assert section("a=-1").integer("a", 0, -5, 5) == -1
    for text in ("32MB", "1.5", "0x10", "1_000", "²"):
        with pytest.raises(ConfigError, match="expected a whole number in digits alone"):
            section(f"a={text}").integer("a", 0, 0, 100)
    for text in ("101", "9" * 400):
        with pytest.raises(ConfigError, match="expected a number from 0 to 100"):
            section(f"a={text}").integer("a", 0, 0, 100)


def test_kinds_are_not_mixed_up() -> None:
    with pytest.raises(ConfigError, match=r"a: expected a value, found a section"):
        section("a=[b=1]").text("a")
    with pytest.raises(ConfigError, match=r"a: expected a section in \[ \] or \{ \}, found '5'"):
        section("a=5").section("a")


def test_values_know_their_place_also_behind_variables() -> None:
    found = section("root=/data\n\nreader = [\n  file = $root$/x  \n  dim = ten ]").section("reader")
    assert found is not None
    with pytest.raises(ConfigError, match=r"line 5, column 9: dim: expected a whole number"):
        found.integer("dim", 0, 0, 10)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('ab=[]{}()"$:;,*#|\n\r \t1.'), max_size=40))
def test_any_text_gives_a_result_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(parse_config(text), dict)
