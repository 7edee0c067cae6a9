"""Files that are written whole or not at all."""

import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace.nmt.text.files import find_side, locked, make_folder, naming, read_lines, replacing, write_lines


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there/words")
    write_lines(tmp_path / "link", ["a"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there/words").read_text() == "a\n"
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["words"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE) as reader:
        write_lines(tmp_path / "pipe", ["a", "b"])
        assert reader.communicate(timeout=60)[0] == b"a\nb\n"
    assert (tmp_path / "pipe").is_fifo()


def test_standard_output_is_written_to(tmp_path: Path) -> None:
    program = "import pathlib, headrace.nmt.text.files as f; f.write_lines(pathlib.Path('/dev/stdout'), ['a'])"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True, timeout=120)
    assert (tmp_path / "out").read_bytes() == b"a\n"
    assert os.path.islink("/dev/stdout")


def test_gzip_by_its_name(tmp_path: Path) -> None:
    write_lines(tmp_path / "words.gz", ["ä", "b"])
    assert gzip.decompress((tmp_path / "words.gz").read_bytes()).decode() == "ä\nb\n"
    assert read_lines(tmp_path / "words.gz") == ["ä", "b"]


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    with pytest.raises(IsADirectoryError, match="expected a file to write, found a folder"):
        write_lines(tmp_path / "words", ["a"])
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(NotADirectoryError, match="expected a folder, found a file in its place"):
            make_folder(path)


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="cannot be written: No space") as caught, naming(tmp_path / "words"):
        raise full
    assert caught.value.filename == str(tmp_path / "words")


def test_other_errors_come_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("before")
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "words"):
        (tmp_path / "nowhere").read_text()
    assert caught.value.filename == str(tmp_path / "nowhere")
    assert [path.name for path in tmp_path.iterdir()] == ["words"]
    assert (tmp_path / "words").read_text() == "before"


def test_a_folder_is_one_programs(tmp_path: Path) -> None:
    busy = pytest.raises(BlockingIOError, match="another training is at work in this folder")
    with locked(tmp_path), busy, locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize(
    ("encoding", "message"),
    [("utf-8-sig", "begins with a byte order mark: .* remove its first 3 bytes"), ("utf-16", "seems to be UTF-16")],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_byte_order_marks_are_refused(tmp_path: Path, encoding: str, message: str, ending: str) -> None:
    path, content = tmp_path / f"train.de{ending}", "ä b\nc\n".encode(encoding)
    path.write_bytes(gzip.compress(content) if ending else content)
    with pytest.raises(hr.DataError, match=rf"train\.de{ending} {message}"):
        find_side(f"{tmp_path}/train", "de", "train_prefix")
    with pytest.raises(hr.DataError, match=rf"train\.de{ending} {message}"):
        find_side(f"{tmp_path}/tra*", "de", "train_prefix")
    with pytest.raises(hr.DataError, match=message):
        read_lines(path)


def test_damaged_files_are_left_to_their_reader(tmp_path: Path) -> None:
    (tmp_path / "train.de.gz").write_bytes(b"no gzip")
    assert find_side(f"{tmp_path}/train", "de", "train_prefix") == [f"{tmp_path}/train.de.gz"]
