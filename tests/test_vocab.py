"""Vocabularies: files, lookup, decoding, counting."""

from __future__ import annotations

import gzip
import os
import pathlib
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import DataError

SPECIALS = ["<unk>", "<s>", "</s>"]
WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f"), min_size=1, max_size=20)


def write(folder: pathlib.Path, content: str | bytes, name: str = "vocab") -> pathlib.Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@given(words=st.lists(WORD, unique=True, max_size=50), others=st.lists(WORD, max_size=10))
def test_words_and_ids_are_those_of_a_dict(words: list[str], others: list[str]) -> None:
    tokens = list(dict.fromkeys([*words, "<unk>"]))
    vocab = hr.Vocab([*tokens])
    table = {token: i for i, token in enumerate(tokens)}
    assert list(vocab) == tokens
    assert len(vocab) == len(tokens)
    for token in [*tokens, *others]:
        assert vocab[token] == table.get(token, table["<unk>"])
        assert (token in vocab) == (token in table)
    ids = list(range(-2, len(tokens) + 2))
    assert vocab.tokens(ids) == [tokens[i] if 0 <= i < len(tokens) else "<unk>" for i in ids]
    assert vocab.decode(vocab.encode([" ".join(tokens)])) == [" ".join(tokens)]


def test_many_words_of_every_length() -> None:
    words = [f"{'w' * (i % 40)}{i}" for i in range(50_000)]
    vocab = hr.Vocab(["<unk>", *words])
    assert all(vocab[word] == i + 1 for i, word in enumerate(words))
    ids = vocab.encode([" ".join(words)])
    assert np.array_equal(ids.values, np.arange(1, 50_001))
    assert vocab["w" * 45] == 0


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_files_of_either_line_end_are_read(tmp_path: pathlib.Path, ending: str, last: bool) -> None:
    content = ending.join([*SPECIALS, "ä", "b@@"]) + (ending if last else "")
    for path in (write(tmp_path, content), write(tmp_path, gzip.compress(content.encode()), "vocab.gz")):
        vocab = hr.Vocab.from_file(path, special=SPECIALS)
        assert list(vocab) == [*SPECIALS, "ä", "b@@"]
        assert vocab.unk == "<unk>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "<unk>\na\nb\na\n",
            r"vocab, line 4 repeats the word 'a' of line 2: each word has one id; remove one",
        ),
        ("<unk>\na\n\nb\n", r"vocab, line 3 is blank: a vocabulary has one word a line and no empty lines"),
        ("<unk>\n \nb\n", r"vocab, line 2 is blank"),
        ("<unk>\na\tb\n", r"vocab, line 2 has white space in it: expected one word alone, found 'a\?b'; keep only"),
        (
            "<unk>\nthe 120\n",
            r"vocab, line 2 has white space in it.*found 'the 120'.*counts .*, its first column",
        ),
        ("<unk>\n a\n", r"vocab, line 2 has white space in it"),
        ("\ufeff<unk>\na\n", r"vocab, line 1 begins with a byte order mark"),
        ("<unk>\na\n".encode("utf-16"), r"vocab, line 1 is UTF-16 text by its byte order mark, expected UTF-8"),
        (b"<unk>\n\xff\xfe \xe4\n", r"vocab, line 2 has white space in it.*found '\?\? \?'"),
        ("<unk>\n" + "é" * 30 + " x", r"found '" + "é" * 20 + r"\.\.\.'"),
        ("a\n</s>\n", r"vocab has no '<unk>', '<s>' among its 2 words; add a line for each, pass missing='prepend'"),
        ("", r"vocab has no '<unk>', '<s>', '</s>' among its 0 words"),
    ],
)
def test_malformed_files_are_refused_with_the_line(tmp_path: pathlib.Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        hr.Vocab.from_file(write(tmp_path, content), special=["<s>", "</s>"])


def test_missing_files_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected a file, found nothing; check the path"):
        hr.Vocab.from_file(tmp_path / "none")
    with pytest.raises(IsADirectoryError, match="expected a file, found a directory"):
        hr.Vocab.from_file(tmp_path)


def test_lists_are_checked_like_files() -> None:
    with pytest.raises(DataError, match="the vocabulary, word 3 repeats the word 'a' of word 2"):
        hr.Vocab(["<unk>", "a", "a"])
    with pytest.raises(DataError, match="the vocabulary, word 2 is blank"):
        hr.Vocab(["<unk>", ""])
    with pytest.raises(DataError, match="the vocabulary has no '<unk>' among its 0 words"):
        hr.Vocab([])
    with pytest.raises(ValueError, match="missing is one of 'error', 'prepend', got 'add'"):
        hr.Vocab(["a"], missing="add")  # type: ignore[arg-type]


def test_missing_specials_can_be_prepended(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "a\n</s>\nb\n")
    vocab = hr.Vocab.from_file(path, special=["<s>", "</s>"], missing="prepend")
    assert list(vocab) == ["<unk>", "<s>", "a", "</s>", "b"]
    assert vocab["c"] == 0
    other = hr.Vocab(["a", "UNK"], unk="UNK", missing="prepend")
    assert list(other) == ["a", "UNK"]
    assert other["b"] == 1


def test_encode_cuts_and_adds_begin_and_end() -> None:
    vocab = hr.Vocab([*SPECIALS, "a", "b"])
    texts = ["a b a", "", "  c\tb "]
    assert vocab.encode(texts).tolist() == [[3, 4, 3], [], [0, 4]]
    assert vocab.encode(texts, max_length=1, bos=1, eos=2).tolist() == [[1, 3, 2], [1, 2], [1, 0, 2]]
    assert vocab.encode(texts, max_length=0).tolist() == [[], [], []]
    assert vocab.encode(hr.Strings.from_rows(texts)).values.dtype == np.int32
    assert vocab.encode([b"a,b"], separators=",").tolist() == [[3, 4]]
    assert vocab.encode([]).tolist() == []
    with pytest.raises(TypeError, match=r"texts is a list of texts, got str 'a b'; for a single one write \['a b'\]"):
        vocab.encode("a b")


def test_decode_ends_before_eos_and_takes_arrays() -> None:
    vocab = hr.Vocab([*SPECIALS, "a", "b"])
    assert vocab.decode(np.array([[3, 4, 2, 2], [2, 3, 3, 3], [4, 9, -1, 4]]), eos="</s>") == [
        "a b",
        "",
        "b <unk> <unk> b",
    ]
    assert vocab.decode([[3, 2]], eos=2) == ["a"]
    assert vocab.decode([[3, 2]]) == ["a </s>"]
    assert vocab.decode(np.zeros((2, 0), np.int32)) == ["", ""]
    with pytest.raises(ValueError, match=r"decode takes rows of ids \(two dimensions\), got an array of shape \(2,\)"):
        vocab.decode([1, 2])
    with pytest.raises(DataError, match="the vocabulary has no '<end>'"):
        vocab.decode([[1]], eos="<end>")


def test_bytes_that_are_not_utf8_survive(tmp_path: pathlib.Path) -> None:
    vocab = hr.Vocab.from_file(write(tmp_path, b"<unk>\n\xff\xfe\n"))
    assert list(vocab) == ["<unk>", "\udcff\udcfe"]
    assert vocab["\udcff\udcfe"] == vocab[b"\xff\xfe"] == 1
    vocab.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"<unk>\n\xff\xfe\n"


def test_saving_pickling_and_comparing(tmp_path: pathlib.Path) -> None:
    vocab = hr.Vocab([*SPECIALS, "ä", "b"], unk="</s>")
    vocab.save(tmp_path / "v")
    again = hr.Vocab.from_file(tmp_path / "v", unk="</s>")
    sent = pickle.loads(pickle.dumps(vocab))
    assert vocab == again == sent
    assert hash(vocab) == hash(again)
    assert sent["x"] == 2
    assert vocab.fingerprint() == again.fingerprint()
    assert vocab != hr.Vocab([*SPECIALS, "ä", "b"])  # another unknown word
    assert vocab != hr.Vocab([*SPECIALS, "b", "ä"], unk="</s>")
    assert vocab != "v"
    assert repr(vocab) == "Vocab(5 words, unk='</s>')"


def test_saving_to_a_full_disk_keeps_the_old_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "old\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        hr.Vocab(SPECIALS).save(path)
    assert path.read_text() == "old\n"
    assert [p.name for p in tmp_path.iterdir()] == ["vocab"]


@given(
    texts=st.lists(
        st.lists(st.sampled_from(["a", "b", "cc", "<s>", "ä", "x" * 30, "\n", "\r\n", " ", "\t"])),
        min_size=1,
        max_size=3,
    ),
    min_count=st.integers(1, 3),
    max_size=st.one_of(st.none(), st.integers(3, 8)),
)
def test_counting_is_that_of_a_counter(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], min_count: int, max_size: int | None
) -> None:
    folder = tmp_path_factory.mktemp("count")
    contents = [" ".join(text).encode() for text in texts]
    paths = [write(folder, content, f"{i}.txt") for i, content in enumerate(contents)]
    counts = Counter(token for content in contents for token in content.split())
    for special in SPECIALS:
        del counts[special.encode()]
    ranked = sorted((t for t, n in counts.items() if n >= min_count), key=lambda t: (-counts[t], t))
    expected = [*SPECIALS, *(t.decode() for t in ranked)][:max_size]
    assert list(hr.build_vocab(paths, min_count=min_count, max_size=max_size)) == expected
    assert list(hr.build_vocab(paths[::-1], min_count=min_count, max_size=max_size, threads=2)) == expected


