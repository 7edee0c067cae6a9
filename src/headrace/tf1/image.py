"""`tf.image`: pictures to arrays, by Pillow, and the simplest changes to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import DataError
from headrace.formats import images
from headrace.tf1 import errors
from headrace.tf1.dtypes import as_dtype, as_shape, float32, string, uint8
from headrace.tf1.graph import Tensor, add_op, convert
from headrace.tf1.ops import identity
from headrace.tf1.session import Run

__all__ = [
    "convert_image_dtype",
    "decode",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "flip_left_right",
    "per_image_standardization",
    "random_flip_left_right",
    "resize_bilinear",
    "resize_image_with_crop_or_pad",
    "resize_images",
    "resize_nearest_neighbor",
]


class ResizeMethod:
    """TensorFlow's numbers of ways to resize."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1


def decode(data: bytes, channels: int = 0, still: bool = False, ratio: Any = 1) -> Any:
    """The pixels of a picture: [height, width, channels]; of a GIF [frames, height, width, 3] unless `still`.

    Raises:
        InvalidArgumentError: If the bytes are no picture, or damaged, or can't have so many channels.
        UnimplementedError: Without Pillow.
    """
    try:
        kind = images.kind_of(data)
    except DataError as error:
        raise _invalid(f"Unknown image file format. One of JPEG, PNG, GIF, BMP required: {error}") from None
    if channels not in (0, 1, 2, 3, 4):
        raise _invalid(f"channels must be 0, 1, 3 or 4, got {channels}")
    if kind == "JPEG" and channels not in (0, 1, 3):
        raise _invalid(f"channels must be 0, 1, or 3 for JPEG, got {channels}")
    if kind == "GIF" and channels not in (0, 3):
        raise _invalid(f"channels must be 0 or 3 for GIF, got {channels}")
    try:
        if kind == "GIF":
            pixels = images.decode_frames(data)
        else:
            pixels = images.ImageDecoder(0 if kind == "BMP" else channels, ratio=ratio).decode(data)
    except DataError as error:
        raise _invalid(f"Invalid {kind} data, size {len(data)}: {error}") from error
    except ImportError as error:
        raise errors.UnimplementedError(None, None, str(error)) from error
    if kind == "BMP" and channels not in (0, pixels.shape[2]):
        raise _invalid(f"channels attribute {channels} does not match bits per pixel from file: {pixels.shape[2]}")
    if kind != "GIF" or not still:
        return pixels
    if len(pixels) != 1:
        raise _invalid(f"expected a still picture, got a GIF of {len(pixels)} frames")
    return pixels[0]


def _invalid(message: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, message)


def _decoded(
    kind: str, contents: Any, channels: int | None, still: bool, rank: int | None, name: str | None,
    dtype: Any = uint8, ratio: int = 1,
) -> Tensor:  # fmt: skip
    x, target, wanted = convert(contents, string), as_dtype(dtype), channels or 0
    dims = None if rank is None else [*[None] * (rank - 1), wanted or (3 if rank == 4 else None)]
    compute = lambda run, data: _typed(decode(data, wanted, still, ratio), target)  # noqa: E731
    return add_op(kind, compute, [x], [(target, dims)], name).outputs[0]


