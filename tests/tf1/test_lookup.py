from __future__ import annotations

import pathlib
from typing import Any

import pytest

from headrace import tf1 as tf
from headrace.tf1.fingerprint import fingerprint64

lookup = tf.contrib.lookup


@pytest.fixture
def words(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "v.txt"
    path.write_bytes(b"the\r\nmill \n wheel")
    return str(path)


def run(fetches: Any) -> Any:
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        return sess.run(fetches)


def test_numbers_of_words(words: str) -> None:
    table = lookup.index_table_from_file(words)
    assert run(table.lookup(tf.constant(["the", "mill", "mill ", " wheel"]))).tolist() == [0, -1, 1, 2]
    assert run(table.size()) == 3


def test_words_of_numbers(words: str) -> None:
    table = lookup.index_to_string_table_from_file(words, default_value="?")
    assert run(table.lookup(tf.constant([0, 2, 3, -1], tf.int64))).tolist() == [b"the", b" wheel", b"?", b"?"]


def test_buckets(words: str) -> None:
    table = lookup.index_table_from_file(words, num_oov_buckets=10)
    assert run(table.lookup(tf.constant("water"))) == 3 + fingerprint64(b"water") % 10
    assert run(table.size()) == 13


def test_before_the_initializer(words: str) -> None:
    found = lookup.index_table_from_file(words).lookup(tf.constant("the"))
    with tf.Session() as sess, pytest.raises(tf.errors.FailedPreconditionError, match=r"run tf\.tables_initializer"):
        sess.run(found)


@pytest.mark.parametrize(
    ("data", "options", "kind", "message"),
    [
        (b"a\n\nb\n", {}, tf.errors.InvalidArgumentError, "line 2 is empty"),
        (b"a\nb\na\n", {}, tf.errors.FailedPreconditionError, "lines 1 and 3"),
        (b"", {}, tf.errors.OutOfRangeError, "holds no word"),
        (b"a\n", {"vocab_size": 2}, tf.errors.InvalidArgumentError, "expected 2 but got 1"),
        (None, {}, tf.errors.NotFoundError, "No such file"),
    ],
)
def test_files_that_are_no_vocabulary(
    tmp_path: pathlib.Path, data: bytes | None, options: Any, kind: type[tf.OpError], message: str
) -> None:
    path = tmp_path / "v"
    if data is not None:
        path.write_bytes(data)
    table = lookup.index_table_from_file(str(path), **options)
    with pytest.raises(kind, match=message):
        run(table.size())


def test_only_the_first_lines(words: str) -> None:
    assert run(lookup.index_table_from_file(words, vocab_size=1).size()) == 1


def test_lists() -> None:
    table = lookup.index_table_from_tensor(["a", "b"], default_value=9)
    assert run(table.lookup(tf.constant([["b", "x"]]))).tolist() == [[1, 9]]
    with pytest.raises(TypeError, match="expected keys of string"):
        table.lookup(tf.constant([1]))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 16, 17, 32, 33, 64, 65, 128, 129, 300])
def test_fingerprints_are_numbers_of_64_bits_that_differ(size: int) -> None:
    data = bytes(range(256)) * 2
    found = {fingerprint64(data[i : i + size]) for i in range(20)}
    assert len(found) == (20 if size else 1)
    assert all(0 <= n < 2**64 for n in found)