def test_counting_by_many_threads_gives_the_same(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(3)
    words = rng.zipf(1.3, 1_500_000) % 5000
    content = "\n".join(" ".join(f"w{w}" for w in row) for row in words.reshape(-1, 10))
    path = write(tmp_path, content + " " + "x" * 3_000_000 + " y\n")  # a token longer than what is read at a time
    one, four = hr.build_vocab(path, threads=1), hr.build_vocab(path, threads=4)
    assert one == four
    counts = Counter(f"w{w}" for w in words)
    assert [counts[t] for t in list(one)[3:1000]] == sorted(counts.values(), reverse=True)[:997]
    assert "x" * 3_000_000 in one


def test_counting_with_other_separators_knows_line_ends(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "a b\r\nb \r\n\r\nc")
    assert list(hr.build_vocab(path, separators=" ", specials=["<unk>"])) == ["<unk>", "b", "a", "c"]
    tabbed = write(tmp_path, "a\tb c\n", "tabbed")
    with pytest.raises(DataError, match=r"has white space in it: .*'a\?b'"):
        hr.build_vocab(tabbed, separators=" ")


def test_arguments_of_counting_are_checked(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "a\n")
    with pytest.raises(ValueError, match="min_count is at least 1, got 0"):
        hr.build_vocab(path, min_count=0)
    with pytest.raises(ValueError, match="max_size 2 leaves no room for the 3 special words"):
        hr.build_vocab(path, max_size=2)
    with pytest.raises(ValueError, match="threads is at least 0, got -1"):
        hr.build_vocab(path, threads=-1)
    with pytest.raises(DataError, match="the vocabulary has no '<unk>'"):
        hr.build_vocab(path, specials=["<pad>"])
