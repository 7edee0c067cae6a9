"""Pictures of every kind to pixels."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import headrace as hr

Image = pytest.importorskip("PIL.Image")
KINDS = ["JPEG", "PNG", "GIF", "BMP"]


def encode(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.asarray(pixels, np.uint8))
    picture.save(file, kind, **options)
    return file.getvalue()


def smooth(height: int = 24, width: int = 32) -> Any:
    """Colours that change slowly, so that JPEG hardly changes them."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], 2).astype(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_that_were_stored(kind: str) -> None:
    pixels = np.zeros((5, 7, 3), np.uint8)
    pixels[..., 1] = 200
    found = hr.decode_image(encode(pixels, kind))
    assert found.shape == (5, 7, 3)
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - pixels).max() <= (2 if kind == "JPEG" else 0)


def test_channels() -> None:
    colours = smooth(4, 4)
    clear = np.dstack([colours, np.full((4, 4), 7, np.uint8)])
    grey = colours[..., 0]
    assert (hr.decode_image(encode(clear)) == colours).all()  # alpha is dropped, not blended
    assert (hr.decode_image(encode(clear), channels=4) == clear).all()
    assert (hr.decode_image(encode(clear), channels=0) == clear).all()
    assert (hr.decode_image(encode(colours), channels=4)[..., 3] == 255).all()
    assert (hr.decode_image(encode(grey), channels=0) == grey[..., None]).all()
    assert (hr.decode_image(encode(grey)) == np.dstack([grey] * 3)).all()
    weighed = colours @ np.array([0.2989, 0.5870, 0.1140])
    for kind, channels in (("PNG", 1), ("PNG", 2), ("BMP", 1)):
        found = hr.decode_image(encode(colours, kind), channels=channels)
        assert found.shape == (4, 4, channels)
        assert np.abs(found[..., 0] - weighed).max() <= 1
    assert np.abs(hr.decode_image(encode(smooth(), "JPEG", quality=95), channels=1)[..., 0] -
                  smooth() @ np.array([0.2989, 0.5870, 0.1140])).max() < 12  # fmt: skip


def test_unusual_modes() -> None:
    colours = smooth(8, 8)
    palette = Image.fromarray(colours).quantize(16)
    assert (hr.decode_image(encode(palette)) == np.asarray(palette.convert("RGB"))).all()
    clear = encode(palette, transparency=0)
    assert hr.decode_image(clear, channels=0).shape == (8, 8, 4)
    assert hr.decode_image(clear).shape == (8, 8, 3)
    deep = Image.fromarray(np.arange(16, dtype=np.uint16).reshape(4, 4) * 4096 + 255)
    assert hr.decode_image(encode(deep), channels=1)[..., 0].tolist() == (np.arange(16).reshape(4, 4) * 16).tolist()
    bits = Image.fromarray(np.eye(4, dtype=bool))
    assert hr.decode_image(encode(bits), channels=1)[..., 0].tolist() == (np.eye(4) * 255).tolist()
    inks = Image.fromarray(colours).convert("CMYK")
    found = hr.decode_image(encode(inks, "JPEG", quality=100, subsampling=0))
    assert np.abs(found.astype(int) - colours).max() < 12
    assert hr.decode_image(encode(inks, "JPEG"), channels=1).shape == (8, 8, 1)


def test_orientation_is_not_applied_as_tensorflow_does_not() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    assert hr.decode_image(encode(smooth(8, 16), "JPEG", exif=exif)).shape == (8, 16, 3)


