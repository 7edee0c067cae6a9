"""Finding and opening files: paths, lists, patterns, gzip, atomic writing."""

from __future__ import annotations

import gzip
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from headrace.errors import DataError
from headrace.formats import packed
from headrace.formats.atomic import write_atomic
from headrace.formats.files import find_files, open_bytes
from headrace.formats.text import TextSource


def test_a_path_may_be_str_or_pathlib(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n")
    assert find_files(path) == find_files(str(path)) == find_files([path]) == [str(path)]


def test_a_pattern_gives_its_files_in_sorted_order_without_folders_and_sidecars(tmp_path: pathlib.Path) -> None:
    for name in ("b.txt", "a.txt", "c.txt", "a.txt.hrindex"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder.txt").mkdir()
    found = find_files(tmp_path / "*.txt*")
    assert [pathlib.Path(p).name for p in found] == ["a.txt", "b.txt", "c.txt"]


def test_a_list_keeps_its_order_and_may_hold_patterns(tmp_path: pathlib.Path) -> None:
    for name in ("a1", "a2", "z"):
        (tmp_path / name).write_text("")
    found = find_files([tmp_path / "z", tmp_path / "a?", tmp_path / "a1"])
    assert [pathlib.Path(p).name for p in found] == ["z", "a1", "a2", "a1"]


def test_a_file_with_a_star_in_its_name_is_itself(tmp_path: pathlib.Path) -> None:
    for name in ("a*", "ab"):
        (tmp_path / name).write_text("")
    assert find_files(tmp_path / "a*") == [str(tmp_path / "a*")]


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a file, found nothing; check the path: '.*none.txt'"):
        find_files([tmp_path / "none.txt"])


def test_a_directory_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(IsADirectoryError, match="expected a file, found a directory; name a file in it"):
        find_files(tmp_path)


def test_a_pattern_without_files_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the pattern matches nothing; .*: '.*\*\.txt'"):
        find_files(tmp_path / "*.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(FileNotFoundError, match="the pattern matches only folders"):
        find_files(tmp_path / "*.txt")


def test_an_empty_list_and_other_types_are_refused() -> None:
    with pytest.raises(DataError, match="expected at least one file, got an empty list"):
        find_files([])
    with pytest.raises(TypeError, match=r"paths are str or pathlib\.Path"):
        find_files(b"train.en")  # type: ignore[arg-type]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="expected a regular file, found a pipe or device"):
        find_files(tmp_path / "pipe")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("given", ["caf\udce9.txt", "*.txt"])
def test_a_name_that_is_not_utf_8_is_refused(tmp_path: pathlib.Path, given: str) -> None:
    (tmp_path / "caf\udce9.txt").write_text("a\n")
    with pytest.raises(DataError, match=r"caf\\udce9\.txt.*expected a path in UTF-8"):
        find_files(str(tmp_path / given))


@pytest.mark.parametrize("limit", [packed.IN_MEMORY, 100])
def test_gzip_is_unpacked_into_memory_or_a_temporary_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(packed, "IN_MEMORY", limit)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    content = b"".join(b"line %d\n" % i for i in range(1000))
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(content[:3000]) + gzip.compress(content[3000:]))  # two members, as gzip allows
    opened = open_bytes(str(path))
    assert opened.array().tobytes() == content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.gz"]
    source = TextSource(path)
    assert source.read(np.array([999, 0])).tolist() == ["line 999", "line 0"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.gz"]  # no sidecar for gzip


def test_gzip_that_is_cut_short_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(os.urandom(5000))[:-100])
    with pytest.raises(DataError, match=r"a.gz ends in the middle of its gzip data.* download it again"):
        open_bytes(str(path))


def test_gzip_that_is_damaged_or_no_gzip_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.gz"
    content = bytearray(gzip.compress(b"hello world" * 100))
    content[-5] ^= 1  # the checksum
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a.gz is not valid gzip \(CRC check failed"):
        open_bytes(str(path))
    path.write_bytes(b"plain text\n")
    with pytest.raises(DataError, match="rename it if it was never packed"):
        open_bytes(str(path))
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"a.gz is empty, expected gzip data"):
        open_bytes(str(path))


def test_zstandard_is_unpacked_frame_by_frame(tmp_path: pathlib.Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    content = b"".join(b"line %d\n" % i for i in range(9000))
    path = tmp_path / "a.zst"
    frames = [zstandard.compress(content[:30]), zstandard.compress(content[30:])]
    path.write_bytes(b"".join(frames))
    assert open_bytes(str(path)).array().tobytes() == content
    assert TextSource(path).read(np.array([8999])).tolist() == ["line 8999"]
    assert [p.name for p in tmp_path.iterdir()] == ["a.zst"]
    for cut in (1, len(frames[0]) - 1, len(frames[0]) + 3, len(frames[0] + frames[1]) - 1):
        path.write_bytes(b"".join(frames)[:cut])
        with pytest.raises(DataError, match=r"a.zst (ends in the middle of its|is not valid) Zstandard data"):
            open_bytes(str(path))
    path.write_bytes(b"|x 1 2 3\n")
    with pytest.raises(DataError, match=r"a.zst is not valid Zstandard data .* rename it if it was never packed"):
        open_bytes(str(path))
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty, expected Zstandard data"):
        open_bytes(str(path))


def test_zstandard_without_its_package_says_what_to_install(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.zst").write_bytes(b"x")
    with pytest.raises(ImportError, match=r"pip install headrace\[zstd\]"):
        open_bytes(str(tmp_path / "a.zst"))


def test_unpacking_without_room_says_where(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    code = (
        "import resource, sys\n"
        "from headrace.formats import files, packed\n"
        "packed.IN_MEMORY = 1000\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n    files.open_bytes(sys.argv[1])\n"
        "except OSError as error:\n    print(error.__notes__[0])\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "set TMPDIR to a folder with more room" in out.stdout


def test_too_many_open_files_says_what_to_do(tmp_path: pathlib.Path) -> None:
    for i in range(60):
        (tmp_path / f"{i}.txt").write_text("x\n")
    code = (
        "import resource, sys, headrace as hr\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "try:\n    hr.read_text(sys.argv[1] + '/*.txt', index='memory')\n"
        "except OSError as error:\n    print(error.__notes__[0])\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "raise the limit with `ulimit -n`" in out.stdout


def test_atomic_writing_replaces_the_target_of_a_link_and_keeps_the_umask(tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, [b"ne", np.frombuffer(b"w", np.uint8)])
    assert link.is_symlink()
    assert target.read_text() == "new"
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask


def test_atomic_writing_leaves_the_old_file_when_it_fails(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def interrupted() -> object:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, interrupted())  # type: ignore[arg-type]

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, [b"new"])
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
