"""Examples: what each kind of feature gives, where it is there, missing, or something else."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.example import ExampleSchema, SparseTensor, parse_examples, parse_sequence_examples

ONE = hr.encode_example({"i": 7, "f": [1.5, -2.25], "s": "hey", "ids": [3, 1, 4], "words": ["a", "b"]})
NOTHING = b""


def parse(features: Mapping[str, Any], *messages: bytes) -> dict[str, Any]:
    return ExampleSchema(features).columns(messages)


def listed(column: Any) -> Any:
    return column.tolist()


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def example(key: str, feature: bytes) -> bytes:
    return field(1, field(1, field(1, key.encode()) + field(2, feature)))


# FixedLen ----------------------------------------------------------------------------------------------------------


def test_fixed_len_gives_arrays() -> None:
    features = {"i": hr.FixedLen((), int), "f": hr.FixedLen([2], np.float32), "s": hr.FixedLen((), bytes)}
    columns = parse(features, ONE, ONE)
    assert columns["i"].dtype == np.int64
    assert columns["i"].tolist() == [7, 7]
    assert columns["f"].dtype == np.float32
    assert columns["f"].tolist() == [[1.5, -2.25]] * 2
    assert isinstance(columns["s"], hr.Bytes)
    assert columns["s"].tolist() == [b"hey", b"hey"]
    texts = parse({"s": hr.FixedLen((), str), "words": hr.FixedLen((2, 1), "str")}, ONE)
    assert isinstance(texts["s"], hr.Strings)
    assert texts["s"].tolist() == ["hey"]
    assert texts["words"].tolist() == [[["a"], ["b"]]]
    assert parse({"f": hr.FixedLen((2, 1), "float32")}, ONE)["f"].shape == (1, 2, 1)
    assert parse({"i": hr.FixedLen((1,), "int64")}, ONE)["i"].tolist() == [[7]]


def test_fixed_len_missing() -> None:
    defaults = {
        "i": hr.FixedLen((), "int64", 9),
        "f": hr.FixedLen((2,), "float32", [0.5, 1]),
        "s": hr.FixedLen((), "string", "dd"),
        "words": hr.FixedLen((2,), "str", ["x", "y"]),
    }
    for message in (NOTHING, example("i", b"")):  # a key with no list set is missing too
        columns = parse(defaults, message)
        assert columns["i"].tolist() == [9]
        assert columns["f"].tolist() == [[0.5, 1]]
        assert columns["s"].tolist() == [b"dd"]
        assert columns["words"].tolist() == [["x", "y"]]
        with pytest.raises(hr.DataError, match=r"^record 1: feature 'i', FixedLen\(\[\], int64\): it is required, "):
            parse({"i": hr.FixedLen((), "int64")}, ONE, message)
        with pytest.raises(hr.DataError, match="is required"):
            parse({"i": hr.FixedLen((0,), "int64")}, message)


def test_fixed_len_of_another_size() -> None:
    for shape, values in (((), "1 value"), ((2,), "2 values"), ((2, 2), "4 values")):
        with pytest.raises(hr.DataError, match=f"expected {values}, found 3"):
            parse({"ids": hr.FixedLen(shape, "int64")}, ONE)
    empty = hr.encode_example({"i": np.empty(0, np.int64)})
    with pytest.raises(hr.DataError, match="expected 1 value, found 0"):
        parse({"i": hr.FixedLen((), "int64", 3)}, empty)
    assert parse({"i": hr.FixedLen((0,), "int64")}, empty, empty)["i"].shape == (2, 0)
    assert parse({"i": hr.FixedLen((2, 0), "int64")}, empty)["i"].shape == (1, 2, 0)
    nothing = hr.encode_example({"s": np.empty(0, object)})
    assert parse({"s": hr.FixedLen((0,), "bytes")}, nothing, nothing)["s"].tolist() == [[], []]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hr.FixedLen((3,), "int64", 4), r"of shape \(3,\) has 3 values, got 1"),
        (lambda: hr.FixedLen((None,), "int64"), "a shape is whole numbers, all known"),
        (lambda: hr.FixedLen(None, "int64"), "a shape is whole numbers"),
        (lambda: hr.FixedLen((), "int32"), "Examples hold 'int64', 'float32' and 'bytes'.*'int32'"),
        (lambda: hr.FixedLen((), "int64", 1.5), "the default of a feature of int64 is of that type, got 1.5"),
        (lambda: hr.FixedLen((), "bytes", 1), "the default of a feature of bytes is bytes"),
        (lambda: hr.FixedLenSequence((0,), "int64"), "a step has at least one value"),
        (lambda: hr.FixedLenSequence((), "int64", default=[1, 2]), "is one value, got 2"),
        (lambda: hr.SparseFeature(["a", "b"], "v", "int64", 3), "one size for each index, got 2 and 1"),
        (lambda: hr.RaggedFeature("int64", "v", [("rows", "k")]), "partitions are pairs of one of"),
        (lambda: hr.RaggedFeature("int64", "v", [("uniform_row_length", 0)]), "is 1 to .*, got 0"),
        (lambda: ExampleSchema({}), "at least one feature"),
        (lambda: parse_sequence_examples([], {}, {}), "at least one feature"),
        (lambda: ExampleSchema({"a": hr.VarLen(int)}, {"a": hr.VarLen(int)}), "'a' names a feature and a feature list"),
        (lambda: ExampleSchema({}, {"a": hr.FixedLen((), int)}), "feature list 'a' is FixedLenSequence, VarLen"),
    ],
)  # fmt: skip
def test_features_that_can_not_be(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", [hr.FixedLen((), "int64", 3), hr.VarLen("int64"), hr.FixedLenSequence((), "int64")])
def test_values_are_never_converted(kind: Any) -> None:
    with pytest.raises(hr.DataError, match=r"feature 'f'.*: expected an int64 list, found a float list"):
        parse({"f": kind}, ONE)
    with pytest.raises(hr.DataError, match=r"feature 's'.*: expected an int64 list, found a bytes list"):
        parse({"s": kind}, ONE)


# the others --------------------------------------------------------------------------------------------------------


def test_var_len_gives_ragged() -> None:
    columns = parse({"ids": hr.VarLen(int), "words": hr.VarLen(str), "f": hr.VarLen("float32")}, ONE, NOTHING, ONE)
    assert columns["ids"].tolist() == [[3, 1, 4], [], [3, 1, 4]]
    assert columns["words"].tolist() == [["a", "b"], [], ["a", "b"]]
    assert columns["f"].values.dtype == np.float32
    assert hr.pad(columns["ids"]).tolist() == [[3, 1, 4], [0, 0, 0], [3, 1, 4]]
    found = parse_examples([ONE, NOTHING], {"words": hr.VarLen(bytes), "none": hr.VarLen(int)})
    assert found["words"].indices.tolist() == [[0, 0], [0, 1]]
    assert found["words"].values.tolist() == [b"a", b"b"]
    assert found["words"].dense_shape.tolist() == [2, 2]
    assert found["none"].indices.shape == (0, 2)
    assert found["none"].dense_shape.tolist() == [2, 0]


def test_fixed_len_sequence() -> None:
    four = hr.encode_example({"i": [1, 2, 3, 4], "s": ["a"]})
    two = hr.encode_example({"i": [5, 6], "s": ["b", "c"]})
    steps = hr.FixedLenSequence((2,), "int64", allow_missing=True)
    assert parse({"i": steps}, four, NOTHING, two)["i"].tolist() == [[[1, 2], [3, 4]], [], [[5, 6]]]
    with pytest.raises(hr.DataError, match="expected a multiple of 2 values, found 3"):
        parse({"ids": hr.FixedLenSequence(2, "int64")}, ONE)
    with pytest.raises(hr.DataError, match=r"record 1: feature 'i'.*required"):
        parse({"i": hr.FixedLenSequence(2, "int64")}, four, NOTHING)
    features = {"i": steps, "s": hr.FixedLenSequence((), bytes, True, "PAD")}
    found = parse_examples([four, two], features)
    assert found["i"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert found["s"].tolist() == [[b"a", b"PAD"], [b"b", b"c"]]
    assert parse_examples([NOTHING], features)["i"].shape == (1, 0, 2)


def test_sparse_feature() -> None:
    feature = hr.SparseFeature("ix", "v", "float32", 10)
    one = hr.encode_example({"ix": [4, 1, 7], "v": [1.0, 2.0, 3.0]})
    column = parse({"sp": feature, "ix": hr.VarLen(int)}, one, NOTHING)
    assert column["sp"].tolist() == [([1, 4, 7], [2.0, 1.0, 3.0]), ([], [])]
    assert column["ix"].tolist() == [[4, 1, 7], []]
    as_it_is = hr.SparseFeature("ix", "v", "float32", 10, already_sorted=True)
    assert parse({"sp": as_it_is}, one)["sp"].tolist() == [([4, 1, 7], [1.0, 2.0, 3.0])]
    found: SparseTensor = parse_examples([NOTHING, one], {"sp": feature})["sp"]
    assert found.indices.tolist() == [[1, 1], [1, 4], [1, 7]]
    assert found.values.tolist() == [2.0, 1.0, 3.0]
    assert found.dense_shape.tolist() == [2, 10]
    flat = hr.encode_example({"r": [1, 0], "c": [2, 1], "v": ["x", "y"]})
    two = hr.SparseFeature(["r", "c"], "v", bytes, [2, 3])
    assert parse_examples([flat], {"sp": two})["sp"].indices.tolist() == [[0, 0, 1], [0, 1, 2]]
    assert parse_examples([flat], {"sp": two})["sp"].values.tolist() == [b"y", b"x"]
    for wrong in (two, hr.SparseFeature(["r", "c"], "n", "float32", [1 << 16, 1 << 15])):
        with pytest.raises(ValueError, match=r"fewer than 2\*\*31 numbers.*VarLen"):
            parse({"sp": wrong}, flat)


def test_sparse_features_of_several_dimensions() -> None:
    feature = hr.SparseFeature(["r", "c"], "v", "float32", [2, 3])
    one = hr.encode_example({"r": [1, 0, 1], "c": [2, 1, 0], "v": [5.0, 6.0, 7.0]})
    column = parse({"sp": feature}, one, NOTHING)["sp"]
    assert column.tolist() == [([1, 3, 5], [6.0, 7.0, 5.0]), ([], [])]
    assert column.to_dense().reshape(-1, 2, 3).tolist() == [[[0, 6, 0], [7, 0, 5]], [[0, 0, 0], [0, 0, 0]]]
    with pytest.raises(hr.DataError, match="expected places in 'c' from 0 to before 3, found 3"):
        parse({"sp": feature}, hr.encode_example({"r": [0], "c": [3], "v": [1.0]}))


def test_sequence_examples_with_several_sparse_keys_in_datasets() -> None:
    messages = [
        hr.encode_sequence_example(
            {"r": np.arange(n % 2), "c": np.arange(n % 2) + 1, "v": np.ones(n % 2, np.float32), "id": n},
            {"words": [["w"] * k for k in range(1, n + 1)], "counts": [np.arange(k % 2) for k in range(n)]},
        )
        for n in range(6)
    ]
    data = hr.from_dataset(messages).parse_sequence_example(
        {"at": hr.SparseFeature(["r", "c"], "v", "float32", [2, 2]), "id": hr.FixedLen((), "int64")},
        {"words": hr.VarLen("str"), "counts": hr.VarLen("int64")},
    )
    batches = data.bucket(2, boundaries=[3], by="words", window=None)
    found = list(hr.Loader(batches, workers=2))
    assert [batch["id"].tolist() for batch in found] == [[0, 1], [3, 4], [2], [5]]
    assert [len(row) for row in found[1]["words"].tolist()] == [3, 4]
    assert found[1]["words"].tolist()[0] == [["w"], ["w", "w"], ["w", "w", "w"]]
    assert found[1]["counts"].tolist() == [[[], [0], []], [[], [0], [], [0]]]
    assert found[0]["at"].to_dense().tolist() == [[0, 0, 0, 0], [0, 1, 0, 0]]
    hr.assert_resumable(batches, epochs=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"ix": [1, 2], "v": [1.0]},
            "record 1: feature 'sp': expected one place for each value, found 2 in 'ix'",
        ),
        ({"v": [1.0]}, "found 0 in 'ix' for 1 in 'v'"),
        ({"ix": [1, 10], "v": [1.0, 2.0]}, "expected places in 'ix' from 0 to before 10, found 10"),
        ({"ix": [-1], "v": [1.0]}, "found -1"),
    ],
)
def test_sparse_features_that_do_not_fit(values: dict[str, Any], message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        parse({"sp": hr.SparseFeature("ix", "v", "float32", 10)}, NOTHING, hr.encode_example(values))


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("row_lengths", [1, 0, 3]),
        ("row_splits", [0, 1, 1, 4]),
        ("row_starts", [0, 1, 1]),
        ("row_limits", [1, 1, 4]),
        ("value_rowids", [0, 2, 2, 2]),
    ],
)
def test_ragged_feature(kind: str, by: list[int]) -> None:
    message = hr.encode_example({"v": [3, 1, 4, 1], "p": by})
    feature = hr.RaggedFeature("int64", "v", [(kind, "p")])
    rows = [[3], [], [1, 4, 1]]
    assert parse({"rt": feature}, message, NOTHING, message)["rt"].tolist() == [rows, [], rows]
    for bad in ([0, 9], [5, 1], [-1, 5]):
        with pytest.raises(hr.DataError, match=f"record 1: feature 'rt': {kind} 'p' "):
            parse({"rt": feature}, message, hr.encode_example({"v": [3, 1, 4, 1], "p": bad}))


def test_ragged_features_within_each_other() -> None:
    message = hr.encode_example({"v": [1, 2, 3, 4, 5, 6], "outer": [2, 1]})
    feature = hr.RaggedFeature("int64", "v", [("row_lengths", "outer"), ("uniform_row_length", 2)])
    assert parse({"r": feature}, message)["r"].tolist() == [[[[1, 2], [3, 4]], [[5, 6]]]]
    flat = hr.RaggedFeature("str", "words")
    assert parse({"r": flat}, ONE, NOTHING)["r"].tolist() == [["a", "b"], []]
    found = parse_examples([ONE], {"r": flat})["r"]
    assert found[0].tolist() == [b"a", b"b"]
    with pytest.raises(hr.DataError, match="uniform_row_length 2 doesn't divide 3 values"):
        parse({"r": hr.RaggedFeature("int64", "ids", [("uniform_row_length", 2)])}, ONE)


# the wire ----------------------------------------------------------------------------------------------------------


def test_the_wire() -> None:
    ints = {"i": hr.VarLen("int64")}
    for content, wanted in [
        (example("i", field(3, field(1, b"\x01\x02") + b"\x08\x03" + field(1, b"\x04"))), [1, 2, 3, 4]),
        (b"\x98\x06\x05" + example("i", field(3, field(1, b"\x07"))) + field(15, b"zzz"), [7]),
        (example("i", field(3, field(1, b"\x01"))) + example("i", field(3, field(1, b"\x02"))), [2]),
        (example("i", field(3, field(1, b"\xff" * 9 + b"\x01"))), [-1]),
    ]:
        assert parse(ints, content)["i"].tolist() == [wanted]
    key = "é中"
    assert parse({key: hr.FixedLen((), int)}, hr.encode_example({key: 3}))[key].tolist() == [3]
    for bad, what in [
        (ONE[:-1], "a field that goes beyond the end at byte 1 of "),
        (b"\x0b\x0c", "a group, which these messages don't have"),
        (b"\x08\x01", "a number where a string or message belongs"),
        (b"not an Example", "expected an Example or SequenceExample, found "),
    ]:
        with pytest.raises(hr.DataError, match=what):
            parse(ints, bad)


def test_every_flipped_bit_and_every_cut_is_an_error_or_parses() -> None:
    features = {"i": hr.VarLen(int), "f": hr.VarLen("float32"), "s": hr.VarLen(bytes), "words": hr.VarLen(str)}
    cuts = [ONE[:size] for size in range(len(ONE))]
    flips = [ONE[:i] + bytes([ONE[i] ^ 1 << bit]) + ONE[i + 1 :] for i in range(len(ONE)) for bit in range(8)]
    errors = []
    for message in cuts + flips:
        try:
            columns = parse(features, ONE, message)
        except hr.DataError as error:
            errors.append(str(error))
        else:
            assert columns["i"][0].tolist() == [7]
    assert all(error.startswith("record 1: ") for error in errors)
    assert len(errors) > len(cuts)


values = st.one_of(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=5),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5),
    st.lists(st.binary(max_size=200), min_size=1, max_size=5),
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), values, min_size=1, max_size=6))
def test_what_is_encoded_is_parsed(features: dict[str, list[Any]]) -> None:
    kinds = {int: "int64", float: "float32", bytes: "bytes"}
    message = hr.encode_example(features)
    wanted = {key: hr.VarLen(kinds[type(value[0])]) for key, value in features.items()}
    assert {key: column.tolist()[0] for key, column in parse(wanted, message).items()} == features
    rows = hr.encode_examples(
        {k: hr.Ragged(v, np.array([0, len(v)])) for k, v in ((k, hr.collate(v)) for k, v in features.items())}
    )
    assert rows.tolist() == [message]


# SequenceExamples --------------------------------------------------------------------------------------------------

SEQUENCE = hr.encode_sequence_example(
    {"id": 3, "name": "n"},
    {
        "tok": ["a", "b", "c"],
        "vec": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "var": [[1], np.empty(0, np.int64), [2, 3]],
    },
)
SHORT = hr.encode_sequence_example({"id": 4}, {"tok": ["z"], "vec": [[7.0, 8.0]], "var": [[9]]})
LISTS = {
    "tok": hr.FixedLenSequence((), "bytes"),
    "vec": hr.FixedLenSequence((2,), "float32"),
    "var": hr.VarLen("int64"),
}


def test_sequence_examples_to_columns() -> None:
    columns = ExampleSchema({"id": hr.FixedLen((), int)}, LISTS).columns([SEQUENCE, SHORT])
    assert {name: column.tolist() for name, column in columns.items()} == {
        "id": [3, 4],
        "tok": [[b"a", b"b", b"c"], [b"z"]],
        "vec": [[[1, 2], [3, 4], [5, 6]], [[7, 8]]],
        "var": [[[1], [], [2, 3]], [[9]]],
    }


def test_sequence_examples_as_tensorflow_gives_them() -> None:
    context, lists, lengths = parse_sequence_examples([SEQUENCE, SHORT], {"id": hr.FixedLen((), int)}, LISTS)
    assert context["id"].tolist() == [3, 4]
    assert lists["tok"].tolist() == [[b"a", b"b", b"c"], [b"z", b"", b""]]
    assert lists["vec"].tolist() == [[[1, 2], [3, 4], [5, 6]], [[7, 8], [0, 0], [0, 0]]]
    assert lists["var"].indices.tolist() == [[0, 0, 0], [0, 2, 0], [0, 2, 1], [1, 0, 0]]
    assert lists["var"].dense_shape.tolist() == [2, 3, 2]
    assert {name: length.tolist() for name, length in lengths.items()} == {"tok": [3, 1], "vec": [3, 1]}
    _, missing, _ = parse_sequence_examples([b""], {}, {"var": hr.VarLen(int)})
    assert missing["var"].dense_shape.tolist() == [1, 0, 0]
    ragged = parse_sequence_examples([SEQUENCE], {}, {"r": hr.RaggedFeature("int64", "var")})[1]["r"]
    assert ragged.tolist() == [[[1], [], [2, 3]]]


def test_feature_lists_missing_or_of_another_size() -> None:
    def one(feature: Any, key: str = "vec") -> Any:
        return ExampleSchema({}, {key: feature}).columns([SEQUENCE])[key].tolist()

    assert one(hr.FixedLenSequence((2,), "float32", allow_missing=True), "nope") == [[]]
    with pytest.raises(hr.DataError, match=r"feature 'nope'.*required"):
        one(hr.FixedLenSequence((2,), "float32"), "nope")
    with pytest.raises(hr.DataError, match=r"feature 'vec', FixedLenSequence\(\[3\], float32\): step 0: expected 3 v"):
        one(hr.FixedLenSequence((3,), "float32"))
    with pytest.raises(hr.DataError, match="step 1: expected 1 value, found 0"):
        one(hr.FixedLenSequence((), "int64"), "var")
    unset = field(2, field(1, field(1, b"l") + field(2, field(1, b""))))
    with pytest.raises(hr.DataError, match="step 0: expected an int64 list, found nothing set"):
        ExampleSchema({}, {"l": hr.FixedLenSequence((), "int64")}).columns([unset])
    assert ExampleSchema({}, {"l": hr.VarLen("int64")}).columns([unset])["l"].tolist() == [[[]]]
    # An Example is a SequenceExample with a context alone.
    assert parse_sequence_examples([ONE], {"i": hr.FixedLen((), int)}, {})[0]["i"].tolist() == [7]


# writing -----------------------------------------------------------------------------------------------------------


def test_encoding_by_type() -> None:
    message = hr.encode_example(
        {"b": True, "u": np.array([1, 2], np.uint8), "m": np.ones((2, 2)), "none": None, "s": np.array(["x"])}
    )
    columns = parse(
        {
            "b": hr.FixedLen((), int),
            "u": hr.FixedLen(2, int),
            "m": hr.FixedLen((2, 2), "float32"),
            "s": hr.FixedLen((), str),
        },
        message,
    )
    assert [listed(c) for c in columns.values()] == [[1], [[1, 2]], [[[1, 1], [1, 1]]], ["x"]]
    with pytest.raises(hr.DataError, match="required"):
        parse({"none": hr.FixedLen((), int)}, message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "feature 'k' is an empty list, whose type isn't known"),
        (1 << 63, "holds 9223372036854775808, which int64 can't"),
        (1e300, r"holds 1e\+300, which 32-bit floats can't"),
        (1j, "feature 'k' is complex128"),
        (["a", 1], "feature 'k' is numbers or texts, all of one type, got int and str: 1"),
        ([object()], "feature 'k' is numbers or texts"),
        ([[1], [2, 3]], "feature 'k' can't be taken as an array"),
    ],
)
def test_what_no_example_holds(value: Any, message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        hr.encode_example({"k": value})


def test_encoding_columns() -> None:
    with pytest.raises(hr.DataError, match="same number of rows"):
        hr.encode_examples({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(hr.DataError, match="steps are of one type, got 2"):
        hr.encode_sequence_example({}, {"l": [1, "a"]})
    rows = hr.encode_examples({"x": np.arange(6).reshape(3, 2), "s": hr.Strings.from_rows(["a", "", "c"])})
    assert rows.tolist() == [hr.encode_example({"x": [2 * i, 2 * i + 1], "s": s}) for i, s in enumerate(["a", "", "c"])]
    vectors = hr.Ragged(np.arange(6.0).reshape(3, 2), np.array([0, 1, 3]))
    assert parse({"x": hr.VarLen("float32")}, *hr.encode_examples({"x": vectors}))["x"].tolist() == [
        [0, 1],
        [2, 3, 4, 5],
    ]
    assert len(hr.encode_examples({})) == 0


# in datasets -------------------------------------------------------------------------------------------------------


def write(path: pathlib.Path, count: int = 20) -> pathlib.Path:
    with hr.TFRecordWriter(path) as writer:
        for i in range(count):
            writer.write(hr.encode_example({"i": i, "ids": list(range(i + 1)), "s": f"w{i} x"}))
    return path


def test_datasets_of_examples(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.tfrecord")
    features = {"i": hr.FixedLen((), int), "ids": hr.VarLen(int), "s": hr.FixedLen((), str)}
    data = hr.read_tfrecord(path).shuffle(seed=1).parse_example(features)
    hr.assert_resumable(data.batch(6).pad())
    batches = list(hr.Loader(data.batch(6), workers=2))
    assert sorted(int(i) for batch in batches for i in batch["i"]) == list(range(20))
    for batch in batches:
        assert [row.tolist() for row in batch["ids"]] == [list(range(i + 1)) for i in batch["i"].tolist()]
    vocab = hr.Vocab(["<unk>", "x"])
    assert data.tokens({"s": vocab})[0]["s"].tolist() == [0, 1]
    assert "parse_example({'i': FixedLen(shape=(), dtype='int64', default=None)" in repr(data)
    mapped = hr.read_tfrecord(path).map(lambda message: message).parse_example(features)
    assert mapped[3]["i"] == 3
    streamed = hr.read_tfrecord(path, stream=True).parse_example(features)
    assert [record["i"] for record in streamed] == list(range(20))
    assert pickle.loads(pickle.dumps(data))[0]["i"] == data[0]["i"]


def test_errors_in_datasets_name_the_record(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.tfrecord")
    data = hr.read_tfrecord(path).parse_example({"ids": hr.FixedLen(3, int)})
    with pytest.raises(
        hr.DataError, match=r"a\.tfrecord, record 0: feature 'ids', FixedLen\(\[3\], int64\): expected 3"
    ):
        next(iter(hr.Loader(data.batch(4))))
    with pytest.raises(hr.DataError, match="record 0 of list: parse_example expected bytes, found int"):
        hr.from_dataset([1]).parse_example({"i": hr.VarLen(int)})[0]
    with pytest.raises(TypeError, match="feature 'i' is FixedLen, VarLen"):
        hr.from_dataset([1]).parse_example({"i": "int64"})  # type: ignore[dict-item]


def test_features_are_inferred(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.tfrecord", 600)
    wanted = {"i": hr.FixedLen((), int), "ids": hr.VarLen(int), "s": hr.FixedLen((), bytes)}
    assert hr.infer_example(path) == wanted
    assert hr.infer_example(path, records=1) == wanted | {"ids": hr.FixedLen((), int)}
    with hr.TFRecordWriter(tmp_path / "b", "GZIP") as writer:
        writer.write_many([SEQUENCE, SHORT])
    context, lists = hr.infer_sequence_example(tmp_path / "b")
    assert context == {"id": hr.FixedLen((), int), "name": hr.VarLen(bytes)}
    assert lists == LISTS
    with pytest.raises(hr.DataError, match=r"found SequenceExamples, with the feature lists \['tok', 'var', 'vec'\]"):
        hr.infer_example(tmp_path / "b")
    with hr.TFRecordWriter(tmp_path / "c") as writer:
        writer.write_many([hr.encode_example({"x": 1}), hr.encode_example({"x": 1.0})])
    with pytest.raises(hr.DataError, match="/c, record 1: feature 'x': expected int64, as before, found float32"):
        hr.infer_example(tmp_path / "c")
    with hr.TFRecordWriter(tmp_path / "d") as writer:
        writer.write_many([b"", b"no Example"])
    with pytest.raises(hr.DataError, match=r"record 1: expected an Example"):
        hr.infer_example(tmp_path / "d")
