from __future__ import annotations

import io
import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import tf1 as tf

slim = tf.slim
decoders = slim.tfexample_decoder


def decode(features: dict[str, Any], items: dict[str, Any], **values: Any) -> dict[str, Any]:
    decoder = decoders.TFExampleDecoder(features, items)
    out = dict(zip(decoder.list_items(), decoder.decode(tf.constant(hr.encode_example(values))), strict=True))
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        found: dict[str, Any] = sess.run(out)
        return found


def picture(kind: str, mode: str = "RGB", size: tuple[int, int] = (4, 3)) -> tuple[bytes, Any]:
    image = pytest.importorskip("PIL.Image")
    channels = len(mode)
    pixels = np.arange(size[0] * size[1] * channels, dtype=np.uint8).reshape(size[1], size[0], channels)
    made = image.fromarray(pixels if channels > 1 else pixels[..., 0], mode=None)
    out = io.BytesIO()
    made.save(out, kind)
    return out.getvalue(), pixels


IMAGE = {
    "image/encoded": tf.FixedLenFeature((), tf.string, default_value=""),
    "image/format": tf.FixedLenFeature((), tf.string, default_value="jpeg"),
}


def test_tensors() -> None:
    features = {"a": tf.VarLenFeature(tf.int64), "s": tf.FixedLenFeature([2], tf.int64)}
    items = {
        "plain": decoders.Tensor("a"),
        "shaped": decoders.Tensor("a", shape=[-1, 2]),
        "told": decoders.Tensor("a", shape_keys="s"),
        "sum": decoders.ItemHandlerCallback(["s"], lambda t: t["s"] * 10),
    }
    found = decode(features, items, a=[1, 2, 3, 4], s=[2, 2])
    assert found["plain"].tolist() == [1, 2, 3, 4]
    assert found["shaped"].tolist() == found["told"].tolist() == [[1, 2], [3, 4]]
    assert found["sum"].tolist() == [20, 20]
    with pytest.raises(ValueError, match="both shape_keys and shape"):
        decoders.Tensor("a", "s", [2])


def test_unknown_items_and_keys() -> None:
    decoder = decoders.TFExampleDecoder({"a": tf.VarLenFeature(tf.int64)}, {"x": decoders.Tensor("b")})
    with pytest.raises(KeyError):
        decoder.decode(tf.constant(b""), ["nope"])
    with pytest.raises(KeyError):
        decoder.decode(tf.constant(b""))


def test_boxes() -> None:
    keys = ["ymin", "xmin", "ymax", "xmax"]
    features = {f"b/{key}": tf.VarLenFeature(tf.float32) for key in keys}
    items = {"box": decoders.BoundingBox(prefix="b/")}
    values = {f"b/{key}": [float(i), i + 10.0] for i, key in enumerate(keys)}
    assert decode(features, items, **values)["box"].tolist() == [[0, 1, 2, 3], [10, 11, 12, 13]]
    assert decode(features, items)["box"].shape == (0, 4)
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(features, items, **{**values, "b/ymin": [1.0]})
    with pytest.raises(ValueError, match="expects 4 keys but got 3"):
        decoders.BoundingBox(keys[:3])


def test_sequences_of_boxes_and_points() -> None:
    keys = ["ymin", "xmin", "ymax", "xmax"]
    text = hr.encode_sequence_example({}, {key: [[1.0], [2.0, 3.0]] for key in keys})
    features = {key: tf.VarLenFeature(tf.float32) for key in keys}
    items = {
        "boxes": decoders.BoundingBoxSequence(),
        "points": decoders.KeypointsSequence(["ymin", "xmin"]),
        "n": decoders.NumBoxesSequence(),
    }
    out = decoders.TFSequenceExampleDecoder({}, features, items).decode(tf.constant(text))
    with tf.Session() as sess:
        boxes, points, count = sess.run(out)
    assert boxes.tolist() == [[[1] * 4, [-1] * 4], [[2] * 4, [3] * 4]]
    assert points.shape == (2, 2, 2)
    assert count.tolist() == [1, 2]


def test_backups_run_only_when_needed() -> None:
    features = {"a": tf.VarLenFeature(tf.int64), "b": tf.VarLenFeature(tf.int64)}
    items = {"x": decoders.BackupHandler(decoders.Tensor("a"), decoders.Tensor("b", shape=[2]))}
    assert decode(features, items, a=[1], b=[1, 2, 3])["x"].tolist() == [1]
    assert decode(features, items, b=[5, 6])["x"].tolist() == [5, 6]


