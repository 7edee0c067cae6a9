from __future__ import annotations

import pathlib
import pickle
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.cbf import CbfSource
from headrace.formats.kept import KeptSequences
from headrace.formats.sequences import Place
from headrace.proof import same
from tests.formats.sequence_columns import columns, pieces

MAGIC = 0x636E746B5F62696E

# Two sequences of two streams, in one chunk, written out by hand: x has 2 and 1 samples, w (sparse) has 1 and 0.
CHUNK = b"".join(
    [
        struct.pack("<2I", 2, 1),
        struct.pack("<I4f", 2, 1, 2, 3, 4),
        struct.pack("<I2f", 1, 5, 6),
        struct.pack("<Ii2d2ii", 1, 2, 0.5, 0.25, 3, 7, 2),
        struct.pack("<Ii", 0, 0),
    ]
)


def stream(name: bytes, sparse: int, value_type: int, dim: int) -> bytes:
    return struct.pack("<BI", sparse, len(name)) + name + struct.pack("<BI", value_type, dim)


STREAMS = [stream(b"x", 0, 0, 2), stream(b"w", 1, 1, 9)]


def file_of(
    chunks: list[tuple[bytes, int, int]], streams: list[bytes] = STREAMS, version: int = 1, front: int = MAGIC
) -> bytes:
    """A file of chunks, each its bytes and what the header says of it: sequences, samples."""
    body = struct.pack("<QI", front, version)
    table = b""
    for content, sequences, samples in chunks:
        table += struct.pack("<qII", len(body), sequences, samples)
        body += content
    header = struct.pack("<QII", MAGIC, len(chunks), len(streams)) + b"".join(streams) + table
    return body + header + struct.pack("<q", len(body))


GOOD = file_of([(CHUNK, 2, 3)])


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.cbf"


def opened(path: pathlib.Path, content: bytes, **options: Any) -> CbfSource:
    path.write_bytes(content)
    return CbfSource(path, **options)


def everything(source: CbfSource) -> dict[str, Any]:
    return source.read(np.arange(source.num_records))


def test_a_file_written_by_hand_is_read(path: pathlib.Path) -> None:
    source = opened(path, GOOD)
    assert [(s.name, s.shape, s.sparse, s.dtype) for s in source.streams] == [
        ("x", (2,), False, np.dtype(np.float32)),
        ("w", (9,), True, np.dtype(np.float64)),
    ]
    assert source.sizes is not None
    assert source.sizes.tolist() == [2, 1]
    assert source.keys().tolist() == [0, 1]
    assert source.chunks(1).tolist() == [0, 2]
    assert source.num_bytes == len(GOOD)
    x, w = everything(source).values()
    assert [row.tolist() for row in x] == [[[1, 2], [3, 4]], [[5, 6]]]
    assert [row.tolist() for row in w] == [[([3, 7], [0.5, 0.25])], []]
    lengths = source.lengths()
    assert lengths is not None
    assert {name: found.tolist() for name, found in lengths.items()} == {"x": [2, 1], "w": [1, 0]}
    assert source.where(1) == f"{path}, sequence 1 (chunk 0, sequence 1 of it)"


def test_the_same_file_is_written(path: pathlib.Path) -> None:
    data = everything(opened(path, GOOD))
    hr.write_cbf(path, data)
    assert path.read_bytes() == GOOD


def test_sequences_come_in_any_order_from_any_chunk(path: pathlib.Path) -> None:
    source = opened(path, file_of([(CHUNK, 2, 3), (struct.pack("<0I"), 0, 0), (CHUNK, 2, 3)]))
    assert source.chunks(0).tolist() == [0, 2, 4]
    whole = everything(source)
    for order in ([3, 0, 2], [1, 1], [], [2, 3]):
        wanted = {name: column.take(np.array(order, np.int64)) for name, column in whole.items()}
        assert same(source.read(np.array(order, np.int64)), wanted)
        assert same(KeptSequences(source).read(np.array(order, np.int64)), wanted)
    for bad in (-1, 4):
        with pytest.raises(IndexError, match=f"there are records 0 to 3, got {bad}"):
            source.read(np.array([0, bad]))


