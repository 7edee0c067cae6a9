"""The pipeline against a plain re-telling of what tensorflow/nmt does, and what bad files lead to."""

import gzip
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as hr
from headrace.nmt.data import Vocabs, batches, load_vocabs, read_pairs, to_batch
from headrace.nmt.hparams import HParams
from headrace.nmt.text.files import find_side
from headrace.nmt.text.special import EOS, SOS
from tests.nmt.conftest import Toy

Row = tuple[list[int], list[int], list[int]]  # source, target read, target predicted


def told(src: list[str], tgt: list[str], vocabs: Vocabs, hparams: HParams) -> Iterator[list[Row]]:
    """Yields the batches of an epoch that is not shuffled, as group_by_window gives them."""
    width = math.ceil(hparams.src_max_len_infer / hparams.num_buckets) if hparams.src_max_len_infer else 10
    buckets: dict[int, list[Row]] = {}
    for source, target in zip(src, tgt, strict=True):
        s = [vocabs.src[word] for word in source.split(" ") if word]
        t = [vocabs.tgt[word] for word in target.split(" ") if word]
        if not s or not t:
            continue
        s, t = s[: hparams.src_max_len_infer], t[: hparams.tgt_max_len_infer]
        bucket = 0
        if hparams.num_buckets > 1:
            bucket = min(hparams.num_buckets, max(len(s) // width, (len(t) + 1) // width))
        rows = buckets.setdefault(bucket, [])
        rows.append((s, [SOS, *t], [*t, EOS]))
        if len(rows) == hparams.batch_size:
            yield buckets.pop(bucket)
    for _, rows in sorted(buckets.items()):
        yield rows


def padded(rows: list[list[int]]) -> list[list[int]]:
    longest = max(map(len, rows))
    return [row + [EOS] * (longest - len(row)) for row in rows]


@pytest.mark.parametrize("num_buckets", [1, 2, 5])
@pytest.mark.parametrize("longest", [None, (3, 5), (12, 4)])
def test_batches_are_those_of_the_original(
    toy: Toy, tmp_path: Path, num_buckets: int, longest: tuple[int, int] | None
) -> None:
    src = [
        "w1 w2",
        "",
        "w3",
        "  w4   w5 ",
        "w1\tw2 w3",
        "w9 " * 30,
        "x\u00a0y w1",
        *(f"w{i % 12} " * (i % 23) for i in range(90)),
    ]
    tgt = ["W1", "W2", "", "W4 W5 nothing", "W6 " * 9, "W7 " * 25, "W8", *("W1 W2 " * (i % 11) for i in range(90))]
    (tmp_path / "train.de").write_text("\n".join(src) + "\n")
    (tmp_path / "train.en").write_text("\n".join(tgt) + "\n")
    src_max, tgt_max = longest or (None, None)
    hparams = toy(num_buckets=num_buckets, batch_size=7, src_max_len_infer=src_max, tgt_max_len_infer=tgt_max)
    # Training cuts at other lengths and shuffles; the buckets go by src_max_len there, by src_max_len_infer here.
    vocabs = load_vocabs(hparams)
    data = batches(read_pairs(hparams, "train_prefix").filter_length(), vocabs, hparams, training=False)
    expected = list(told(src, tgt, vocabs, hparams))
    found = [to_batch(columns) for columns in hr.Loader(data, to="torch")]
    assert len(found) == len(expected)
    for batch, rows in zip(found, expected, strict=True):
        sources, inputs, outputs = (list(part) for part in zip(*rows, strict=True))
        assert batch.src_BS.tolist() == padded(sources)
        assert batch.src_len_B.tolist() == [len(row) for row in sources]
        assert batch.tgt_in_TB.t().tolist() == padded(inputs)
        assert batch.tgt_out_TB.t().tolist() == padded(outputs)
        assert batch.tgt_len_B.tolist() == [len(row) for row in inputs]


def test_training_shuffles_and_holds_every_pair_once(toy: Toy) -> None:
    hparams = toy(batch_size=16)
    vocabs = load_vocabs(hparams)
    loader = hr.Loader(batches(read_pairs(hparams, "train_prefix"), vocabs, hparams, training=True))
    epochs = []
    for _ in range(2):
        rows = [(row[:n].tolist()) for b in loader for row, n in zip(b["src"], b["src_len"], strict=True)]
        epochs.append(rows)
    written = [
        vocabs.src.encode([line])[0].tolist()
        for line in Path(f"{hparams.train_prefix}.de").read_text().split("\n")[:-1]
    ]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(written)
    assert epochs[0] != epochs[1]


def test_gzip_and_globs_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"eins\n"))
    (tmp_path / "b1.de").write_text("zwei\n")
    (tmp_path / "b2.de").write_text("drei\n")
    assert find_side(str(tmp_path / "a"), "de", "train_prefix") == [str(tmp_path / "a.de.gz")]
    assert find_side(str(tmp_path / "b*"), "de", "train_prefix") == [str(tmp_path / "b1.de"), str(tmp_path / "b2.de")]