def test_sparse_tensors_and_tables() -> None:
    features = {"indices": tf.VarLenFeature(tf.int64), "values": tf.VarLenFeature(tf.float32)}
    items = {
        "thin": decoders.SparseTensor(shape=[5]),
        "full": decoders.SparseTensor(shape=[5], densify=True, default_value=-1.0),
    }
    found = decode(features, items, indices=[0, 3], values=[5.0, 6.0])
    assert found["thin"].indices.tolist() == [[0], [3]]
    assert found["full"].tolist() == [5, -1, -1, 6, -1]
    table = tf.contrib.lookup.index_table_from_tensor(["dog", "cat"])
    words = {"w": tf.VarLenFeature(tf.string)}
    assert decode(words, {"x": decoders.LookupTensor("w", table)}, w=["cat", "emu"])["x"].tolist() == [1, -1]


@pytest.mark.parametrize("kind", ["png", "bmp"])
def test_pictures_without_loss(kind: str) -> None:
    data, pixels = picture(kind)
    found = decode(IMAGE, {"i": decoders.Image()}, **{"image/encoded": data, "image/format": kind})["i"]
    assert found.dtype == np.uint8
    assert np.array_equal(found, pixels)


def test_channels() -> None:
    for mode, channels, expected in [
        ("L", 3, (3, 4, 3)),
        ("RGBA", 3, (3, 4, 3)),
        ("RGB", 4, (3, 4, 4)),
        ("RGB", 1, (3, 4, 1)),
    ]:
        data, pixels = picture("png", mode)
        found = decode(IMAGE, {"i": decoders.Image(channels=channels)}, **{"image/encoded": data})["i"]
        assert found.shape == expected
        if mode != "RGB":
            assert np.array_equal(found, np.broadcast_to(pixels[..., :3], expected))