def test_streams_can_be_renamed(path: pathlib.Path) -> None:
    assert list(everything(opened(path, GOOD, rename={"x": "image"}))) == ["image", "w"]
    with pytest.raises(hr.PlanError, match=r"has the streams 'x', 'w'; rename names 'y'"):
        CbfSource(path, rename={"y": "z"})
    with pytest.raises(hr.PlanError, match="2 streams are called 'w'"):
        CbfSource(path, rename={"x": "w"})


def test_single_samples_make_plain_columns(path: pathlib.Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    y = hr.Sparse.from_rows([([1], [1]), ([], []), ([4, 2], [1, 2])], width=5)
    hr.write_cbf(path, {"x": x, "y": y})
    data = hr.read_cbf(path)
    assert np.array_equal(data[2]["x"], [4, 5])
    batch = next(iter(hr.Loader(data.shuffle(seed=1).batch(3))))
    assert isinstance(batch["y"], hr.Sparse)
    assert sorted(batch["x"].tolist()) == x.tolist()
    assert CbfSource(path, sequence=True).sizes is None
    ragged = CbfSource(path, sequence=True).read(np.array([1, 2]))
    assert [row.tolist() for row in ragged["x"]] == [[[2, 3]], [[4, 5]]]
    assert ragged["y"][1].tolist() == [([2, 4], [2, 1])]  # put in order
    hr.assert_resumable(data.shuffle(seed=3).batch(2))


def test_sequences_are_not_single_samples(path: pathlib.Path) -> None:
    with pytest.raises(hr.DataError, match=r"sequence 0 .*: expected one sample in each sequence, found 2; .*True"):
        opened(path, GOOD, sequence=False)
    hr.write_cbf(path, {"x": np.ones((2, 1)), "y": hr.Ragged.from_rows([[1.0], []])})
    with pytest.raises(hr.DataError, match=r"stream 'y' has no sample in a sequence.*sequence=True"):
        everything(CbfSource(path))
    assert everything(CbfSource(path, sequence=True))["y"].lengths.tolist() == [1, 0]


def test_a_bucket_goes_by_the_lengths_of_a_stream(path: pathlib.Path) -> None:
    rows = [np.ones((n, 1)) for n in (3, 1, 2, 1)]
    hr.write_cbf(path, {"a": rows, "b": rows[::-1]}, chunk_size=1)
    data = hr.read_cbf(path).filter_length(max=1, columns=["b"])
    assert [len(record["a"]) for record in data] == [3, 2]


def test_a_source_goes_to_other_processes(path: pathlib.Path) -> None:
    source = opened(path, GOOD, rename={"x": "z"})
    sent = pickle.dumps(source)
    assert same(everything(pickle.loads(sent)), everything(source))
    path.write_bytes(file_of([(CHUNK, 2, 3), (CHUNK, 2, 3)]))
    with pytest.raises(hr.DataChangedError, match="changed since the source was sent here"):
        pickle.loads(sent)
    with pytest.raises(hr.DataChangedError):
        everything(source)
    source.close()
    with pytest.raises(ValueError, match="this source is closed"):
        source.read(np.array([0]))


def test_threads_may_read_at_once(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.cbf._TABLES", 600)  # of one or two chunks
    rows = [np.full((n % 3 + 1, 1), n) for n in range(60)]
    hr.write_cbf(path, {"x": rows}, chunk_size=40)
    source = CbfSource(path)
    assert len(source.chunks(0)) > 10
    failed: list[Any] = []

    def read(seed: int) -> None:
        order = np.random.default_rng(seed).permutation(60)
        found = [int(row[0, 0]) for row in source.read(order)["x"]]
        if found != order.tolist():
            failed.append(found)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


WRONG: list[tuple[bytes, str]] = [
    (b"", "byte 0: expected CNTK's binary format, which takes 36 bytes at least, found 0 bytes; copy the file"),
    (b"|x 1 2\n" * 10, "byte 0: expected CNTK's binary format, which begins with 0x636e746b5f62696e, found"),
    (file_of([(CHUNK, 2, 3)], version=2), "byte 8: expected version 1 of CNTK's binary format, found version 2"),
    (GOOD[:-8] + struct.pack("<q", -1), f"byte {len(GOOD) - 8}: expected the place of the header, .* found -1"),
    (GOOD[:-8] + struct.pack("<q", 1 << 60), "expected the place of the header"),
    (GOOD[:-8] + struct.pack("<q", 13), "byte 13: expected the header, which begins with"),
    (file_of([(CHUNK, 2, 3)], []), "expected at least one stream, found none"),
    (file_of([(CHUNK, 2, 3)], [STREAMS[0]] * 2), "stream 1 of 2 is called 'x' like one before"),
    (file_of([(CHUNK, 2, 3)], [stream(b"x", 2, 0, 2)]), "'x': expected 0 for dense or 1 for sparse, found 2"),
    (file_of([(CHUNK, 2, 3)], [stream(b"x", 0, 7, 2)]), "'x': expected 0 for float32 or 1 for float64, found 7"),
    (file_of([(CHUNK, 2, 3)], [stream(b"", 0, 0, 1)]), "stream 0 of 1: expected a name, found one of no bytes"),
    (file_of([(CHUNK, 2, 3)], [stream(b"\xff", 0, 0, 1)]), "expected a name in ASCII or UTF-8"),
    (file_of([(CHUNK, 2, 3)], [STREAMS[0][:6]]), "'x': expected 0 for float32 or 1 for float64, found 12"),
    (file_of([(CHUNK, 2, 3)], [*STREAMS, b"\0\0"]), "stream 2 of 3: "),
    (file_of([(CHUNK, 3, 3)]), "byte 12: chunk 0: expected sequences of 3 samples together, .*found 5"),
    (file_of([(CHUNK, 2, 4)]), "byte 12: chunk 0: expected sequences of 4 samples together, .*found 3"),
    (file_of([(CHUNK, 1 << 31, 3)]), "chunk 0: expected it to .* have room for its 2147483648 sequences"),
    (file_of([(CHUNK[:4] + CHUNK[4:], 2, 3), (b"", 1, 0)]), "chunk 1: expected it to .* room for its 1 sequences"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_a_header_that_contradicts_itself_is_refused(path: pathlib.Path, content: bytes, message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        opened(path, content)


def changed(at: int, code: str, value: int) -> bytes:
    content = bytearray(CHUNK)
    struct.pack_into(code, content, at, value)
    return file_of([(bytes(content), 2, 3)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(8, "<I", 1), r"byte 32: chunk 0, sequence 1 of it, stream 'x': expected 1077936128 samples of 2 numb"),
        (changed(8, "<I", 1 << 31), r"byte 20: .*stream 'x': expected 2147483648 samples of 2 numbers, found"),
        (changed(44, "<i", -1), r"byte 56: chunk 0, sequence 0 of it, stream 'w': expected a number of entries, f.*-1"),
        (changed(44, "<i", 1 << 30), r"stream 'w': expected 1073741824 entries in 1 samples, found"),
        (changed(72, "<i", 1), r"byte 56: .*as many entries as all samples have together, 1, found 2; the file is dam"),
        (changed(72, "<i", -1), r"byte 84: .*expected the entries of sample 0, of 2 in all, found -1"),
        (file_of([(CHUNK + b"\0", 2, 3)]), r"expected the end of the chunk after its last sequence, found 1 bytes"),
        (file_of([(CHUNK[:-4], 2, 3)]), r"sequence 1 of it, stream 'w': expected numbers of samples and entries, fo"),
        (
            file_of([(struct.pack("<2I", 1, 2) + CHUNK[8:], 2, 3)]),
            "byte 12: chunk 0, sequence 0 of it: expected the length 2 of its longest stream, found 1",
        ),
    ],
)
def test_a_chunk_that_contradicts_itself_is_refused(path: pathlib.Path, content: bytes, message: str) -> None:
    source = opened(path, content)
    with pytest.raises(hr.DataError, match=message):
        source.parse(np.array([0]))


@pytest.mark.parametrize("index", [9, -1, 2**31 - 1])
def test_an_index_outside_is_an_error_of_its_sequence(path: pathlib.Path, index: int) -> None:
    content = bytearray(CHUNK)
    struct.pack_into("<i", content, 64, index)
    source = opened(path, file_of([(bytes(content), 2, 3)]))
    parsed = source.parse(np.array([1, 0, 1, 0]))
    assert parsed.error_rows.tolist() == [1, 3]
    assert parsed.place is not None
    assert parsed.place(1) == Place("index out of range", 0, 0, 76, "w")
    assert parsed.dropped is not None
    assert parsed.dropped.tolist() == [False, True, False, True]
    assert parsed.columns["x"].lengths.tolist() == [1, 0, 1, 0]
    assert parsed.columns["w"].lengths.tolist() == [0, 0, 0, 0]
    message = (
        rf"sequence 0 \(chunk 0, sequence 0 of it\), stream 'w', byte 76: expected an index in \[0, 9\), found {index};"
    )
    for i in range(2):
        with pytest.raises(hr.DataError, match=message):
            raise hr.DataError(parsed.explain(i))
    with pytest.raises(hr.DataError, match=message):
        everything(source)


def outcome(path: pathlib.Path, content: bytes) -> Any:
    """What a file gives: its data, or None for a DataError; anything else is a failure of the test."""
    try:
        source = opened(path, content)
        source.lengths()
        return everything(source)
    except hr.DataError as error:
        message = str(error)
    assert str(path) in message
    return None


def test_a_file_cut_anywhere_is_refused(path: pathlib.Path) -> None:
    content = file_of([(CHUNK, 2, 3), (CHUNK, 2, 3)])
    for size in range(len(content)):
        assert outcome(path, content[:size]) is None


def test_changed_bytes_give_errors_or_values(path: pathlib.Path) -> None:
    content = file_of([(CHUNK, 2, 3), (CHUNK, 2, 3)])
    refused = 0
    for at in range(len(content)):
        for value in (0, 1, 0x7F, 0xFF, content[at] ^ 1):
            flipped = bytearray(content)
            flipped[at] = value
            refused += outcome(path, bytes(flipped)) is None
    assert refused > len(content)


@given(st.data())
def test_random_damage_gives_errors_or_values(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("damage") / "x"
    hr.write_cbf(path, data.draw(columns()), chunk_size=data.draw(st.integers(1, 200)))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    outcome(path, bytes(content))


# writing -----------------------------------------------------------------------------------------------------------


@given(columns(), st.integers(1, 300), st.integers(0, 1 << 32))
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, hr.Ragged], chunk_size: int, seed: int
) -> None:
    path = tmp_path_factory.mktemp("round") / "x"
    batches = pieces(data, np.random.default_rng(seed))
    hr.write_cbf(path, iter(batches), chunk_size=chunk_size)
    source = CbfSource(path, sequence=True)
    assert same(everything(source), data)
    content = path.read_bytes()
    hr.write_cbf(path, data, chunk_size=chunk_size)
    assert path.read_bytes() == content


def test_streams_of_no_width_hold_samples(path: pathlib.Path) -> None:
    none = hr.Sparse(np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(4, np.int64), 0)
    data = {
        "x": hr.Ragged(np.zeros((3, 0), np.float32), np.array([0, 1, 3])),
        "y": hr.Ragged(none, np.array([0, 2, 3])),
    }
    hr.write_cbf(path, data)
    assert same(everything(CbfSource(path)), data)
    huge = file_of([(struct.pack("<2I", (1 << 32) - 1, (1 << 32) - 1), 1, (1 << 32) - 1)], [stream(b"x", 0, 0, 0)])
    assert everything(opened(path, huge))["x"].lengths.tolist() == [(1 << 32) - 1]


def test_a_chunk_is_closed_when_it_is_full(path: pathlib.Path) -> None:
    hr.write_cbf(path, {"x": np.zeros((10, 2), np.float32)}, chunk_size=48)  # 16 bytes a row
    assert CbfSource(path).chunks(0).tolist() == [0, 3, 6, 9, 10]
    hr.write_cbf(path, ({"x": np.zeros((n, 2), np.float32)} for n in (2, 0, 3)), chunk_size=49)
    assert CbfSource(path).chunks(0).tolist() == [0, 4, 5]


def test_batches_may_share_their_memory(path: pathlib.Path) -> None:
    buffer = np.zeros((2, 3), np.float32)

    def batches() -> Iterator[dict[str, Any]]:
        for n in range(5):
            buffer[:] = n
            yield {"x": buffer}

    hr.write_cbf(path, batches())
    assert everything(CbfSource(path))["x"][:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_no_rows_make_a_file_without_chunks(path: pathlib.Path) -> None:
    hr.write_cbf(path, {"x": np.zeros((0, 2))})
    assert CbfSource(path).num_records == 0
    assert len(hr.read_cbf(path)) == 0


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1, 255], np.uint8), np.float32),
        (np.array([True, False]), np.float32),
        (np.array([1.5, 2], np.float16), np.float32),
        (np.array([1.5, 2], ">f4"), np.float32),
        (np.array([1, -(2**53)]), np.float64),
        (np.array([0.1, 1e300]), np.float64),
        ([[1, 2], [3, 4]], np.float64),
    ],
)
def test_values_keep_what_they_are(path: pathlib.Path, values: Any, dtype: Any) -> None:
    hr.write_cbf(path, {"x": values})
    found = everything(CbfSource(path))["x"]
    assert found.dtype == dtype
    assert np.array_equal(found.reshape(np.shape(values)), values)