def test_of_an_animation_the_first_frame() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ((255, 0, 0), (0, 255, 0))]
    data = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (hr.decode_image(data) == [255, 0, 0]).all()
    from headrace.formats.images import decode_frames

    assert decode_frames(data)[:, 0, 0].tolist() == [[255, 0, 0], [0, 255, 0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [5, (3, 11), (24, 32), (60, 40)])
def test_sizes(kind: str, fit: Any, size: Any) -> None:
    expected = size if isinstance(size, tuple) else (size, size)
    found = hr.decode_image(encode(smooth(), kind), size=size, fit=fit)
    assert found.shape == (*expected, 3)
    for ratio in ("auto", 2, 8):
        assert hr.decode_image(encode(smooth(), kind), size=size, fit=fit, ratio=ratio).shape == found.shape


def test_crop_takes_the_middle_and_pad_keeps_all() -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert (hr.decode_image(encode(wide), size=10, fit="crop") == 255).all()
    padded = hr.decode_image(encode(np.full((10, 30, 3), 255)), size=30, fit="pad")
    assert (padded[10:20] == 255).all()
    assert not padded[:10].any()
    assert not padded[20:].any()
    assert hr.decode_image(encode(wide), size=10)[0, :, 0].tolist() != [255] * 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ratio", [2, 4, 8])
@pytest.mark.parametrize("height", [1, 3, 8, 15, 16, 40])
def test_smaller_by_a_ratio(kind: str, ratio: Any, height: int) -> None:
    found = hr.decode_image(encode(np.full((height, 50, 3), 90), kind), ratio=ratio)
    assert found.shape == (-(-height // ratio), -(-50 // ratio), 3)
    assert np.abs(found.astype(int) - 90).max() <= 2


def test_auto_decodes_no_smaller_than_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import JpegImagePlugin

    drafts = []
    original = JpegImagePlugin.JpegImageFile.draft

    def draft(self: Any, mode: Any, size: Any) -> Any:
        result = original(self, mode, size)
        drafts.append(self.size)
        return result

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "draft", draft)
    data = encode(smooth(240, 320), "JPEG")
    for size, decoded in ((60, (80, 60)), (61, (160, 120)), (30, (40, 30)), (500, (320, 240))):
        hr.decode_image(data, size=size, ratio="auto")
        assert drafts.pop() == decoded


def test_floats_are_from_0_to_1() -> None:
    found = hr.decode_image(encode([[0, 51, 255]]), channels=1, dtype="float32")
    assert found.dtype == np.float32
    assert found[0, :, 0].tolist() == [0, np.float32(0.2), 1]


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_interpolations_are_pillows(interpolation: Any, channels: int) -> None:
    rng = np.random.default_rng(channels)
    for height, width in ((24, 32), (1, 1), (3, 50), (64, 7), (65, 129)):
        pixels = rng.integers(0, 256, (height, width, channels), np.uint8)
        for size in ((5, 9), (1, 1), (31, 33), (100, 3), (224, 224)):
            picture = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
            how = Image.Resampling[interpolation.upper()]
            if channels < 4 and interpolation in ("bilinear", "bicubic"):  # across first, as Pillow mostly does
                picture = picture.resize((size[1], height), how)
            expected = picture.resize(size[::-1], how)
            options: Any = {"size": size, "interpolation": interpolation, "channels": channels}
            found = hr.decode_image(encode(pixels[..., 0] if channels == 1 else pixels), **options)
            assert (found == np.asarray(expected).reshape(found.shape)).all()


def test_a_crop_is_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.formats import images

    rng = np.random.default_rng(5)
    for height, width in ((24, 37), (301, 200), (50, 50), (9, 1000)):
        data = encode(rng.integers(0, 256, (height, width, 3), np.uint8))
        for size in ((8, 8), (7, 30), (224, 160)):
            found = hr.decode_image(data, size=size, fit="crop")
            with monkeypatch.context() as patched:
                patched.setattr(images, "_LONGEST_SIDE", 0)  # so that Pillow does it
                expected = hr.decode_image(data, size=size, fit="crop")
            assert np.abs(found.astype(int) - expected).max() <= 1


def test_what_the_core_can_not_resize_is_refused() -> None:
    from headrace import _native

    picture, out = np.zeros((4, 6, 3), np.uint8), np.zeros((2, 2, 3), np.uint8)
    for left, top, right in ((0, 0, 7), (-1, 0, 6), (3, 0, 3), (0, float("nan"), 6)):
        with pytest.raises(ValueError, match="the box lies within the picture"):
            _native.resize_picture(picture, out, left, top, right, 4, False)
    for wrong in (np.zeros((2, 2, 1), np.uint8), np.zeros((0, 2, 3), np.uint8)):
        with pytest.raises(ValueError, match="pictures have sides of 1 to 65536 and equally many channels"):
            _native.resize_picture(picture, wrong, 0, 0, 6, 4, False)


def test_pixels_can_be_written_to() -> None:
    several: list[Any] = [{}, {"size": 8}, {"size": 8, "fit": "pad"}, {"channels": 1}]
    for options in several:
        hr.decode_image(encode(smooth()), **options)[0, 0] = 1


@pytest.mark.parametrize("kind", KINDS)
def test_cut_and_spoilt_pictures_are_errors_or_pixels(kind: str) -> None:
    """Never another kind of error, nor a picture of another number of channels."""
    data = encode(smooth(16, 16), kind)
    with pytest.raises(hr.DataError, match=f"decode_image: expected a whole {kind} picture, got .* bytes that are"):
        hr.decode_image(data[: len(data) * 2 // 3])
    for place in range(0, len(data), 3):
        for spoilt in (data[:place], data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]):
            try:
                found = hr.decode_image(spoilt)
            except hr.DataError:
                continue
            assert found.ndim == 3
            assert found.shape[2] == 3


def test_what_is_no_picture() -> None:
    with pytest.raises(hr.DataError, match="expected a JPEG, PNG, GIF or BMP picture, got no bytes"):
        hr.decode_image(b"")
    with pytest.raises(hr.DataError, match=r"got 11 bytes that begin b'not a pi'"):
        hr.decode_image(b"not a pictu")
    with pytest.raises(hr.DataError, match="expected the bytes of a picture, got str"):
        hr.decode_image("a.jpg")  # type: ignore[arg-type]


def test_few_bytes_that_claim_many_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(np.zeros((100, 200)))
    claims = bytearray(data)
    claims[16:24] = (60_000).to_bytes(4, "big") * 2
    import zlib

    claims[29:33] = zlib.crc32(claims[12:29]).to_bytes(4, "big")
    with pytest.raises(hr.DataError, match=r"at most 89,478,485 pixels, got 60000 × 60000; .*MAX_IMAGE_PIXELS"):
        hr.decode_image(bytes(claims))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 19_999)
    for kind in KINDS:
        with pytest.raises(hr.DataError, match="at most 19,999 pixels, got 100 × 200"):
            hr.decode_image(encode(np.zeros((100, 200)), kind))
    assert hr.decode_image(encode(np.zeros((100, 200)), "JPEG"), ratio=2).shape == (50, 100, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"channels": 5}, "channels is at most 4, got 5"),
        ({"channels": "RGB"}, "channels is an integer, got 'RGB'"),
        ({"size": 0}, "size is at least 1, got 0"),
        ({"size": (1, 2, 3)}, r"size is one number or height and width, got \(1, 2, 3\)"),
        ({"size": "224"}, "size is an integer, got '224'"),
        ({"fit": "cover", "size": 2}, "fit is one of 'stretch', 'crop', 'pad', got 'cover'"),
        ({"fit": "crop"}, "fit needs the size"),
        ({"ratio": "auto"}, "ratio needs the size"),
        ({"ratio": 3}, "ratio is 1, 2, 4, 8 or 'auto', got 3"),
        ({"interpolation": "best"}, "interpolation is one of 'nearest', .*, 'lanczos', got 'best'"),
        ({"dtype": "uint16"}, "dtype is one of 'uint8', 'float32', got 'uint16'"),
        ({"dtype": "pixels"}, "dtype is one of 'uint8', 'float32', got 'pixels'"),
    ],
)
def test_arguments(arguments: Any, message: str) -> None:
    with pytest.raises(hr.PlanError, match=f"decode_image: {message}"):
        hr.decode_image(b"", **arguments)
    with pytest.raises(hr.PlanError, match=f"decode_image: {message}"):
        hr.from_dataset([b""]).decode_image(**arguments)
