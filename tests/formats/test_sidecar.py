"""Index sidecars: an optimisation that never changes what is read."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import struct
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace import _native
from headrace.errors import DataChangedError, DataError
from headrace.formats import sidecar
from headrace.formats.text import TextSource

GOLDEN_HASHES = [
    "2b8704fee7c90622",
    "08fac1bbc487f391",
    "ffb7030093df71e0",
    "627b88ea7f44d36e",
    "4e84b1e96d672972",
    "3d5b9a034af7d4e6",
    "7edf9abc315fc88e",
    "1da0dbaaf3195deb",
    "16960142893cfe69",
]
A, B, C = 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B
CONTENT = b"".join(b"line number %d\n" % i for i in range(500))
LINES = CONTENT.decode().splitlines()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    return path


def beside(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + ".hrindex")


def check(source: TextSource, lines: list[str] = LINES) -> None:
    assert source.read(np.arange(source.num_records)).tolist() == lines
    assert source.lengths()[""].tolist() == [len(line.split()) for line in lines]


def used(caplog: pytest.LogCaptureFixture, path: pathlib.Path) -> bool:
    """Opens the file, checks what it reads, and tells whether by its sidecar."""
    before = beside(path).stat().st_ino
    check(TextSource(path), path.read_bytes().decode().splitlines())
    return beside(path).stat().st_ino == before


def test_a_sidecar_is_written_used_and_rewritten_when_asked(
    path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(TextSource(path, index="memory"))
    assert not beside(path).exists()
    check(TextSource(path))
    assert beside(path).exists()
    assert used(caplog, path)
    first = beside(path).read_bytes()
    inode = beside(path).stat().st_ino
    check(TextSource(path, index="rebuild"))
    assert beside(path).read_bytes() == first
    assert beside(path).stat().st_ino != inode
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


def test_the_layout_is_the_one_described(path: pathlib.Path) -> None:
    TextSource(path)
    content = beside(path).read_bytes()
    assert content[:12] == b"\x89HRIX\r\n\x1a\x01\0\0\0"
    size = int.from_bytes(content[12:16], "little")
    assert int.from_bytes(content[16:24], "little") == _native.hash64(np.frombuffer(content[24 : 24 + size], np.uint8))
    header = json.loads(content[24 : 24 + size])
    assert header["about"] == {
        "format": "text lines",
        "size": len(CONTENT),
        "mtime_ns": path.stat().st_mtime_ns,
        "sample": f"{_native.FileBytes.open(str(path)).sample():016x}",
        "separators": None,
    }
    starts = header["arrays"][0]
    assert {k: starts[k] for k in ("name", "dtype", "count")} == {"name": "starts", "dtype": "<u8", "count": 501}
    assert starts["offset"] % 64 == 0
    values = np.frombuffer(content, "<u8", 501, starts["offset"])
    assert values[0] == 0
    assert values[-1] == len(CONTENT)


def test_the_hash_keeps_its_values() -> None:
    # Sidecars hold these: a change needs a new version of the format.
    data = np.arange(100, dtype=np.uint8)
    sizes = (0, 1, 8, 9, 16, 17, 32, 33, 100)
    assert [f"{_native.hash64(data[:n]):016x}" for n in sizes] == GOLDEN_HASHES


def mix(a: int, b: int) -> int:
    return (a * b >> 64) ^ (a * b % 2**64)


def hash64(data: bytes) -> int:
    """The hash as docs/specs/index-sidecar.md has it."""
    a, b, n = A, B, len(data)

    def word(k: int) -> int:
        return int.from_bytes(data[8 * k : 8 * k + 8], "little")

    while len(data) >= 32:
        a, b = mix(word(0) ^ a, word(1) ^ C), mix(word(2) ^ b, word(3) ^ A)
        data = data[32:]
    if len(data) >= 16:
        a = mix(word(0) ^ a, word(1) ^ C)
        data = data[16:]
    if len(data) > 8:
        b = mix(word(0) ^ b, word(1) ^ A)
    elif data:
        b = mix(word(0) ^ b, C)
    return mix(a ^ (n * C % 2**64), b ^ A)


@given(st.binary(max_size=200))
def test_the_hash_is_the_one_described(data: bytes) -> None:
    assert _native.hash64(np.frombuffer(data, np.uint8)) == hash64(data)


@pytest.mark.parametrize("size", [0, 1, 1000, 262_144, 262_145, 1_000_003])
def test_the_sample_is_the_one_described(tmp_path: pathlib.Path, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    path = tmp_path / "a"
    path.write_bytes(content)
    taken = content
    if size > 1 << 18:
        places = [65536 + (size - 135168) // 13 * i for i in range(14)]
        taken = content[:65536] + b"".join(content[p : p + 4096] for p in places) + content[-65536:]
    assert _native.FileBytes.open(str(path)).sample() == mix(hash64(taken), size ^ B)


def stale_size(path: pathlib.Path) -> None:
    path.write_bytes(CONTENT + b"one more\n")


def stale_time(path: pathlib.Path) -> None:
    os.utime(path, ns=(1, 1))


def stale_content(path: pathlib.Path) -> None:
    before = path.stat()
    path.write_bytes(b"LINE" + CONTENT[4:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def other_version(path: pathlib.Path) -> None:
    content = bytearray(beside(path).read_bytes())
    content[8] = 99
    beside(path).write_bytes(content)


def emptied(path: pathlib.Path) -> None:
    beside(path).write_bytes(b"")


def foreign(path: pathlib.Path) -> None:
    beside(path).write_bytes(b"something else\n" * 100)


def longer(path: pathlib.Path) -> None:
    beside(path).write_bytes(beside(path).read_bytes() + b"\0")


def other_separators(path: pathlib.Path) -> None:
    TextSource(path, separators="e", index="rebuild")
    path.with_name(path.name + ".by-65.hrindex").replace(beside(path))  # as if it were the usual one


def other_arrays(path: pathlib.Path) -> None:
    file = _native.FileBytes.open(str(path))
    about = {
        "format": "text lines",
        "size": file.size,
        "mtime_ns": file.mtime_ns,
        "sample": f"{file.sample():016x}",
        "separators": None,
    }
    assert sidecar.store(str(beside(path)), about, {"starts": np.arange(3.0)})


@pytest.mark.parametrize(
    "spoil",
    [stale_size, stale_time, stale_content, other_version, emptied, foreign, longer, other_separators, other_arrays],
)
def test_a_sidecar_that_does_not_fit_is_replaced(
    path: pathlib.Path, caplog: pytest.LogCaptureFixture, spoil: object
) -> None:
    TextSource(path)
    spoil(path)  # type: ignore[operator]
    assert not used(caplog, path)
    assert used(caplog, path)


@given(data=st.data())
def test_a_sidecar_with_any_bit_flipped_or_cut_anywhere_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("flip") / "a.txt"
    path.write_bytes(CONTENT[:400])
    TextSource(path)
    content = bytearray(beside(path).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[place:]
    beside(path).write_bytes(content)
    check(TextSource(path), CONTENT[:400].decode().splitlines())


@given(data=st.data())
def test_large_sidecars_are_checked_as_they_are_used(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Above the size that is checked at once, damage gives an error that names the remedy, or does not matter."""
    path = tmp_path_factory.mktemp("large") / "a.txt"
    path.write_bytes(CONTENT[:400])
    TextSource(path)
    content = bytearray(beside(path).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    beside(path).write_bytes(content)
    limit, sidecar.CHECKED_AT_ONCE = sidecar.CHECKED_AT_ONCE, 0
    try:
        source = TextSource(path)
        for use in (lambda: source.read(np.arange(source.num_records)), lambda: source.lengths()):
            try:
                use()
            except DataError as error:
                assert "index='rebuild'" in str(error)  # noqa: PT017
                assert not isinstance(error, DataChangedError)  # noqa: PT017
                return
        check(source, CONTENT[:400].decode().splitlines())
    finally:
        sidecar.CHECKED_AT_ONCE = limit


def test_damaged_counts_of_a_large_sidecar_are_named(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "CHECKED_AT_ONCE", 0)
    TextSource(path)
    content = bytearray(beside(path).read_bytes())
    content[-1] ^= 1
    beside(path).write_bytes(content)
    with pytest.raises(DataError, match=r"a.txt.hrindex is damaged: its array 'tokens' .* delete it, or open"):
        TextSource(path).lengths()


def test_damaged_starts_of_a_large_sidecar_are_named(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "CHECKED_AT_ONCE", 0)
    TextSource(path)
    content = bytearray(beside(path).read_bytes())
    size = int.from_bytes(content[12:16], "little")
    offset = json.loads(content[24 : 24 + size])["arrays"][0]["offset"]
    content[offset + 8 * 7] ^= 1  # where line 8 begins and line 7 ends
    beside(path).write_bytes(content)
    source = TextSource(path)
    assert source.read(np.array([5, 8])).tolist() == [LINES[5], LINES[8]]
    for record in (6, 7):
        with pytest.raises(DataError, match=rf"the index of .*a.txt does not fit the file at line {record + 1}"):
            source.read(np.array([record]))


@pytest.mark.parametrize("known", [True, False])
def test_a_sidecar_cut_while_in_use_is_an_error_and_no_crash(path: pathlib.Path, known: bool) -> None:
    TextSource(path)
    source = TextSource(path)
    if known:
        source.lengths()
    os.truncate(beside(path), 0)
    with pytest.raises(DataChangedError, match=r"a.txt.hrindex changed while it was in use"):
        source.read(np.array([0]))
    with pytest.raises(DataChangedError, match=r"a.txt.hrindex changed while it was in use"):
        source.lengths()
    check(TextSource(path))


def test_a_sidecar_replaced_or_deleted_while_in_use_changes_nothing(path: pathlib.Path) -> None:
    TextSource(path)
    source = TextSource(path)
    TextSource(path, index="rebuild")
    check(source)
    beside(path).unlink()
    check(source)


def test_a_full_disk_keeps_the_old_sidecar_and_works_in_memory(path: pathlib.Path) -> None:
    TextSource(path)
    old = beside(path).read_bytes()
    code = (
        "import logging, resource, sys, numpy as np\n"
        "from headrace.formats.text import TextSource\n"
        "logging.basicConfig(format='%(message)s')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "source = TextSource(sys.argv[1], index='rebuild')\n"
        "print(source.read(np.array([499])).tolist())\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['line number 499']"
    assert out.stderr.count("can't keep the index in") == 1
    assert "File too large" in out.stderr
    assert "pass index='memory'" in out.stderr
    assert beside(path).read_bytes() == old
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.txt", "a.txt.hrindex"]


def test_a_folder_that_cannot_be_written_gives_one_warning(
    path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def read_only(name: str, flags: int, *rest: int) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", name)
        return opened(name, flags, *rest)

    monkeypatch.setattr(os, "open", read_only)  # a folder without write permission does not stop root
    with caplog.at_level(logging.WARNING, "headrace"):
        check(TextSource(path))
    assert [record.getMessage() for record in caplog.records] == [
        f"can't keep the index in {beside(path)} (Permission denied): working with it in memory; make the folder "
        "writable or free some room to save indexing next time, or pass index='memory'"
    ]
    assert not beside(path).exists()


def test_writers_at_the_same_time_leave_one_whole_sidecar(path: pathlib.Path) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                check(TextSource(path, index="rebuild"))
                check(TextSource(path))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.txt", "a.txt.hrindex"]


def test_opening_by_a_sidecar_reads_no_line(tmp_path: pathlib.Path) -> None:
    """A file that is larger than what opening may look at is opened by its sidecar without being read whole."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 63 + b"\n")
    TextSource(path)
    os.truncate(path, 1 << 40)  # a hole of 1 TB: reading it would take minutes
    about = {
        "format": "text lines",
        "size": 1 << 40,
        "mtime_ns": path.stat().st_mtime_ns,
        "sample": f"{_native.FileBytes.open(str(path)).sample():016x}",
        "separators": None,
    }
    arrays: dict[str, NDArray[Any]] = {
        "starts": np.array([0, 64, (1 << 40) + 1], np.uint64),
        "tokens": np.array([1, 1], np.uint32),
    }
    assert sidecar.store(str(beside(path)), about, arrays)
    source = TextSource(path)
    assert source.num_records == 2
    assert source.read(np.array([0])).tolist() == ["x" * 63]


def test_a_pipe_in_the_place_of_a_sidecar_is_left_alone(path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(beside(path))
    check(TextSource(path))
    assert beside(path).is_fifo()
    assert "found a pipe" in caplog.text


def test_a_header_of_endless_brackets_is_no_error(path: pathlib.Path) -> None:
    TextSource(path)
    header = np.full(200_000, ord("["), np.uint8)
    beside(path).write_bytes(
        struct.pack("<8sIIQ", sidecar.MAGIC, sidecar.VERSION, len(header), _native.hash64(header)) + header.tobytes()
    )
    check(TextSource(path))


def test_indexes_by_other_separators_do_not_overwrite_each_other(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a b\tc\n")
    first = [TextSource(path, separators=s).lengths()[""].tolist() for s in (None, " ", "\t")]
    files = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    again = [TextSource(path, separators=s).lengths()[""].tolist() for s in (None, " ", "\t")]
    assert first == again == [[3], [2], [2]]
    assert set(files) == {"a.txt", "a.txt.hrindex", "a.txt.by-20.hrindex", "a.txt.by-09.hrindex"}
    assert files == {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
