"""Lines of text files, compared with plain Python; and what is refused."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataChangedError, DataError
from headrace.formats.files import Paths
from headrace.formats.sidecar import IndexMode
from headrace.formats.text import TextSource
from headrace.vocab import Vocab

# Bytes in which line ends, separators, NUL and parts of UTF-8 are frequent.
BYTES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r\n", b"\r", b" ", b"\t", b"\x0b", b"\x0c", b"\0", b"a", b"bc", b"\xc3\xa4", b"\xff"]
        ),
        st.binary(max_size=5),
        st.integers(55, 70).map(lambda n: b"x" * n),  # around the size of a block
    ),
    max_size=60,
).map(b"".join)


def model(content: bytes) -> list[bytes]:
    """The lines of a file, as the documentation has them."""
    lines = content.split(b"\n")
    ended = [line[:-1] if line.endswith(b"\r") else line for line in lines[:-1]]
    return ended + lines[-1:] if lines[-1] else ended


def split(line: bytes, separators: str | None) -> list[bytes]:
    """The tokens of a line."""
    if separators is None:
        return line.split()
    for character in separators[1:]:
        line = line.replace(character.encode(), separators[0].encode())
    return [token for token in line.split(separators[0].encode()) if token]


def every(source: TextSource) -> list[bytes]:
    texts = source.read(np.arange(source.num_records))
    return [texts.bytes_at(i) for i in range(len(texts))]


def write(folder: pathlib.Path, content: bytes, name: str = "a.txt") -> pathlib.Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("text")


@given(
    content=BYTES, separators=st.sampled_from([None, " ", "\t ", "\r", "a"]), mode=st.sampled_from(["auto", "memory"])
)
def test_lines_and_token_counts_are_those_of_the_model(
    folder: pathlib.Path, content: bytes, separators: str | None, mode: IndexMode
) -> None:
    path = write(folder, content)
    for _ in range(2):  # the second time by the sidecar
        source = TextSource(path, separators=separators, index=mode)
        lines = model(content)
        assert source.num_records == len(lines)
        assert every(source) == lines
        assert source.lengths()[""].tolist() == [len(split(line, separators)) for line in lines]
        source.close()


@given(contents=st.lists(BYTES, min_size=1, max_size=4), data=st.data())
def test_several_files_are_one_list_of_records(
    folder: pathlib.Path, contents: list[bytes], data: st.DataObject
) -> None:
    paths = [write(folder, content, f"{i}.txt") for i, content in enumerate(contents)]
    source = TextSource(paths, index="memory")
    expected = [(i, n, line) for i, content in enumerate(contents) for n, line in enumerate(model(content))]
    assert source.num_records == len(expected)
    assert len(source.lengths()[""]) == len(expected)
    if not expected:
        return
    records = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=20))
    texts = source.read(np.array(records, np.int64))
    assert [texts.bytes_at(i) for i in range(len(records))] == [expected[r][2] for r in records]
    for record in records:
        file, line, _ = expected[record]
        assert source.where(record) == f"{paths[file]}, line {line + 1}"


WORDS = ["<unk>", "<s>", "</s>", "a", "bc", "x" * 60, "ä", "a" * 8, "a" * 9, "\udcff"]


@given(
    content=BYTES,
    separators=st.sampled_from([None, " "]),
    max_length=st.one_of(st.none(), st.integers(0, 5)),
    bos=st.sampled_from([None, 1]),
    eos=st.sampled_from([None, 2]),
)
def test_encoding_is_reading_splitting_and_looking_up(
    folder: pathlib.Path,
    content: bytes,
    separators: str | None,
    max_length: int | None,
    bos: int | None,
    eos: int | None,
) -> None:
    vocab = Vocab(WORDS)
    table = {word.encode("utf-8", "surrogateescape"): i for i, word in enumerate(WORDS)}
    source = TextSource(write(folder, content), index="memory", separators=separators)
    records = np.arange(source.num_records)[::-1].copy()
    encoded = source.encode(records, vocab, max_length=max_length, bos=bos, eos=eos)
    expected = []
    for line in model(content)[::-1]:
        ids = [table.get(token, 0) for token in split(line, separators)[:max_length]]
        expected.append([bos] * (bos is not None) + ids + [eos] * (eos is not None))
    assert encoded.values.dtype == np.int32
    assert encoded.tolist() == expected
    again = vocab.encode(source.read(records), max_length=max_length, bos=bos, eos=eos, separators=separators)
    assert again.tolist() == expected


def test_empty_files_have_no_lines(tmp_path: pathlib.Path) -> None:
    source = TextSource([write(tmp_path, b""), write(tmp_path, b"", "b.txt")])
    assert source.num_records == 0
    assert every(source) == []
    assert source.lengths()[""].tolist() == []
    assert source.fingerprint()["records"] == 0
    with pytest.raises(IndexError, match="record 0 is not there"):
        source.read(np.array([0]))


def test_records_out_of_range_are_refused(tmp_path: pathlib.Path) -> None:
    source = TextSource(write(tmp_path, b"a\nb\n"))
    for record in (2, -1, 2**62):
        with pytest.raises(IndexError, match=rf"record {record} is not there: expected 0 to 1 \(2 records\)"):
            source.read(np.array([0, record]))


@pytest.mark.parametrize(
    ("content", "line", "byte", "value"),
    [
        (b"ok\nb\xe4d\n", 2, 2, "e4"),  # latin-1
        (b"\xc3\xa4\n\xed\xa0\x80\n", 2, 1, "ed"),  # a surrogate
        (b"\xc0\x80", 1, 1, "c0"),  # an overlong form
        (b"a\n\n" + b"x" * 300_000 + b"\xf0\x9f\x98", 3, 300_001, "f0"),  # cut off by the end
        (b"\xe2\x82\xac" * 100_000 + b"\x80\n", 1, 300_001, "80"),
    ],
)
def test_invalid_utf8_is_found_on_request(
    tmp_path: pathlib.Path, content: bytes, line: int, byte: int, value: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(DataError, match=rf"a.txt, line {line}, byte {byte}: expected UTF-8, found the byte 0x{value}"):
        TextSource(path, check_utf8=True)
    assert every(TextSource(path)) == model(content)


@given(content=st.one_of(BYTES, st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_utf8_is_what_python_takes_for_it(folder: pathlib.Path, content: bytes) -> None:
    path = write(folder, content)
    try:
        content.decode()
    except UnicodeDecodeError:
        with pytest.raises(DataError, match="expected UTF-8"):
            TextSource(path, index="memory", check_utf8=True)
    else:
        TextSource(path, index="memory", check_utf8=True)


@pytest.mark.parametrize("change", ["shrink", "empty", "grow", "touch", "same size"])
def test_a_file_that_changes_is_refused(tmp_path: pathlib.Path, change: str) -> None:
    path = write(tmp_path, b"line\n" * 5000)
    source = TextSource(path)
    vocab = Vocab(["<unk>"])
    before = path.stat()
    if change == "touch":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    elif change == "same size":
        with path.open("r+b") as file:
            file.write(b"LINE\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    else:
        size = {"shrink": 100, "empty": 0, "grow": before.st_size + 1}[change]
        os.truncate(path, size)
    for read in (source.read, lambda records: source.encode(records, vocab)):
        with pytest.raises(DataChangedError, match=r"a.txt changed while it was in use: expected 25000 bytes.*; found"):
            read(np.array([4999]))
    assert every(TextSource(path)) == model(path.read_bytes())


def test_a_file_that_is_replaced_or_deleted_is_read_on(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, b"one\ntwo\n")
    source = TextSource(path)
    write(tmp_path, b"another\n", "b.txt").rename(path)
    assert every(source) == [b"one", b"two"]
    path.unlink()
    assert every(source) == [b"one", b"two"]


def test_arguments_are_checked(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, b"a\n")
    with pytest.raises(ValueError, match="index is one of 'auto', 'memory', 'rebuild', got 'none'"):
        TextSource(path, index="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="separators is empty"):
        TextSource(path, separators="")
    with pytest.raises(ValueError, match="separators has a character outside ASCII"):
        TextSource(path, separators="\u3000")


def test_a_closed_source_says_so(tmp_path: pathlib.Path) -> None:
    source = TextSource(write(tmp_path, b"a\n"))
    source.close()
    with pytest.raises(ValueError, match="this source is closed"):
        source.read(np.array([0]))


def test_the_fingerprint_is_of_the_content(tmp_path: pathlib.Path) -> None:
    import gzip

    content = b"".join(b"line %d\n" % i for i in range(100_000))
    plain = TextSource(write(tmp_path, content)).fingerprint()
    # Saved states hold it: a change needs a new version of the state.
    assert plain == {"records": 100_000, "bytes": 1_088_890, "sample": "b33d8cec0bd5a052"}
    moved = TextSource(write(tmp_path, content, "b.txt"), index="memory").fingerprint()
    packed = TextSource(write(tmp_path, gzip.compress(content), "c.gz")).fingerprint()
    assert plain == moved == packed
    changed = TextSource(write(tmp_path, b"L" + content[1:], "d.txt")).fingerprint()
    assert changed["sample"] != plain["sample"]
    assert {**changed, "sample": ""} == {**plain, "sample": ""}


def pickled_into(source: TextSource) -> TextSource:
    return pickle.loads(pickle.dumps(source))  # type: ignore[no-any-return]


def test_pickling_opens_the_same_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, b"one two\nthree\n")
    source = TextSource("a.txt", separators=" ")
    again = pickled_into(source)
    assert every(again) == every(source)
    assert again.where(1) == "a.txt, line 2"
    monkeypatch.chdir("/")
    assert pickled_into_path(source, path)


def pickled_into_path(source: TextSource, path: pathlib.Path) -> bool:
    # In another folder the name no longer leads there, so the path that it had is used.
    state = source.__getstate__()
    state["files"] = [(str(path), "a.txt", state["files"][0][2])]
    other = TextSource.__new__(TextSource)
    other.__setstate__(state)
    return every(other) == every(source)


def test_pickling_refuses_files_that_changed_in_between(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, b"one\n")
    sent = pickle.dumps(TextSource(path))
    path.write_bytes(b"one\ntwo\n")
    with pytest.raises(DataChangedError, match="changed since the source was sent here: expected 4 bytes"):
        pickle.loads(sent)


def test_a_line_of_100_mb(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "long.txt"
    words = 50_000_000
    with path.open("wb") as file:
        file.write(b"first\n")
        block = b"a " * 1_000_000
        for _ in range(words // 1_000_000):
            file.write(block)
        file.write(b"\nlast")
    source = TextSource(path, index="memory")
    assert source.lengths()[""].tolist() == [1, words, 1]
    vocab = Vocab(["<unk>", "a"])
    assert source.encode(np.array([1]), vocab, max_length=10).values.tolist() == [1] * 10
    encoded = source.encode(np.array([0, 1, 2]), vocab)
    assert encoded.lengths.tolist() == [1, words, 1]
    assert int(encoded.values.sum()) == words
    assert source.read(np.array([1, 2])).offsets.tolist() == [0, 2 * words, 2 * words + 4]


def test_tokens_of_a_megabyte(tmp_path: pathlib.Path) -> None:
    long, other = "x" * (1 << 20), "x" * ((1 << 20) - 1) + "y"
    path = write(tmp_path, f"{long} {other} a\n".encode())
    vocab = Vocab(["<unk>", "a", other])
    assert TextSource(path).encode(np.array([0]), vocab).tolist() == [[0, 2, 1]]


def test_indexing_by_many_threads_gives_the_same(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(5)
    content = rng.choice(np.frombuffer(b"ab \n\r\n\t", np.uint8), 20_000_000).tobytes()
    from headrace import _native

    file = _native.FileBytes.open(str(write(tmp_path, content)))
    for separators in (None, " "):
        starts, tokens = file.index_lines(separators, 1)
        assert len(tokens) == len(model(content))
        for threads in (2, 3, 7):
            many = file.index_lines(separators, threads)
            assert np.array_equal(many[0], starts)
            assert np.array_equal(many[1], tokens)


def test_reading_from_many_threads(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, b"".join(b"%d\n" % i for i in range(10_000)))
    source = TextSource(path)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            records = rng.integers(0, 10_000, 100)
            if source.read(records).tolist() != [str(r) for r in records]:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_nothing_of_the_core_is_left_at_exit(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, b"a b\nc\n")
    code = (
        "import sys, numpy as np, headrace as hr\n"
        "from headrace.formats.text import TextSource\n"
        "for _ in range(2):\n    source = TextSource(sys.argv[1])\n"
        "vocab = hr.Vocab(['<unk>', 'a'])\n"
        "encoded, texts, lengths = source.encode(np.array([0]), vocab), source.read(np.array([1])), source.lengths()\n"
        "try:\n    source.read(np.array([7]))\nexcept IndexError:\n    pass\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert out.stderr == ""  # the binding library reports leaks there


def test_types_of_paths_are_accepted(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, b"a\n")
    kinds: Sequence[Paths] = (path, str(path), [path], (str(path),), tmp_path / "*.txt")
    for given_paths in kinds:
        assert TextSource(given_paths, index="memory").num_records == 1