def decode_image(
    contents: Any, channels: int | None = None, dtype: Any = uint8, name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:  # fmt: skip
    """The pixels of a picture of any kind; of a GIF all frames, unless `expand_animations` is False.

    Raises:
        InvalidArgumentError: When it runs: for bytes that are no picture, or a damaged one.
    """
    if not expand_animations:
        x, target = convert(contents, string), as_dtype(dtype)
        first = lambda run, data: _typed(_first_frame(decode(data, channels or 0)), target)  # noqa: E731
        return add_op("DecodeImage", first, [x], [(target, [None, None, channels or None])], name).outputs[0]
    return _decoded("DecodeImage", contents, channels, False, None, name, dtype)


def _first_frame(pixels: Any) -> Any:
    return pixels[0] if pixels.ndim == 4 else pixels


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """The pixels of a still picture, whatever its kind.

    Args:
        contents: Its bytes.
        channels: 1 or 3; 0 as the picture has it.
        ratio: 1, 2, 4 or 8: by how much both sides are smaller.
        fancy_upscaling: Ignored; Pillow decodes as with True.
        try_recover_truncated: Not done here.
        acceptable_fraction: Ignored.
        dct_method: Ignored; Pillow decodes as with `"INTEGER_ACCURATE"`.
        name: Of the operation.

    Raises:
        ValueError: For another ratio, or `try_recover_truncated`.
        InvalidArgumentError: When it runs: for bytes that are no picture, or a damaged one.
    """
    if ratio not in (1, 2, 4, 8):
        raise ValueError(f"ratio is 1, 2, 4 or 8, got {ratio!r:.60}")
    if try_recover_truncated:
        raise ValueError("pictures that are cut short aren't recovered here; leave out try_recover_truncated")
    return _decoded("DecodeJpeg", contents, channels, True, 3, name, ratio=int(ratio))


def decode_png(contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None) -> Tensor:
    """The pixels of a still picture, whatever its kind.

    Raises:
        InvalidArgumentError: When it runs: for bytes that are no picture, or a damaged one.
    """
    return _decoded("DecodePng", contents, channels, True, 3, name, dtype)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """The pixels of a still picture, whatever its kind.

    Raises:
        InvalidArgumentError: When it runs: for bytes that are no picture, or a damaged one.
    """
    return _decoded("DecodeBmp", contents, channels, True, 3, name)


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """The pixels of all frames of a GIF, [frames, height, width, 3].

    Raises:
        InvalidArgumentError: When it runs: for bytes that are no picture, or a damaged one.
    """
    return _decoded("DecodeGif", contents, 0, False, 4, name)


def _typed(pixels: Any, target: Any) -> Any:
    if target == uint8:
        return pixels
    if target.name == "uint16":
        return pixels.astype(np.uint16) * 257
    return pixels.astype(target.as_numpy_dtype) / target.as_numpy_dtype(255)


def _sampled(images: Any, height: int, width: int, corners: bool, nearest: bool) -> Any:
    """Resized as TensorFlow 1 does: without smoothing, points taken from the upper left."""
    a = np.asarray(images)
    whole = a if a.ndim == 4 else a[None]
    old = whole.shape[1:3]

    def points(size: int, new: int) -> Any:
        scale = (size - 1) / (new - 1) if corners and new > 1 else size / new
        return np.arange(new) * scale

    rows, columns = points(old[0], height), points(old[1], width)
    if nearest:
        pick = np.round if corners else np.floor
        at = [np.minimum(pick(p).astype(int), n - 1) for p, n in zip((rows, columns), old, strict=True)]
        made = whole[:, at[0]][:, :, at[1]]
    else:
        whole = whole.astype(np.float32)
        for axis, (p, n) in enumerate(zip((rows, columns), old, strict=True), 1):
            low = np.minimum(np.floor(p).astype(int), n - 1)
            high = np.minimum(low + 1, n - 1)
            part = (p - low).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(4)])
            below = np.take(whole, low, axis)
            whole = below + (np.take(whole, high, axis) - below) * part
        made = whole
    return made if a.ndim == 4 else made[0]


