"""TFRecord files: what is written is read; what is damaged is named."""

from __future__ import annotations

import gzip
import logging
import pathlib
import pickle
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.formats.record_source import TFRecordSource
from headrace.formats.tfrecord import RecordError, RecordReader, find_compression
from headrace.formats.tfrecord_writer import TFRecordWriter

KINDS = ["", "GZIP", "ZLIB", "ZSTD"]
RECORDS = [b"one", b"", b"two\x00\xff", b"d" * 300]


def masked(data: bytes) -> bytes:
    """The checksum as files hold it, by the plainest code."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def write(path: pathlib.Path, records: list[bytes], compression: str = "") -> pathlib.Path:
    with TFRecordWriter(path, compression) as writer:
        writer.write_many(records)
    return path


def unpacked(path: pathlib.Path, kind: str) -> bytes:
    data = path.read_bytes()
    if kind == "GZIP":
        return gzip.decompress(data)
    if kind == "ZLIB":
        return zlib.decompress(data)
    if kind == "ZSTD":
        return bytes(pytest.importorskip("zstandard").ZstdDecompressor().decompressobj().decompress(data))
    return data


def read_all(reader: RecordReader) -> tuple[list[tuple[int, bytes]], str]:
    """The records, and the error that ends them."""
    found = []
    try:
        for pair in reader:
            found.append(pair)
    except hr.DataError as error:
        return found, str(error)
    return found, ""


def test_checksum_by_instruction() -> None:
    assert _native.crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_what_the_format_says_and_is_read_again(tmp_path: pathlib.Path, kind: str) -> None:
    if kind == "ZSTD":
        pytest.importorskip("zstandard")
    path = write(tmp_path / "a.tfrecord", RECORDS, kind)
    assert unpacked(path, kind) == b"".join(map(frame, RECORDS))
    assert find_compression(str(path)) == kind
    offsets = np.cumsum([0] + [len(r) + 16 for r in RECORDS])[:-1].tolist()
    assert list(RecordReader(path, kind)) == list(zip(offsets, RECORDS, strict=True))
    for _ in range(2):  # the second time by the sidecar
        source = TFRecordSource(path)
        assert source.read(np.array([3, 1, 0, 2, 2])).tolist() == [RECORDS[i] for i in (3, 1, 0, 2, 2)]
    assert (tmp_path / "a.tfrecord.hrindex").exists() == (kind == "")
    assert list(hr.read_tfrecord(path, stream=True)) == RECORDS
    assert list(pickle.loads(pickle.dumps(hr.read_tfrecord(path, stream=True)))) == RECORDS
    assert source.fingerprint() == TFRecordSource(write(tmp_path / "plain", RECORDS)).fingerprint()


@given(records=st.lists(st.binary(max_size=3000), max_size=30), kind=st.sampled_from(KINDS[:3]))
def test_any_records_come_back(tmp_path_factory: pytest.TempPathFactory, records: list[bytes], kind: str) -> None:
    path = write(tmp_path_factory.mktemp("r") / "a", records, kind)
    assert [record for _, record in RecordReader(path, kind)] == records
    source = TFRecordSource(path, index="memory")
    assert source.read(np.arange(len(records))).tolist() == records


def test_columns_are_written_as_lists_are(tmp_path: pathlib.Path) -> None:
    for column in (hr.Bytes.from_rows(RECORDS), hr.Strings.from_rows(RECORDS)):
        with TFRecordWriter(tmp_path / "a") as writer:
            writer.write_many(column)
        assert (tmp_path / "a").read_bytes() == b"".join(map(frame, RECORDS))


def test_records_larger_than_a_piece(tmp_path: pathlib.Path) -> None:
    records = [b"a" * 3_000_000, b"b", b"c" * 1_200_000, b"", b"d" * 10]
    for kind in ("", "GZIP"):
        path = write(tmp_path / f"large{kind}", records, kind)
        assert [record for _, record in RecordReader(path, kind)] == records


def test_several_gzip_members_are_all_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "two.gz"
    path.write_bytes(gzip.compress(frame(b"one")) + gzip.compress(frame(b"two")))
    assert list(RecordReader(path, "GZIP")) == [(0, b"one"), (19, b"two")]
    assert list(hr.read_tfrecord(path)) == [b"one", b"two"]


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_file_of_no_bytes_has_no_records(tmp_path: pathlib.Path, kind: str) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert list(RecordReader(path, kind)) == []
    assert len(hr.read_tfrecord(path, compression=kind)) == 0


def damage(what: str) -> bytes:
    one, two = frame(b"one"), frame(b"two!")
    length = struct.pack("<Q", 100)
    huge = struct.pack("<Q", 1 << 62)
    return {
        "length checksum": one + bytes([two[0] ^ 1]) + two[1:],
        "data checksum": one + two[:-1] + bytes([two[-1] ^ 1]),
        "flipped bit": one + two[:13] + bytes([two[13] ^ 8]) + two[14:],
        "garbage": b"this is no file of records at all",
        "trailing zeros": one + bytes(20),
        "ends in data": one + two[:14],
        "ends in checksum": one + two[:-1],
        "ends after header": one + two[:12],
        "ends in header": one + two[:5],
        "too long": one + length + masked(length) + b"short",
        "huge": one + huge + masked(huge),
        "all ones": one + b"\xff" * 8 + masked(b"\xff" * 8),
    }[what]


@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        ("length checksum", "corrupted", "corrupted record at 19: the checksum of its length is wrong: stored 0x"),
        ("data checksum", "corrupted", "corrupted record at 31: the checksum of its 4 bytes of data is wrong"),
        ("flipped bit", "corrupted", "corrupted record at 31: "),
        ("garbage", "corrupted", "corrupted record at 0 (Is this even a TFRecord file?): the checksum of its length"),
        ("trailing zeros", "corrupted", "corrupted record at 19: "),
        (
            "ends in data",
            "truncated",
            "truncated record at 19: its header says 4 bytes of data and 4 of checksum, the file ends after 2",
        ),
        ("ends in checksum", "truncated", "truncated record at 19: "),
        ("ends after header", "truncated", "truncated record at 19: "),
        ("ends in header", "stray", "truncated record at 19: the file ends after 5 of the 12 bytes of its header"),
        ("too long", "truncated", "truncated record at 19: its header says 100 bytes"),
        ("huge", "truncated", "truncated record at 19: its header says 4611686018427387904 bytes"),
        ("all ones", "truncated", "truncated record at 19: "),
    ],
)
def test_damage_is_named(tmp_path: pathlib.Path, what: str, kind: str, message: str) -> None:
    path = tmp_path / "bad.tfrecord"
    path.write_bytes(damage(what))
    reader = RecordReader(path)
    first = 0 if what == "garbage" else 1
    for _ in range(first):
        assert reader.read() == (0, b"one")
    for _ in range(3):  # and goes on to
        with pytest.raises(RecordError) as found:
            reader.read()
        assert f"{path}: {message}" in str(found.value)
        assert found.value.kind == kind
        assert found.value.offset == (31 if "31" in message else 19 * first)
    if what in ("data checksum", "flipped bit"):  # the index is made of headers alone
        source = TFRecordSource(path)
        assert source.read(np.array([0])).tolist() == [b"one"]
        with pytest.raises(hr.DataError, match=r"record at 31: .* \(record 1\); copy the file again, or read"):
            source.read(np.array([0, 1]))
        assert len(TFRecordSource(path, verify=False).read(np.array([1]))) == 1
        assert len(list(RecordReader(path, verify=False))) == 2
    else:
        with pytest.raises(RecordError) as found:
            TFRecordSource(path)
        assert message in str(found.value)
        assert "recover='skip'" in str(found.value)
    path.with_suffix(".gz").write_bytes(gzip.compress(damage(what)))
    records, error = read_all(RecordReader(path.with_suffix(".gz"), "GZIP"))
    assert len(records) == first
    assert f"record at {found.value.offset}" in error


@pytest.mark.parametrize("packed", [False, True])
def test_every_flipped_bit_and_every_cut(tmp_path: pathlib.Path, packed: bool) -> None:
    """A right result or an error, never a wrong record."""
    whole = frame(b"one") + frame(b"") + frame(b"three")
    wanted = [b"one", b"", b"three"]
    if packed:
        whole = gzip.compress(whole, mtime=0)
    path = tmp_path / "a"
    cuts = [whole[:size] for size in range(1, len(whole))]
    flips = [whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in (0, 6)]
    for content in cuts + flips:
        path.write_bytes(content)
        records, error = read_all(RecordReader(path, "GZIP" if packed else ""))
        got = [record for _, record in records]
        assert got == wanted[: len(got)]
        # A file that ends between records is a whole file; of gzip's header some bits mean nothing.
        assert error or got == wanted or (not packed and len(content) in (19, 35))


def test_every_flipped_bit_and_every_cut_of_an_indexed_file(tmp_path: pathlib.Path) -> None:
    whole = frame(b"one") + frame(b"") + frame(b"three")
    wanted = [b"one", b"", b"three"]
    path = tmp_path / "a"
    errors = []
    cuts = [whole[:size] for size in range(len(whole))]
    flips = [whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in (0, 7)]
    for content in cuts + flips:
        path.write_bytes(content)
        skipping = TFRecordSource(path, recover="skip", index="memory")
        rest = skipping.read(np.arange(skipping.num_records)).tolist()
        assert rest in (wanted, wanted[1:], [b"one", b"three"], wanted[:2], wanted[:1], [])
        assert len(rest) >= 2 or len(content) < len(whole)
        try:
            source = TFRecordSource(path, index="memory")
            got = source.read(np.arange(source.num_records)).tolist()
        except hr.DataError as error:
            errors.append(str(error))
        else:
            assert len(content) in (0, 19, 35)
            assert got == wanted[: len(got)]
    assert len(errors) == len(cuts + flips) - 3
    assert all(" record at " in error for error in errors)


@given(data=st.data(), piece=st.sampled_from([1, 7, 50, 1 << 20]))
def test_a_stream_leaves_out_what_a_source_does(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, piece: int
) -> None:
    records = data.draw(st.lists(st.binary(max_size=60), max_size=6))
    content = bytearray(b"".join(map(frame, records)))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(content)))
        match data.draw(st.sampled_from(["flip", "cut", "stray", "gone"])):
            case "flip" if place < len(content):
                content[place] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del content[place:]
            case "stray":
                content[place:place] = data.draw(st.binary(max_size=30))
            case "gone":
                del content[place : place + 5]
    path = tmp_path_factory.mktemp("r") / "a"
    path.write_bytes(content)
    source = TFRecordSource(path, compression="", recover="skip", index="memory")
    wanted = source.read(np.arange(source.num_records)).tolist()
    path.write_bytes(gzip.compress(content))
    for kind in ("GZIP", ""):
        if not kind:
            path.write_bytes(content)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.formats.tfrecord._PIECE", piece)
            patch.setattr("headrace.formats.packed._CHUNK", piece)
            reader = RecordReader(path, kind, skip=True)
            assert [record for _, record in reader] == wanted
        assert [(lost.begin, lost.end) for lost in reader.lost] == [(lost.begin, lost.end) for lost in source.lost]


def test_a_stream_ends_where_nothing_can_be_unpacked_any_more(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.gz", [bytes([i]) * 1000 for i in range(5)], "GZIP")
    path.write_bytes(path.read_bytes()[:-8])
    reader = RecordReader(path, "GZIP", skip=True)
    assert len(list(reader)) == 5
    assert "ends in the middle of its gzip data" in reader.lost[0].reason


def test_what_is_packed_otherwise_is_refused(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.gz", [b"one"], "GZIP")
    with pytest.raises(RecordError, match=r"corrupted record at 0 \(Is this even a TFRecord file\?\)"):
        RecordReader(path).read()
    with pytest.raises(RecordError, match=r"is not valid zlib data .*incorrect header check"):
        RecordReader(path, "ZLIB").read()
    with pytest.raises(RecordError, match="is not valid gzip"):
        RecordReader(write(tmp_path / "b", [b"one"]), "GZIP").read()
    with pytest.raises(ValueError, match="compression is one of '', 'GZIP', 'ZLIB', 'ZSTD', got 'LZ4'"):
        RecordReader(path, "LZ4")


def test_a_length_beyond_all_measure_in_a_packed_file(tmp_path: pathlib.Path) -> None:
    length = struct.pack("<Q", 1 << 40)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(length + masked(length) + bytes(3_000_000)))
    with pytest.raises(RecordError, match="corrupted record at 0: record size too large"):
        RecordReader(path, "GZIP").read()


def test_what_is_damaged_is_left_out_when_asked_for(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a"
    bad = bytearray(frame(b"damaged"))
    bad[14] ^= 1
    path.write_bytes(frame(b"one") + bytes(bad) + frame(b"two") + b"stray" + frame(b"three") + b"end")
    for _ in range(2):  # the second time by the sidecar
        with caplog.at_level(logging.WARNING, "headrace"):
            source = TFRecordSource(path, recover="skip")
        assert source.read(np.arange(3)).tolist() == [b"one", b"two", b"three"]
        assert [(lost.begin, lost.end) for lost in source.lost] == [(19, 42), (61, 66), (87, 90)]
        assert source.lost[0].reason.startswith("corrupted record at 31")
        assert "left out 31 damaged bytes in 3 places, the first: corrupted record at 31: " in caplog.text
        caplog.clear()
    assert list(hr.read_tfrecord(path, recover="skip")) == [b"one", b"two", b"three"]
    assert list(hr.read_tfrecord(path, recover="skip", stream=True)) == [b"one", b"two", b"three"]
    assert "left out 31 damaged bytes in 3 places" in caplog.text
    path.write_bytes(frame(b"good"))
    assert TFRecordSource(path, recover="skip").lost == []


def test_shards_appear_together_or_not_at_all(tmp_path: pathlib.Path) -> None:
    records = [bytes([i]) * 20 for i in range(10)]
    with TFRecordWriter(tmp_path / "s.tfrecord", shard_size=100) as writer:
        writer.write_many(records)
        assert list(tmp_path.glob("*.tfrecord")) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"s-{i:05d}-of-00004.tfrecord" for i in range(4)]
    data = hr.read_tfrecord(tmp_path / "s-*.tfrecord", index="memory")
    assert list(data) == records
    for size in (None, 30):
        with pytest.raises(RuntimeError), TFRecordWriter(tmp_path / "x.tfrecord", shard_size=size) as writer:
            writer.write_many(records)
            raise RuntimeError
    assert len(list(tmp_path.iterdir())) == 4
    with pytest.raises(ValueError, match="is closed"):
        writer.write(b"")
    with TFRecordWriter(tmp_path / "y") as writer, pytest.raises(TypeError, match="records are bytes, got str 'text'"):
        writer.write("text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shard_size is at least 1, got 0"):
        TFRecordWriter(tmp_path / "z", shard_size=0)


def test_shuffled_batches_resume_anywhere(tmp_path: pathlib.Path) -> None:
    for shard in range(3):
        write(tmp_path / f"{shard}.tfrecord", [b"%d" % (10 * shard + i) for i in range(10)])
    data = hr.read_tfrecord(tmp_path / "*.tfrecord").shuffle(seed=3).batch(4)
    hr.assert_resumable(data)
    batch = next(iter(hr.Loader(data)))
    assert isinstance(batch, hr.Bytes)
    everything = [record for batch in hr.Loader(data, workers=2) for record in batch]
    assert sorted(map(int, everything)) == list(range(30))


def test_a_source_goes_to_other_processes_and_knows_changed_files(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", [b"one", b"two"])
    source = TFRecordSource(path)
    sent = pickle.dumps(source)
    assert pickle.loads(sent).read(np.array([1])).tolist() == [b"two"]
    assert source.where(1) == f"{path}, record 1"
    path.write_bytes(frame(b"other") + frame(b"records"))
    with pytest.raises(hr.DataChangedError):
        source.read(np.array([0]))
    with pytest.raises(hr.DataChangedError):
        pickle.loads(sent)
    assert TFRecordSource(path).read(np.array([0])).tolist() == [b"other"]
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read(np.array([0]))


def test_columns_of_bytes() -> None:
    column = hr.Bytes.from_rows([b"a", b"", b"\xff\x00"])
    assert column.tolist() == [b"a", b"", b"\xff\x00"]
    assert column[1:].tolist() == [b"", b"\xff\x00"]
    assert column[::2].tolist() == [b"a", b"\xff\x00"]
    assert column.take(np.array([2, 2])).tolist() == [b"\xff\x00"] * 2
    assert isinstance(hr.collate([b"a", b"b"]), hr.Bytes)
    assert isinstance(hr.collate(["a", b"b"]), hr.Strings)
    words = hr.Ragged(column, np.array([0, 2, 2, 3]))
    assert words.tolist() == [[b"a", b""], [], [b"\xff\x00"]]
    assert words.take(np.array([2, 0])).tolist() == [[b"\xff\x00"], [b"a", b""]]
    nested = hr.Ragged(words, np.array([0, 1, 3]))
    assert nested[1:].tolist() == [[[], [b"\xff\x00"]]]
    assert hr.from_arrays(nested)[1].tolist() == [[], [b"\xff\x00"]]
    with pytest.raises(ValueError, match="pad takes rows of numbers, got rows of bytes"):
        hr.pad(words)
    with pytest.raises(ValueError, match="Bytes needs uint8 data"):
        hr.Bytes.checked(np.zeros(2), np.array([0, 2]))  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [False, True])
def test_arguments_of_another_kind(tmp_path: pathlib.Path, stream: bool) -> None:
    path = write(tmp_path / "a", RECORDS)
    for name, value in (("compression", 3), ("compression", "BZ2"), ("recover", True), ("index", "x")):
        with pytest.raises(ValueError, match=f"{name} is"):
            hr.read_tfrecord(path, stream=stream, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("skip", ["raise", "skip"])
def test_what_packed_files_hold_up_to_where_they_are_cut(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, stream: bool, skip: Any
) -> None:
    records = [bytes([i]) * 50_000 for i in range(50)]
    whole = write(tmp_path / "a", records, "GZIP").read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(whole[: len(whole) * 2 // 3])

    def read() -> list[bytes]:
        return list(hr.read_tfrecord(path, stream=stream, recover=skip))

    if skip == "raise":
        with pytest.raises(hr.DataError, match="ends in the middle of its gzip data"):
            read()
        return
    found = read()
    assert 10 < len(found) < 50
    assert found == records[: len(found)]
    assert "left out what comes after" in caplog.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("packed", "said"), [("GZIP", ""), ("ZLIB", ""), ("", "GZIP"), ("ZLIB", "GZIP"), ("", "ZLIB")])
def test_errors_say_how_a_file_seems_to_be_packed(tmp_path: pathlib.Path, packed: str, said: str, stream: bool) -> None:
    path = write(tmp_path / "a", RECORDS, packed)
    with pytest.raises(hr.DataError, match=f"it begins like a file .*: say compression='{packed}'"):
        list(hr.read_tfrecord(path, compression=said, stream=stream))


def test_streams_name_file_and_record(tmp_path: pathlib.Path) -> None:
    paths = [write(tmp_path / name, RECORDS) for name in "ab"]
    data = hr.read_tfrecord(paths, stream=True).parse_example({"x": hr.VarLen("int64")})
    with pytest.raises(hr.DataError, match="/a, record 0: expected an Example"):
        list(data)
    paths[0].write_bytes(frame(b"") + frame(b""))
    with pytest.raises(hr.DataError, match="/b, record 0: expected an Example"):
        list(data)
