"""Mistakes in features and values of Examples: named, never passed over."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.formats.example import parse_examples


def field(number: int, content: bytes) -> bytes:
    """A field of a message; the content is short."""
    return bytes([number << 3 | 2, len(content)]) + content


def example(key: bytes, kind: int, packed: bytes) -> bytes:
    """An Example of one feature, whose packed values are given as bytes."""
    return field(1, field(1, field(1, key) + field(2, field(kind, field(1, packed)))))


INT = hr.FixedLen((), "int64")


@pytest.mark.parametrize("features", [None, "x", 3, ["a"]])
def test_features_are_a_dict(features: Any) -> None:
    data = hr.from_dataset([b""])
    with pytest.raises(ValueError, match="features are a dict of them by name, got"):
        data.parse_example(features)
    if features is not None:
        with pytest.raises(ValueError, match="feature lists are a dict of them by name, got"):
            data.parse_sequence_example({"a": INT}, features)


@pytest.mark.parametrize("key", [3, None, b"a", ("a",)])
def test_keys_are_text(key: Any) -> None:
    for make in (
        lambda: hr.from_dataset([b""]).parse_example({key: INT}),
        lambda: hr.from_dataset([b""]).parse_sequence_example({}, {key: hr.VarLen("int64")}),
        lambda: hr.encode_example({key: 1}),
        lambda: hr.encode_examples({key: np.arange(2)}),
        lambda: hr.encode_sequence_example({}, {key: [[1]]}),
        lambda: hr.SparseFeature("a", key, "int64", 5),
        lambda: hr.SparseFeature([key], "a", "int64", 5),
        lambda: hr.RaggedFeature("int64", key),
    ):
        with pytest.raises(ValueError, match="keys of features are str, got"):
            make()
    with pytest.raises(ValueError, match=r"the key '\\ud800' of a feature is no text"):
        hr.encode_example({"\ud800": 1})


def test_keys_that_are_no_utf8(tmp_path: pathlib.Path) -> None:
    with hr.TFRecordWriter(tmp_path / "a") as writer:
        writer.write(example(b"\xffk", 3, b"\x07"))
    features = hr.infer_example(tmp_path / "a")
    assert list(features) == ["\udcffk"]
    assert hr.read_tfrecord(tmp_path / "a").parse_example(features)[0]["\udcffk"] == 7
    assert hr.encode_example({"\udcffk": 7}) == example(b"\xffk", 3, b"\x07")
    with pytest.raises(hr.DataError, match=r"feature '\\xffk', FixedLen.*isn't there"):
        list(hr.from_dataset([b""]).parse_example(features))


def test_what_is_malformed_within_a_feature_names_it() -> None:
    messages = [hr.encode_example({"x": 1.0}), example(b"x", 2, b"abc")]
    with pytest.raises(hr.DataError, match=r"record 1 of list: feature 'x', VarLen\(float32\): .* multiple of 4"):
        list(hr.Loader(hr.from_dataset(messages).parse_example({"x": hr.VarLen("float32")}).batch(2)))


def test_each_missing_feature_says_what_helps() -> None:
    with pytest.raises(hr.DataError, match="give it a default"):
        parse_examples([b""], {"a": INT})
    with pytest.raises(hr.DataError, match="say allow_missing=True"):
        parse_examples([b""], {"a": hr.FixedLenSequence((), "int64")})
    with pytest.raises(hr.DataError, match="say allow_missing=True"):
        list(hr.from_dataset([b""]).parse_sequence_example({}, {"a": hr.FixedLenSequence((), "int64")}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hr.FixedLen((1 << 40, 1 << 40), "int64"), "no message holds as many values"),
        (lambda: hr.FixedLenSequence((1 << 20, 1 << 20), "int64"), "no message holds as many values"),
        (lambda: hr.FixedLen(True, "int64"), "a shape is whole numbers"),
        (lambda: hr.FixedLen((), "int64", np.uint64(1 << 63)), "fits that type"),
        (lambda: hr.FixedLen((), "float32", 1e300), "fits that type"),
        (lambda: hr.FixedLen((2,), "int64", [[1], [2, 3]]), "is of that type"),
        (lambda: hr.FixedLen((), "str", 1), "is bytes or str"),
        (lambda: hr.RaggedFeature("int64", "v", 3), "a list of pairs"),  # type: ignore[arg-type]
        (lambda: hr.RaggedFeature("int64", "v", "ab"), "a list of pairs"),  # type: ignore[arg-type]
        (lambda: hr.RaggedFeature("int64", "v", [("uniform_row_length", 1 << 70)]), "uniform_row_length is 1 to"),
    ],
)
def test_features_that_can_not_be(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_defaults_of_infinity_are_kept() -> None:
    assert hr.FixedLen((), "float32", float("inf")).default == (float("inf"),)


@pytest.mark.parametrize(
    "feature",
    [
        hr.SparseFeature(["i", "j"], "v", "int64", [1 << 16, 1 << 15]),
        hr.SparseFeature("i", "v", "bytes", 5),
        hr.SparseFeature("i", "v", "int64", 1 << 40),
    ],
)
def test_sparse_features_that_are_no_columns_are_refused_when_described(feature: hr.SparseFeature) -> None:
    with pytest.raises(ValueError, match="feature 's': Sparse columns hold"):
        hr.from_dataset([b""]).parse_example({"s": feature})
    assert len(parse_examples([b""], {"s": feature})["s"].values) == 0


@pytest.mark.parametrize(
    ("record", "kind"), [("text", "str"), (3, "int"), (None, "NoneType"), (bytearray(), "bytearray")]
)
def test_records_that_are_no_bytes(record: Any, kind: str) -> None:
    data = hr.from_dataset([b"", record]).parse_example({"a": hr.VarLen("int64")})
    with pytest.raises(hr.DataError, match=f"record 1 of list: parse_example expected bytes, found {kind}"):
        list(hr.Loader(data.batch(2)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, "a"], "all of one type, got int and str: 1"),
        ([1.5, "a"], "all of one type, got float and str: 1.5"),
        (["a", 1], "all of one type, got int and str: 1"),
        ([1, None], "all of one type, got NoneType and int"),
        ({"b": 1}, "numbers or texts, all of one type, got dict"),
        (1 << 64, "holds 18446744073709551616, which int64 can't"),
        ([1, -(1 << 63) - 1], "which int64 can't"),
    ],
)
def test_values_that_no_feature_has(value: Any, message: str) -> None:
    with pytest.raises(hr.DataError, match=f"feature 'a' .*{message}"):
        hr.encode_example({"a": value})


def test_memory_views_are_bytes() -> None:
    assert hr.encode_example({"a": memoryview(b"xyz")}) == hr.encode_example({"a": b"xyz"})
    assert hr.encode_example({"a": [["x"], ["y"]]}) == hr.encode_example({"a": ["x", "y"]})


@pytest.mark.parametrize("values", [None, 3, [], "x", [("a", 1)]])
def test_what_is_encoded_is_a_dict(values: Any) -> None:
    for make in (
        lambda: hr.encode_example(values),
        lambda: hr.encode_examples(values),
        lambda: hr.encode_sequence_example(values, {}),
        lambda: hr.encode_sequence_example({}, values),
    ):
        with pytest.raises(hr.DataError, match="are a dict of values by key, got"):
            make()


@pytest.mark.parametrize("column", [3, None, "text", np.array(3), {"b": 1}])
def test_columns_have_rows(column: Any) -> None:
    with pytest.raises(hr.DataError, match="column 'a' has a row for each message, got"):
        hr.encode_examples({"a": column})


@pytest.mark.parametrize("steps", [3, "text", b"text", {"a": 1}, np.array(3)])
def test_lists_have_steps(steps: Any) -> None:
    with pytest.raises(hr.DataError, match="feature list 'w' is a list of steps, got"):
        hr.encode_sequence_example({}, {"w": steps})


def test_inferring_names_the_record_that_differs(tmp_path: pathlib.Path) -> None:
    for name, values in (("a", [1, 2]), ("b", [3, 4.5])):
        with hr.TFRecordWriter(tmp_path / name) as writer:
            writer.write_many([hr.encode_example({"x": value}) for value in values])
    with pytest.raises(hr.DataError, match=r"/b, record 1: feature 'x': expected int64, as before, found float32"):
        hr.infer_example(tmp_path / "[ab]")
    with hr.TFRecordWriter(tmp_path / "c") as writer:  # further apart than what is looked at in one piece
        writer.write_many([hr.encode_example({"x": 1})] * 300)
        writer.write(hr.encode_example({"x": "text"}))
    with pytest.raises(hr.DataError, match=r"/c, record 300: feature 'x': expected int64, as before, found bytes"):
        hr.infer_example(tmp_path / "c")
    assert hr.infer_example(tmp_path / "c", records=300) == {"x": INT}


@pytest.mark.parametrize(("records", "found"), [([], "no records"), ([b"", b""], "2 records without any")])
def test_inferring_from_nothing(tmp_path: pathlib.Path, records: list[bytes], found: str) -> None:
    with hr.TFRecordWriter(tmp_path / "a") as writer:
        writer.write_many(records)
    with pytest.raises(hr.DataError, match=f"/a: expected features to infer, found {found}"):
        hr.infer_example(tmp_path / "a")


@pytest.mark.parametrize("records", [0, -1, "x", 1.5, True])
def test_records_to_infer_from(tmp_path: pathlib.Path, records: Any) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(ValueError, match="records is"):
        hr.infer_example(tmp_path / "a", records=records)


def test_what_is_missing_is_told_with_what_there_is() -> None:
    message = hr.encode_example({"image/label": 1, "image/name": "x"})
    with pytest.raises(hr.DataError, match=r"give it a default \(its features are 'image/(label|name)', 'image/"):
        parse_examples([message], {"label": INT})
    with pytest.raises(hr.DataError, match=r"\(it has no features\)"):
        parse_examples([b""], {"label": INT})
    many = hr.encode_example({f"k{number}": 1 for number in range(25)})
    with pytest.raises(hr.DataError, match=r"'k19' and 5 more\)"):
        parse_examples([many], {"label": INT})
    steps = hr.encode_sequence_example({"a": 1}, {"words": [["x"]]})
    with pytest.raises(hr.DataError, match=r"\(its feature lists are 'words'\)"):
        list(hr.from_dataset([steps]).parse_sequence_example({}, {"tokens": hr.FixedLenSequence((), "int64")}))


def test_an_empty_list_does_not_take_the_default() -> None:
    message = hr.encode_example({"a": np.empty(0, np.int64)})
    with pytest.raises(hr.DataError, match="found 0; its list is there, though empty, so the default"):
        parse_examples([message], {"a": hr.FixedLen((), "int64", 5)})