def test_jpeg_is_near() -> None:
    data, pixels = picture("jpeg", size=(32, 32))
    found = decode(IMAGE, {"i": decoders.Image(dtype=tf.float32)}, **{"image/encoded": data})["i"]
    assert found.dtype == np.float32
    assert found.shape == pixels.shape
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid JPEG data"):
        decode(IMAGE, {"i": decoders.Image()}, **{"image/encoded": data[: len(data) // 2]})


def test_raw_pictures_and_bytes_that_are_none() -> None:
    raw = {"image/encoded": bytes(range(12)), "image/format": "raw"}
    assert decode(IMAGE, {"i": decoders.Image(shape=[2, 2, 3])}, **raw)["i"][1, 1].tolist() == [9, 10, 11]
    with pytest.raises(tf.errors.InvalidArgumentError, match="requested shape"):
        decode(IMAGE, {"i": decoders.Image(shape=[2, 2, 2])}, **raw)
    for name in ("Raw", "png"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unknown image file format"):
            decode(IMAGE, {"i": decoders.Image()}, **{**raw, "image/format": name})


def test_resizing() -> None:
    pixels = np.arange(16, dtype=np.float32).reshape(4, 4, 1)
    with tf.Session() as sess:
        found = sess.run(tf.image.resize_images(pixels, [2, 2]))
        assert found[..., 0].tolist() == [[0, 2], [8, 10]]
        grown = sess.run(tf.image.resize_images(pixels[:2, :2], [4, 4], align_corners=True))
        assert grown[0, -1, 0] == 1
        assert grown[-1, -1, 0] == 5
        assert sess.run(tf.image.resize_image_with_crop_or_pad(pixels, 2, 6)).shape == (2, 6, 1)


def write_parts(folder: pathlib.Path, parts: int = 3, rows: int = 5, pictures: bool = False) -> None:
    for part in range(parts):
        with tf.python_io.TFRecordWriter(str(folder / f"part-{part}")) as writer:
            for row in range(rows):
                values: dict[str, Any] = {"image/class/label": part * rows + row}
                if pictures:
                    values |= {"image/encoded": picture("png")[0], "image/format": "png"}
                writer.write(hr.encode_example(values))


def dataset(folder: pathlib.Path, pictures: bool = False) -> Any:
    features = {"image/class/label": tf.FixedLenFeature([], tf.int64, default_value=tf.zeros([], dtype=tf.int64))}
    items: dict[str, Any] = {"label": decoders.Tensor("image/class/label")}
    if pictures:
        features |= IMAGE
        items["image"] = decoders.Image()
    decoder = decoders.TFExampleDecoder(features, items)
    return slim.dataset.Dataset(
        data_sources=str(folder / "part-*"),
        reader=tf.TFRecordReader,
        decoder=decoder,
        num_samples=15,
        items_to_descriptions={"label": "which"},
        num_classes=20,
    )


def test_a_provider_gives_each_record_once(tmp_path: pathlib.Path) -> None:
    write_parts(tmp_path)
    provider = slim.dataset_data_provider.DatasetDataProvider(
        dataset(tmp_path), num_readers=3, num_epochs=2, common_queue_capacity=8, common_queue_min=2
    )
    assert sorted(provider.list_items()) == ["label", "record_key"]
    assert provider.num_samples() == 15
    label = provider.get(["label"])[0]
    found = []
    with tf.Session() as sess, slim.queues.QueueRunners(sess), pytest.raises(tf.errors.OutOfRangeError):
        while True:
            found.append(int(sess.run(label)))
    assert sorted(found) == sorted(list(range(15)) * 2)
    with pytest.raises(ValueError, match="not among those"):
        provider.get(["nope"])
    with pytest.raises(ValueError, match="No data files found in"):
        slim.parallel_reader.parallel_read(str(tmp_path / "zzz*"), tf.TFRecordReader)


def test_single_pass(tmp_path: pathlib.Path) -> None:
    write_parts(tmp_path, 2, 2)
    key = slim.parallel_reader.single_pass_read(str(tmp_path / "part-*"), tf.TFRecordReader)[0]
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        keys = [sess.run(key).decode().removeprefix(str(tmp_path)) for _ in range(4)]
    assert [k.partition(":")[0] for k in keys] == ["/part-0", "/part-0", "/part-1", "/part-1"]


def test_the_slim_program(tmp_path: pathlib.Path) -> None:
    """As it stands in articles on slim's data package, with its import line changed."""
    write_parts(tmp_path, pictures=True)
    provider = slim.dataset_data_provider.DatasetDataProvider(
        dataset(tmp_path, pictures=True), num_readers=5, common_queue_capacity=10, common_queue_min=1
    )
    [image, label] = provider.get(["image", "label"])
    image = tf.image.resize_images(image, [6, 8])
    images, labels = tf.train.batch([image, label], batch_size=4, num_threads=4, capacity=5 * 4)
    labels = slim.one_hot_encoding(labels, 20)
    batch_queue = slim.prefetch_queue.prefetch_queue([images, labels], capacity=2)
    images, labels = batch_queue.dequeue()
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        for _ in range(20):
            pixels, hot = sess.run([images, labels])
            assert pixels.shape == (4, 6, 8, 3)
            assert hot.shape == (4, 20)
            assert hot.sum() == 4
        coord.request_stop()
        coord.join(threads)


def test_pictures_of_a_graph() -> None:
    """The parameters of TensorFlow's decoders, in its order."""
    png, pixels = picture("PNG")
    jpeg, _ = picture("JPEG", size=(17, 9))
    frames = [pytest.importorskip("PIL.Image").new("RGB", (4, 3), colour) for colour in ("red", "lime")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    with tf.Session() as sess:
        assert (sess.run(tf.image.decode_png(png, 0, tf.uint8, "name")) == pixels).all()
        assert (sess.run(tf.image.decode_image(png, None)) == pixels).all()
        assert sess.run(tf.image.decode_image(png, dtype=tf.float32)).max() <= 1
        assert sess.run(tf.image.decode_jpeg(jpeg, 3)).shape == (9, 17, 3)
        assert sess.run(tf.image.decode_jpeg(jpeg, 1, 4)).shape == (3, 5, 1)
        assert sess.run(tf.image.decode_jpeg(jpeg, ratio=8, dct_method="INTEGER_FAST")).shape == (2, 3, 3)
        assert sess.run(tf.image.decode_gif(out.getvalue())).shape == (2, 3, 4, 3)
        assert sess.run(tf.image.decode_image(out.getvalue())).shape == (2, 3, 4, 3)
        assert sess.run(tf.image.decode_image(out.getvalue(), expand_animations=False)).shape == (3, 4, 3)
        for data in (png[:40], b"text", out.getvalue()):
            with pytest.raises(tf.errors.InvalidArgumentError):
                sess.run(tf.image.decode_png(data))
    for arguments in ({"ratio": 3}, {"try_recover_truncated": True}):
        with pytest.raises(ValueError, match=r"ratio is 1, 2, 4 or 8, got 3|aren't recovered here"):
            tf.image.decode_jpeg(jpeg, **arguments)
    with pytest.raises(TypeError):
        tf.image.decode_png(png, ratio=2)  # type: ignore[call-arg]
