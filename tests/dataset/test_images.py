"""Pictures in datasets, whole files, and folders of pictures."""

from __future__ import annotations

import builtins
import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr
from tests.formats.test_images import encode, smooth

pytest.importorskip("PIL")


def photos(count: int = 12) -> list[bytes]:
    return [encode(np.roll(smooth(16 + i, 20), i, 1), "JPEG") for i in range(count)]


def test_pictures_of_records_files_and_tables_come_out_alike(tmp_path: pathlib.Path) -> None:
    pictures = photos()
    expected = [hr.decode_image(one, size=8) for one in pictures]
    with hr.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for i, one in enumerate(pictures):
            writer.write(hr.encode_example({"image": one, "label": i}))
            (tmp_path / f"p{i}.jpg").write_bytes(one)
    examples = hr.read_tfrecord(tmp_path / "a.tfrecord").parse_example(
        {"image": hr.FixedLen((), "bytes"), "label": hr.FixedLen((), "int64")}
    )
    sources = {
        "image": [
            examples,
            hr.from_dataset([{"image": one, "label": i} for i, one in enumerate(pictures)]),
            hr.from_arrays({"image": hr.Bytes.from_rows(pictures), "label": np.arange(12)}),
            hr.zip(image=hr.from_dataset(pictures), label=hr.from_dataset(range(12))),
        ],
        "data": [hr.read_files(tmp_path / "*.jpg")],
        "1": [hr.zip(hr.from_dataset(range(12)), hr.from_dataset(pictures))],
        "": [hr.from_dataset(pictures), hr.from_arrays(hr.Bytes.from_rows(pictures))],
    }
    for column, datasets in sources.items():
        for data in datasets:
            data = data.decode_image(column, size=8)
            for workers in (0, 2):
                batches = list(hr.Loader(data.batch(5), workers=workers))
                assert [len(_column(batch, column)) for batch in batches] == [5, 5, 2]
                found = np.concatenate([_column(batch, column) for batch in batches])
                assert (found == np.stack(expected)).all()
            hr.assert_resumable(data.shuffle(seed=1).batch(5), workers=(0, 2))


def test_processes_decode_the_same(tmp_path: pathlib.Path) -> None:
    for i, one in enumerate(photos(6)):
        (tmp_path / f"p{i}.jpg").write_bytes(one)
    data = hr.read_files(tmp_path / "*.jpg").shuffle(seed=4).decode_image("data", size=8).batch(2)
    expected = [(batch["path"].tolist(), batch["data"].tolist()) for batch in hr.Loader(data)]
    with hr.Loader(data, workers=1, mode="processes") as loader:
        assert [(batch["path"].tolist(), batch["data"].tolist()) for batch in loader] == expected


def _column(batch: Any, name: str) -> Any:
    return batch if name == "" else batch[1] if name == "1" else batch[name]


def test_floats_and_a_map_and_a_filter_after_it() -> None:
    data = hr.from_dataset([{"image": one} for one in photos()]).decode_image("image", size=8, dtype="float32")
    batch = next(iter(hr.Loader(data.batch(3))))
    assert batch["image"].dtype == np.float32
    assert float(batch["image"].max()) <= 1
    bright = data.filter(lambda r: r["image"].mean() > 0.1).map(lambda r: r["image"] * 2).batch(4)
    assert next(iter(hr.Loader(bright, workers=2))).shape == (4, 8, 8, 3)


def test_pictures_of_several_sizes_make_no_batch_until_a_map_cuts_them() -> None:
    data = hr.from_arrays({"image": hr.Bytes.from_rows(photos())}).decode_image("image")
    assert data[3]["image"].shape == (19, 20, 3)
    with pytest.raises(
        hr.DataError,
        match=r"column 'image' of row 1 of the arrays: expected shape \(16, 20, 3\) as in row 0 of the arrays, got "
        r"shape \(17, 20, 3\); make the shapes equal \(those of pictures by decode_image\(size=…\)\)",
    ):
        list(hr.Loader(data.batch(4)))
    cut = data.map(lambda r: {"image": r["image"][:16]}).batch(4)
    assert [batch["image"].shape for batch in hr.Loader(cut)] == [(4, 16, 20, 3)] * 3
    same = hr.from_arrays(hr.Bytes.from_rows(photos(1) * 4)).decode_image(channels=0)
    assert next(iter(hr.Loader(same.batch(4)))).shape == (4, 16, 20, 3)


def test_a_rank_without_records_gets_the_shape() -> None:
    data = hr.from_dataset(photos(3)).decode_image(size=4).batch(3)
    assert [b.shape for b in hr.Loader(data, rank=4, world_size=5)] == [(0, 4, 4, 3)]