def test_columns_of_every_kind_are_written(path: pathlib.Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.eye(3, 5, dtype=np.float32))
    batch = {"csr": matrix, "image": np.ones((3, 2, 2)), "steps": [matrix[:2], matrix[:1], matrix[1:]]}
    hr.write_cbf(path, batch, streams={"steps": "s", "image": "i", "csr": "c"}, dtype="float32")
    found = everything(CbfSource(path))
    assert list(found) == ["s", "i", "c"]
    assert found["s"].lengths.tolist() == [2, 1, 2]
    assert found["s"][2].tolist() == [([1], [1.0]), ([2], [1.0])]
    assert found["i"].values.shape == (3, 4)
    assert found["c"].values.to_dense().tolist() == np.eye(3, 5).tolist()
    assert found["i"].values.dtype == np.float32


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (5, "expected a dict of columns, or an iterable of those, got int"),
        ([5], "batch 0: expected a dict of columns, got int 5"),
        ([], "expected at least one batch, got none"),
        ({}, "at least one column"),
        ({"x": ["a"]}, "column 'x': expected rows of real numbers"),
        ({"x": hr.Strings.from_rows(["a"])}, "column 'x': expected rows of real numbers"),
        ({"x": np.array([1j])}, "column 'x': expected rows of real numbers of at most 64 bits, got complex128"),
        ({"x": []}, "column 'x': expected rows, got an empty list"),
        ({"x": [[1, 2], [3]]}, "column 'x': expected rows of one shape"),
        ({"x": np.array([2**60])}, "column 'x': expected whole numbers that float64 can hold, got 1152921504606846976"),
        ({"x": np.zeros(2), "y": np.zeros(3)}, "same number of rows, got x: 2, y: 3"),
        ({"": np.zeros(2)}, "needs a name"),
        ([{"x": np.zeros(2)}, {"y": np.zeros(2)}], "columns of the first batch, \\['x'\\], got \\['y'\\]"),
        ([{"x": np.zeros(2)}, {"x": np.zeros((1, 2))}], "'x': expected dense float64 samples of 1 .* samples of 2"),
        ([{"x": np.zeros(2)}, {"x": np.zeros(2, np.float32)}], "expected dense float64 .* got dense float32"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(path: pathlib.Path, data: Any, message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        hr.write_cbf(path, data)
    assert list(path.parent.iterdir()) == []


def test_arguments_are_looked_at(path: pathlib.Path) -> None:
    for chunk_size in (0, 1.5, True):
        with pytest.raises(ValueError, match=r"chunk_size is (an integer|at least 1), got"):
            hr.write_cbf(path, {"x": np.zeros(1)}, chunk_size=chunk_size)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype is 'float32' or 'float64', got 'int8'"):
        hr.write_cbf(path, {"x": np.zeros(1)}, dtype="int8")
    with pytest.raises(hr.DataError, match="streams names the column 'y'; there are 'x'"):
        hr.write_cbf(path, {"x": np.zeros(1)}, streams=["y"])
    with pytest.raises(hr.DataError, match="two columns are to be called 'z'"):
        hr.write_cbf(path, {"x": np.zeros(1), "y": np.zeros(1)}, streams={"x": "z", "y": "z"})
    with pytest.raises(hr.DataError, match="streams is a list of columns"):
        hr.write_cbf(path, {"x": np.zeros(1)}, streams="x")


def test_an_error_leaves_the_old_file(path: pathlib.Path) -> None:
    hr.write_cbf(path, {"x": np.zeros(1)})
    content = path.read_bytes()

    def broken() -> Any:
        yield {"x": np.ones(100)}
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        hr.write_cbf(path, broken(), chunk_size=10)
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["data.cbf"]
