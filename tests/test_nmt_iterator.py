"""The example that builds tensorflow/nmt's input gives its batches, one for one."""

from __future__ import annotations

import pathlib
import random
import runpy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import tf1 as tf
from tests.conformance import tf_data

PROGRAM = pathlib.Path(hr.__file__).parents[2] / "examples" / "nmt_iterator.py"
EXAMPLE = runpy.run_path(str(PROGRAM))
SPECIAL = ["<unk>", "<s>", "</s>"]


def write(folder: pathlib.Path, src: list[str], tgt: list[str], words: list[str]) -> None:
    for name, lines in (("src.txt", src), ("tgt.txt", tgt)):
        (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    for side in ("src", "tgt"):
        (folder / f"vocab.{side}").write_text("".join(f"{word}\n" for word in [*SPECIAL, *words]))


def corpus(seed: int, folder: pathlib.Path) -> None:
    """Lines of all lengths, with empty ones, tabs, runs of blanks, CRLF, unknown words, and one side shorter."""
    rng = random.Random(seed)
    words = [f"w{n}" for n in range(12)]

    def line() -> str:
        count = rng.choice([0, 1, 2, 3, 5, 8, 13, 21, 40])
        text = "".join(
            rng.choice([*words, "neu", "ü\u00a0x", "a\tb", "w" * 60]) + rng.choice(" *") for _ in range(count)
        )
        return rng.choice(["", " "]) + text.replace("*", "  ") + rng.choice(["", "", "\r"])

    src = [line() for _ in range(150)]
    write(folder, src, [line() for _ in range(rng.choice([150, 140]))], words)


def batches(name: str, folder: pathlib.Path, **options: Any) -> hr.Batches:
    vocabs = [hr.Vocab.from_file(folder / f"vocab.{side}") for side in ("src", "tgt")]
    files = [str(folder / name) for name in ("src.txt", "tgt.txt")]
    make: Callable[..., hr.Batches] = EXAMPLE[name]
    return make(files[0], vocabs[0], **options) if "infer" in name else make(*files, *vocabs, **options)


def ours(data: hr.Batches, **arguments: Any) -> list[dict[str, Any]]:
    return [{name: array.tolist() for name, array in batch.items()} for batch in hr.Loader(data, **arguments)]


def theirs(name: str, **options: Any) -> list[dict[str, Any]]:
    """What the original's chain of operations gives, on `headrace.tf1`."""
    if "infer" not in name:
        options |= {"random_seed": 1, "output_buffer_size": 1}  # a buffer of one keeps the order
    with tf.Graph().as_default():
        found: list[dict[str, Any]] = tf_data.nmt({"params": {"fn": name, "kwargs": options}})["epochs"][0]
    return found


def test_a_toy_corpus_by_hand(tmp_path: pathlib.Path) -> None:
    src = ["a b", "b", "", "a a a a", "c a", "b b b"]
    tgt = ["a", "b a b", "a", "a b", "a a", " "]
    write(tmp_path, src, tgt, ["a", "b"])
    data = batches("get_iterator", tmp_path, batch_size=2, num_buckets=2, src_max_len=3, tgt_max_len=2)
    # Lines 2 and 5 have an empty side. Widths are (3 + 2 - 1) // 2 = 2, and the target's length counts <s>: all four
    # pairs are in bucket 1, for 2 to 3 words. Both come out when they are full.
    assert ours(data) == [
        {
            "source": [[3, 4], [4, 2]],
            "target_input": [[1, 3, 2], [1, 4, 3]],
            "target_output": [[3, 2, 2], [4, 3, 2]],
            "source_sequence_length": [2, 1],
            "target_sequence_length": [2, 3],
        },
        {
            "source": [[3, 3, 3], [0, 3, 2]],
            "target_input": [[1, 3, 4], [1, 3, 3]],
            "target_output": [[3, 4, 2], [3, 3, 2]],
            "source_sequence_length": [3, 2],
            "target_sequence_length": [3, 3],
        },
    ]
    infer = batches("get_infer_iterator", tmp_path, batch_size=4)
    assert ours(infer) == [
        {"source": [[3, 4, 2, 2], [4, 2, 2, 2], [2, 2, 2, 2], [3, 3, 3, 3]], "source_sequence_length": [2, 1, 0, 4]},
        {"source": [[0, 3, 2], [4, 4, 4]], "source_sequence_length": [2, 3]},
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"num_buckets": 5},
        {"num_buckets": 1},
        {"num_buckets": 5, "src_max_len": 12, "tgt_max_len": 15},
        {"num_buckets": 3, "src_max_len": 10, "tgt_max_len": 10, "batch_size": 1},
        {"num_buckets": 5, "num_shards": 3, "shard_index": 1, "src_max_len": 20},
        {"num_buckets": 2, "skip_count": 20, "num_shards": 2, "shard_index": 1, "tgt_max_len": 4},
        {"num_buckets": 4, "use_char_encode": True},
        {"num_buckets": 1, "use_char_encode": True, "src_max_len": 5},
    ],
    ids=str,
)
def test_training_batches_are_those_of_the_original(
    options: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"batch_size": 8, **options}
    for seed in range(3):
        corpus(seed, tmp_path)
        monkeypatch.chdir(tmp_path)
        data = batches("get_iterator", tmp_path, **options)
        expected = theirs("get_iterator", **options)
        assert len(expected) > 3
        for workers in (0, 2):
            assert ours(data, workers=workers) == expected


@pytest.mark.parametrize("options", [{}, {"src_max_len": 3}, {"use_char_encode": True}], ids=str)
def test_batches_for_inference_are_those_of_the_original(
    options: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus(7, tmp_path)
    monkeypatch.chdir(tmp_path)
    options = {"batch_size": 16, **options}
    assert ours(batches("get_infer_iterator", tmp_path, **options)) == theirs("get_infer_iterator", **options)


def test_shuffled_batches_have_all_pairs_and_can_be_resumed(tmp_path: pathlib.Path) -> None:
    corpus(1, tmp_path)
    for characters in (False, True):
        data = batches("get_iterator", tmp_path, batch_size=8, random_seed=3, use_char_encode=characters)
        plain = batches("get_iterator", tmp_path, batch_size=8, use_char_encode=characters)
        found, expected = (sorted(_pairs(hr.Loader(d))) for d in (data, plain))
        assert found == expected
        assert ours(data) != ours(plain)
        hr.assert_resumable(data, epochs=2)


def _pairs(loader: hr.Loader) -> list[tuple[list[int], list[int]]]:
    pairs = []
    for batch in loader:
        unit = batch["source"].shape[1] // max(int(batch["source_sequence_length"].max()), 1)
        for i, (s, t) in enumerate(zip(batch["source_sequence_length"], batch["target_sequence_length"], strict=True)):
            pairs.append((batch["source"][i, : s * unit].tolist(), batch["target_output"][i, :t].tolist()))
    return pairs


def test_numbers_are_of_32_bits(tmp_path: pathlib.Path) -> None:
    corpus(2, tmp_path)
    for batch in hr.Loader(batches("get_iterator", tmp_path, batch_size=8)):
        assert {batch[name].dtype for name in ("source", "target_input", "target_output")} == {np.dtype(np.int32)}


def test_the_example_runs(tmp_path: pathlib.Path) -> None:
    write(tmp_path, ["a b", "b"], ["a", "b a b"], ["a", "b"])
    files = [str(tmp_path / name) for name in ("src.txt", "tgt.txt", "vocab.src", "vocab.tgt")]
    done = subprocess.run([sys.executable, str(PROGRAM), *files], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("source (2, 2), target_input (2, 4), target_output (2, 4)")