def test_errors_name_file_record_and_column(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.tfrecord"
    with hr.TFRecordWriter(path) as writer:
        for one in (photos(1)[0], photos(1)[0][:200], b"text"):
            writer.write(hr.encode_example({"image": one}))
    data = hr.read_tfrecord(path).parse_example({"image": hr.FixedLen((), "bytes")}).decode_image("image", size=8)
    with pytest.raises(
        hr.DataError, match=rf"decode_image: column 'image' of {path}, record 1: expected a whole JPEG "
    ):
        data[1]
    with pytest.raises(hr.DataError, match=rf"{path}, record 2: expected a JPEG, .* got 4 bytes that begin b'text'"):
        data[2]
    with pytest.raises(hr.DataError, match="record 1: expected a whole JPEG"):
        list(hr.Loader(data.batch(2), workers=2))
    for size in (8, None):
        for column in (hr.from_arrays(np.arange(3)), hr.from_dataset([1, 2])):
            with pytest.raises(hr.DataError, match=r"expected the bytes of a picture, got (ndarray|int 1); replace"):
                next(iter(hr.Loader(column.decode_image(size=size).batch(2))))
    with pytest.raises(hr.PlanError, match=r"decode_image names column 'picture'; the columns are \['image'\]"):
        len(hr.read_tfrecord(path).parse_example({"image": hr.FixedLen((), "bytes")}).decode_image("picture"))
    with pytest.raises(hr.DataError, match="record 0 of list has no column 'picture'; name the one"):
        hr.from_dataset([{"image": b""}]).decode_image("picture")[0]
    with pytest.raises(hr.PlanError, match="column is a text, got 3"):
        hr.from_dataset([b""]).decode_image(3)  # type: ignore[arg-type]


def test_a_description_says_what_differs_from_the_defaults() -> None:
    data = hr.from_dataset([b""])
    assert repr(data.decode_image()) == "dataset() → decode_image('')"
    assert repr(data.decode_image("", size=2, ratio=4)) == "dataset() → decode_image('', size=(2, 2), ratio=4)"


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return original(name, *rest)

    data = hr.from_dataset(photos(1)).decode_image()
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"decoding pictures needs Pillow: pip install 'headrace\[image\]'"):
        len(data)


def test_files_come_in_the_order_of_their_numbers(tmp_path: pathlib.Path) -> None:
    for name in ("f10.txt", "f9.txt", "f9b2.txt", "a.txt", "f09.txt"):
        (tmp_path / name).write_bytes(name.encode())
    data = hr.read_files(tmp_path / "*.txt")
    assert [r["data"] for r in data] == [b"a.txt", b"f09.txt", b"f9.txt", b"f9b2.txt", b"f10.txt"]
    assert data[0] == {"path": str(tmp_path / "a.txt"), "data": b"a.txt"}
    given = [tmp_path / "f9.txt", tmp_path / "a.txt"]
    assert [r["path"] for r in hr.read_files(given)] == [str(path) for path in given]
    hr.assert_resumable(data.shuffle(seed=3).batch(2), epochs=2, workers=(0, 2))
    with pytest.raises(FileNotFoundError, match="the pattern matches nothing"):
        hr.read_files(tmp_path / "*.jpg")


def test_files_that_go_or_change(tmp_path: pathlib.Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode())
    data = hr.read_files(str(tmp_path / "*"))
    loader = hr.Loader(data.batch(1))
    next(iter(loader))
    state = loader.state_dict()
    (tmp_path / "b").write_bytes(b"longer")
    with pytest.raises(hr.StateError):
        hr.Loader(hr.read_files(str(tmp_path / "*")).batch(1)).load_state_dict(state)
    (tmp_path / "c").unlink()
    with pytest.raises(FileNotFoundError):
        list(data)


def test_moved_files_are_the_same_data(tmp_path: pathlib.Path) -> None:
    prints = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_bytes(b"1")
        loader = hr.Loader(hr.read_files(str(tmp_path / folder / "*")).batch(1))
        prints.append(loader.state_dict()["data"])
    assert prints[0] == prints[1]


def test_folders_of_classes_are_read_as_torchvision_does(tmp_path: pathlib.Path) -> None:
    for name in ("dog/b.jpg", "dog/10.PNG", "dog/9.png", "cat/deep/a.jpeg", "cat/z.bmp", "Eel/1.gif", "cat/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "readme.jpg").write_bytes(b"")
    records = list(hr.read_image_folder(tmp_path))
    expected = ["Eel/1.gif", "cat/z.bmp", "cat/deep/a.jpeg", "dog/10.PNG", "dog/9.png", "dog/b.jpg"]
    assert [r["image"].decode() for r in records] == expected
    assert [int(r["label"]) for r in records] == [0, 1, 1, 2, 2, 2]
    chosen = hr.read_image_folder(tmp_path, classes=["dog", "Eel"])
    assert [(r["image"][:3], int(r["label"])) for r in chosen] == [(b"dog", 0)] * 3 + [(b"Eel", 1)]
    batch = next(iter(hr.Loader(chosen.batch(4))))
    assert batch["label"].tolist() == [0, 0, 0, 1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(hr.DataError, match=r"empty: expected pictures \(\.jpg, .*\), found none; leave it out of"):
        hr.read_image_folder(tmp_path)
    with pytest.raises(NotADirectoryError, match="expected the folder of a class"):
        hr.read_image_folder(tmp_path, classes=["cow"])
    with pytest.raises(hr.DataError, match="expected different names of folders"):
        hr.read_image_folder(tmp_path, classes=["dog", "dog"])
    with pytest.raises(hr.DataError, match="expected a folder for each class of pictures, found none"):
        hr.read_image_folder(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        hr.read_image_folder(tmp_path / "nowhere")