def resize_images(
    images: Any, size: Any, method: int = 0, align_corners: bool = False, preserve_aspect_ratio: bool = False
) -> Tensor:
    """Pictures in another size, bilinear (float32) or by the nearest pixel.

    Args:
        images: [height, width, channels] or [batch, height, width, channels].
        size: Height and width.
        method: `ResizeMethod.BILINEAR` or `ResizeMethod.NEAREST_NEIGHBOR`.
        align_corners: Whether corners stay corners.
        preserve_aspect_ratio: Not done here.

    Raises:
        ValueError: For another method, or `preserve_aspect_ratio`.
    """
    if method not in (0, 1) or preserve_aspect_ratio:
        raise ValueError("only bilinear and nearest are resized here, without preserve_aspect_ratio")
    x = convert(images)
    height, width = (int(n) for n in size)
    target = float32 if method == 0 else x.dtype
    dims = as_shape(None) if x.shape.ndims is None else as_shape([*x.shape[:-3], height, width, x.shape[-1]])
    compute = lambda run, a: _sampled(a, height, width, align_corners, method == 1)  # noqa: E731
    return add_op("Resize", compute, [x], [(target, dims)]).outputs[0]


def resize_bilinear(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Pictures in another size, bilinear."""
    return resize_images(images, size, 0, align_corners)


def resize_nearest_neighbor(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Pictures in another size, by the nearest pixel."""
    return resize_images(images, size, 1, align_corners)


def resize_image_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Tensor:
    """The middle of a picture, with black round it where it is too small."""
    x = convert(image)
    wanted = target_height, target_width

    def compute(run: Run, a: Any) -> Any:
        made = np.zeros((*a.shape[:-3], *wanted, a.shape[-1]), a.dtype)
        source, target = [slice(None)] * (a.ndim - 3), [slice(None)] * (a.ndim - 3)
        for size, new in zip(a.shape[-3:-1], wanted, strict=True):
            count = min(size, new)
            source.append(slice((size - count) // 2, (size - count) // 2 + count))
            target.append(slice((new - count) // 2, (new - count) // 2 + count))
        made[tuple(target)] = a[tuple(source)]
        return made

    dims = None if x.shape.ndims is None else [*x.shape[:-3], *wanted, x.shape[-1]]
    return add_op("CropOrPad", compute, [x], [(x.dtype, dims)]).outputs[0]


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Pixels in another type, scaled: whole numbers to their range, fractions to 0 to 1."""
    x, target = convert(image), as_dtype(dtype)
    if x.dtype == target:
        return identity(x)
    kinds = np.dtype(x.dtype.as_numpy_dtype), np.dtype(target.as_numpy_dtype)
    tops = [float(np.iinfo(k).max) if k.kind in "iu" else 1.0 for k in kinds]

    def compute(run: Run, a: Any) -> Any:
        if kinds[0].kind in "iu" and kinds[1].kind in "iu":
            old, new = int(tops[0]), int(tops[1])
            wide = a.astype(np.int64)
            return (wide // ((old + 1) // (new + 1)) if old > new else wide * ((new + 1) // (old + 1))).astype(kinds[1])
        if kinds[1].kind == "f":
            return a.astype(kinds[1]) * kinds[1].type(1 / tops[0])
        return np.clip(a * (tops[1] + 0.5), 0, tops[1]).astype(kinds[1])

    return add_op("convert_image", compute, [x], [(target, x.shape)], name).outputs[0]


def per_image_standardization(image: Any) -> Tensor:
    """Pixels with mean 0 and variance 1."""
    x = convert(image)

    def compute(run: Run, a: Any) -> Any:
        wide = a.astype(np.float32)
        return (wide - wide.mean()) / np.float32(max(wide.std(), 1 / np.sqrt(a.size)))

    return add_op("per_image_standardization", compute, [x], [(float32, x.shape)]).outputs[0]


def flip_left_right(image: Any) -> Tensor:
    """The picture in a mirror."""
    x = convert(image)
    return add_op("flip_left_right", lambda run, a: a[..., ::-1, :], [x], [(x.dtype, x.shape)]).outputs[0]


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """The picture, or as often the picture in a mirror."""
    from headrace.tf1.ops import random_uniform

    x = convert(image)
    draw = random_uniform([], seed=seed)
    compute = lambda run, a, d: a[..., ::-1, :] if d < 0.5 else a  # noqa: E731
    return add_op("random_flip_left_right", compute, [x, draw], [(x.dtype, x.shape)]).outputs[0]
