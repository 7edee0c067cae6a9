"""`tf.gfile` by its names of TensorFlow 1 and 2."""

from __future__ import annotations

import pathlib

import pytest

from headrace import tf1 as tf


def test_files_and_folders(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a" / "b"
    tf.gfile.MakeDirs(folder)
    tf.gfile.MakeDirs(folder)
    with tf.gfile.Open(folder / "2.txt", "w") as file:
        file.write("grün")
    with tf.gfile.FastGFile(folder / "2.txt", "rb") as file:
        assert file.read() == "grün".encode()
    with tf.gfile.GFile(folder / "2.txt") as file:
        assert file.read() == "grün"
    tf.gfile.Copy(folder / "2.txt", folder / "1.txt")
    assert tf.gfile.ListDirectory(folder) == ["1.txt", "2.txt"]
    assert tf.gfile.Glob(str(folder / "*.txt")) == [str(folder / "1.txt"), str(folder / "2.txt")]
    assert tf.io.gfile.glob([folder / "1*", folder / "*"]) == tf.gfile.Glob(folder / "*")
    for move in (tf.gfile.Rename, tf.gfile.Copy):
        with pytest.raises(FileExistsError, match="overwrite=True"):
            move(folder / "1.txt", folder / "2.txt")
    tf.gfile.Rename(folder / "1.txt", folder / "2.txt", overwrite=True)
    assert not tf.gfile.Exists(folder / "1.txt")
    assert tf.gfile.IsDirectory(folder)
    assert [names for _, _, names in tf.gfile.Walk(tmp_path)] == [[], [], ["2.txt"]]
    tf.gfile.Remove(folder / "2.txt")
    tf.gfile.MkDir(folder / "c")
    tf.gfile.DeleteRecursively(tmp_path / "a")
    assert not tf.io.gfile.exists(tmp_path / "a")