def test_a_missing_file_is_named(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected this file .* check --dev_prefix=.*none.*none\.de") as caught:
        read_pairs(toy(dev_prefix=str(tmp_path / "none")), "dev_prefix")
    assert caught.value.filename == str(tmp_path / "none.de")


def test_globs_must_match_file_by_file(toy: Toy, tmp_path: Path) -> None:
    for name in ("part1.de", "part2.de", "part1.en"):
        (tmp_path / name).write_text("w1\n")
    with pytest.raises(hr.DataError, match=r"finds .*part2\.de but no .*part2\.en: add it, or narrow the pattern"):
        read_pairs(toy(train_prefix=str(tmp_path / "part*")), "train_prefix")


def test_sides_of_unequal_length_are_refused_with_both_counts(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("W1\n" * 149)
    with pytest.raises(hr.DataError, match=r"train: .*train\.de has 150 lines and .*train\.en has 149, .*repair the"):
        read_pairs(toy(), "train_prefix")


def test_of_globs_the_unequal_files_are_named(toy: Toy, tmp_path: Path) -> None:
    for name, lines in (("part1.de", 2), ("part2.de", 3), ("part1.en", 2), ("part2.en", 1)):
        (tmp_path / name).write_text("w1\n" * lines)
    with pytest.raises(hr.DataError, match=r"part2\.de has 3 lines and .*part2\.en has 1, "):
        read_pairs(toy(train_prefix=str(tmp_path / "part*")), "train_prefix")


# Vocabularies --------------------------------------------------------------------------------------------------------


def test_shared_vocabulary_is_the_sources(toy: Toy) -> None:
    vocabs = load_vocabs(toy(share_vocab=True))
    assert vocabs.tgt is vocabs.src
    assert "w1" in vocabs.tgt


@pytest.mark.parametrize("lines", ["a b", "a <unk> b", "<s> </s> <unk> a b", "<s> </s> a b", "a b </s>"])
def test_special_words_come_first_in_a_copy(toy: Toy, tmp_path: Path, lines: str) -> None:
    text = lines.replace(" ", "\n") + "\n"
    (tmp_path / "vocab.de").write_text(text)
    (tmp_path / "out").mkdir()
    assert list(load_vocabs(toy()).src) == ["<unk>", "<s>", "</s>", "a", "b"]
    assert (tmp_path / "out" / "vocab.de").read_text() == "<unk>\n<s>\n</s>\na\nb\n"
    assert (tmp_path / "vocab.de").read_text() == text


def test_special_words_may_have_other_names(toy: Toy, tmp_path: Path) -> None:
    for suffix in ("de", "en"):
        (tmp_path / f"vocab.{suffix}").write_text("<unk>\n[\n]\na\n")
    assert list(load_vocabs(toy(sos="[", eos="]")).src) == ["<unk>", "[", "]", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<unk>\n<s>\n</s>\na\nb\na\n", r"vocab\.de.*6.*a"),
        ("<unk>\n<s>\n</s>\na\n\nb\n", r"vocab\.de.*5"),
        ("<unk>\n<s>\n</s>\na b\n", r"vocab\.de.*4"),
        ("<unk>\n<s>\n</s>\n", r"vocab\.de has no words: expected one a line"),
        ("", r"vocab\.de"),
    ],
)
def test_a_malformed_vocabulary_is_refused(toy: Toy, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "vocab.de").write_text(text)
    with pytest.raises(hr.DataError, match=message):
        load_vocabs(toy())


def test_without_the_check_special_words_must_be_first(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "vocab.en").write_text("a\n")
    with pytest.raises(hr.DataError, match=r"vocab\.en starts with other words than <unk>, <s>, </s>"):
        load_vocabs(toy(check_special_token=False))


def test_a_missing_vocabulary_is_named(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="check --vocab_prefix"):
        load_vocabs(toy(vocab_prefix=str(tmp_path / "words")))
