"""The table of tf.data and headrace in the documentation: both sides run, and give what the table says.

What it says was worked out from tf.data's documentation. The left side runs on `headrace.tf1`, an implementation of its
own, which shares no order or batching with the right side.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import tf1 as tf

PAGE = pathlib.Path(hr.__file__).parents[2] / "docs" / "coming-from-tf-data.md"
TEXT = PAGE.read_text()
CELLS = re.compile(r"^\| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \|$", re.MULTILINE)
ROWS = CELLS.findall(TEXT)
OPERATIONS = [
    *(
        "TextLineDataset",
        "FixedLengthRecordDataset",
        "TFRecordDataset",
        "from_tensor_slices",
        "range",
        "from_generator",
    ),
    *("zip", "concatenate", "take", "skip", "shard", "repeat", "enumerate", "map", "filter", "interleave", "flat_map"),
    *("unbatch", "batch", "padded_batch", "prefetch", "group_by_window", "bucket_by_sequence_length", "string_split"),
]


@pytest.fixture
def ours(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's own code makes, files included."""
    monkeypatch.chdir(tmp_path)
    found = re.search(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert found
    names: dict[str, Any] = {}
    exec(found[1], names)
    return names


@pytest.fixture
def theirs(ours: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same names for tf.data."""
    with tf.Graph().as_default():
        rows = [[2, 2], [1], [3, 3, 3], [1], [4, 4, 4, 4]]
        yield {
            **{name: getattr(tf.data, name) for name in tf.data.__all__},
            "tf": tf,
            "np": np,
            "x": ours["x"],
            "data": tf.data.Dataset.from_tensor_slices(ours["x"]),
            "rows": tf.data.Dataset.from_generator(lambda: iter(rows), tf.int64, [None]),
            "table": tf.contrib.lookup.index_table_from_file("words.txt", default_value=0),
        }


def plain(value: Any) -> Any:
    """Elements as Python values."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic, hr.Ragged)) else value


def of_headrace(data: hr.Dataset | hr.Batches | hr.Loader) -> list[Any]:
    return [plain(x) for x in (hr.Loader(data) if isinstance(data, hr.Batches) else data)]


def of_tf_data(data: tf.data.Dataset) -> list[Any]:
    iterator = data.make_initializable_iterator()
    step = iterator.get_next()
    found = []
    with tf.Session() as sess:
        sess.run([tf.tables_initializer(), iterator.initializer])
        while True:
            try:
                found.append(plain(sess.run(step)))
            except tf.errors.OutOfRangeError:
                return found


def test_the_table_is_found_and_knows_the_operations() -> None:
    table = next(part for part in TEXT.split("\n\n") if part.startswith("| tf.data | headrace | gives |"))
    assert len(ROWS) == len(table.splitlines()) - 2
    left = " ".join(row[0] for row in ROWS)
    assert [name for name in OPERATIONS if name not in left] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_lines_of_the_table(row: tuple[str, str, str], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    expected = eval(row[2])
    assert of_headrace(eval(row[1], ours)) == expected
    found = of_tf_data(eval(row[0], theirs))
    if isinstance(expected[0], str):
        found = [text.decode() for text in found]
    assert found == expected


def test_shuffles_of_the_table(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for buffer in (3, 10):
        assert f"`data.shuffle({buffer}, seed=1)`" in TEXT
        right = "data.shuffle(seed=1, window=3)" if buffer == 3 else "data.shuffle(seed=1)"
        assert f"`{right}`" in TEXT
        orders = [of_headrace(eval(right, ours)), of_tf_data(eval(f"data.shuffle({buffer}, seed=1)", theirs))]
        for order in orders:
            assert sorted(order) == list(range(10)) != order
            assert all(place >= n - buffer + 1 for place, n in enumerate(order))
    for order in (
        of_headrace(eval("data.shuffle(seed=1).repeat(2)", ours)),
        of_tf_data(eval("data.shuffle(10, seed=1).repeat(2)", theirs)),
    ):
        assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
        assert order[:10] != order[10:]
    loader = hr.Loader(ours["data"].shuffle(seed=1).batch(10))
    epochs = []
    for _ in range(2):
        loader.set_epoch(0)
        epochs += of_headrace(loader)
    assert epochs[0] == epochs[1] != list(range(10))


def test_the_rest_of_the_table(ours: dict[str, Any]) -> None:
    data, rows = ours["data"], ours["rows"]
    a, b = hr.from_arrays(np.zeros(300, int)), hr.from_arrays(np.ones(100, int))
    mixed = of_headrace(hr.mix([a, b], [0.75, 0.25]))
    assert all(sum(mixed[i : i + 4]) == 1 for i in range(0, len(mixed) - 3, 4))
    assert of_headrace(hr.from_dataset(list(data))) == list(range(10))
    assert all(batch.size <= 6 for batch in hr.Loader(rows.bucket(max_tokens=6).pad(lengths=False)))
    assert {batch.shape[1] for batch in hr.Loader(rows.bucket(2).pad(multiple_of=3, lengths=False))} <= {3, 6}
    assert of_headrace(hr.Loader(data.batch(4), workers=4)) == of_headrace(data.batch(4))
    loader = hr.Loader(data.batch(4))
    next(iter(loader))
    assert len(str(loader.state_dict())) < 1000
    assert of_headrace(loader) == [[4, 5, 6, 7], [8, 9]]
    with pytest.raises(hr.DataError, match="zip needs the same number of records"):
        hr.Loader(hr.zip(data, data.skip(1)).batch(2))
