"""Pictures: JPEG, PNG, BMP and GIF to arrays, by Pillow, which lets go of the interpreter lock while it decodes.

Colours and grey are resized by the native core: by Pillow's rule, in a third of its time.

What comes out is what TensorFlow's `decode_image` gives: no orientation that EXIF names is applied, palettes are
expanded, of 16 bits the high byte is kept, alpha is dropped or kept but never blended, CMYK becomes RGB.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import one_of, whole
from headrace.errors import DataError, PlanError

Fit: TypeAlias = Literal["stretch", "crop", "pad"]
Interpolation: TypeAlias = Literal["nearest", "bilinear", "bicubic", "lanczos"]
Ratio: TypeAlias = Literal[1, 2, 4, 8, "auto"]
PixelType: TypeAlias = Literal["uint8", "float32"]
Pixels: TypeAlias = NDArray[Any]

KINDS = {b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG", b"GIF8": "GIF", b"BM": "BMP"}
"""The kind of picture by its first bytes."""

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_LONGEST_SIDE = 1 << 16  # of pictures that the native core resizes
_GREY = np.array([9794, 19235, 3739], np.int64)  # .2989, .5870, .1140 of 2 ** 15, as the PNG library has it


def kind_of(data: bytes) -> str:
    """The kind of a picture, by its first bytes.

    Raises:
        DataError: If it is none of JPEG, PNG, GIF and BMP.
    """
    for magic, kind in KINDS.items():
        if data.startswith(magic):
            return kind
    found = f"{len(data)} bytes that begin {data[:8]!r}" if data else "no bytes"
    raise DataError(f"expected a JPEG, PNG, GIF or BMP picture, got {found}")


def need_pillow() -> None:
    """Raises:
    ImportError: If Pillow isn't installed.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise ImportError("decoding pictures needs Pillow: pip install 'headrace[image]'", name="PIL") from None


def _open(data: bytes, kind: str) -> Any:
    """The picture, of which the head has been read. By its class: looking for the format again would take time."""
    need_pillow()
    from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin

    opener: Any = {
        "JPEG": JpegImagePlugin.JpegImageFile,
        "PNG": PngImagePlugin.PngImageFile,
        "GIF": GifImagePlugin.GifImageFile,
        "BMP": BmpImagePlugin.BmpImageFile,
    }[kind]
    return opener(io.BytesIO(data))


class TooLarge(DataError):
    """A picture has more pixels than may be."""


def _check_pixels(size: tuple[int, int], frames: int = 1) -> None:
    """Refuses what would fill the memory: a few bytes can claim to be any number of pixels."""
    from PIL import Image

    most = Image.MAX_IMAGE_PIXELS
    if most is not None and size[0] * size[1] * frames > most:
        times = f" × {frames} frames" if frames > 1 else ""
        raise TooLarge(
            f"expected a picture of at most {most:,} pixels, got {size[1]} × {size[0]}{times}; if it is what it should "
            "be, decode it smaller (ratio=) or raise PIL.Image.MAX_IMAGE_PIXELS"
        )


def _damaged(data: bytes, kind: str, error: BaseException) -> DataError:
    return DataError(f"expected a whole {kind} picture, got {len(data)} bytes that are damaged: {error}")


def _plain(picture: Any, kind: str) -> Any:
    """The picture in a mode that has nothing but pixels: grey or colours, with alpha or without."""
    from PIL import Image

    mode = picture.mode
    if kind == "GIF" or (kind == "JPEG" and mode not in ("L", "RGB")):
        return picture.convert("RGB")
    if mode.startswith("I"):  # 16 bits
        return Image.fromarray((np.asarray(picture).astype(np.int64) >> 8).astype(np.uint8))
    if mode == "1":
        return picture.convert("L")
    if mode in _MODES.values():
        return picture
    return picture.convert("RGBA" if "transparency" in picture.info or "A" in mode else "RGB")


def _recoloured(picture: Any, channels: int) -> Any:
    """A plain picture with so many channels; 0 leaves it as it is."""
    from PIL import Image

    if not channels or picture.mode == _MODES[channels]:
        return picture
    if channels <= 2 and picture.mode in ("RGB", "RGBA"):
        colours = np.asarray(picture)
        grey = ((colours[..., :3] @ _GREY) >> 15).astype(np.uint8)
        if channels == 2:
            alpha = colours[..., 3] if picture.mode == "RGBA" else np.full_like(grey, 255)
            grey = np.stack([grey, alpha], 2)
        return Image.fromarray(grey)
    return picture.convert(_MODES[channels])


def _array(picture: Any) -> Pixels:
    return np.asarray(picture).reshape(picture.height, picture.width, -1)


def decode_frames(data: bytes, channels: int = 0) -> Pixels:
    """All frames of a GIF, shape `(frames, height, width, channels)`.

    Raises:
        DataError: If the bytes are no GIF, damaged, or too large.
        ImportError: If Pillow isn't installed.
    """
    try:
        with _open(data, "GIF") as picture:
            count = getattr(picture, "n_frames", 1)
            _check_pixels(picture.size, count)
            return np.stack([_array(_recoloured(_plain(frame, "GIF"), channels)) for frame in _frames(picture, count)])
    except (TooLarge, ImportError, MemoryError):
        raise
    except Exception as error:
        raise _damaged(data, "GIF", error) from error


def _frames(picture: Any, count: int) -> Iterator[Any]:
    for number in range(count):
        picture.seek(number)
        yield picture


@dataclass(frozen=True, slots=True)
class ImageDecoder:
    """How pictures become arrays; `image_decoder` checks the arguments.

    Attributes:
        channels: 1 grey, 2 grey and alpha, 3 colours, 4 colours and alpha; 0 as the picture has it.
        size: Height and width of what comes out; None keeps that of the picture.
        fit: How a picture comes to that size.
        ratio: By how much a picture is smaller than it is stored, before it is resized.
        interpolation: How pixels are made when it is resized.
        dtype: uint8, or float32 from 0 to 1.
    """

    channels: int = 3
    size: tuple[int, int] | None = None
    fit: Fit = "stretch"
    ratio: Ratio = 1
    interpolation: Interpolation = "bilinear"
    dtype: PixelType = "uint8"

    def words(self) -> list[str]:
        """The arguments that differ from the defaults, as a description has them."""
        usual = ImageDecoder()
        names = ("channels", "size", "fit", "ratio", "interpolation", "dtype")
        return [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) != getattr(usual, name)]

    def decode(self, data: bytes) -> Pixels:
        """The pixels of a picture, shape `(height, width, channels)`; of a GIF the first frame's.

        Raises:
            DataError: If the bytes are no picture, damaged, or too large.
            ImportError: If Pillow isn't installed.
        """
        pixels = self._decode(data)
        if self.dtype == "float32":
            return np.divide(pixels, 255, dtype=np.float32)
        return pixels if pixels.flags.writeable else pixels.copy()  # those that Pillow hands out can't be written to

    def _decode(self, data: bytes, out: Pixels | None = None) -> Pixels:
        """The pixels as bytes; in `out`, where there is one and that spares a copy."""
        kind = kind_of(data)
        try:
            with _open(data, kind) as picture:
                return self._resized(self._read(picture, kind), out)
        except (TooLarge, ImportError, MemoryError):
            raise
        except Exception as error:  # Pillow's decoders raise nearly anything
            raise _damaged(data, kind, error) from error

    def _read(self, picture: Any, kind: str) -> Any:
        width, height = picture.size
        if kind == "JPEG":  # which can be decoded in parts of its size, and without its colours
            wanted = None
            if self.ratio == "auto" and self.size:
                wanted = self.size[1], self.size[0]
            elif self.ratio != 1:
                wanted = max(width // int(self.ratio), 1), max(height // int(self.ratio), 1)
            picture.draft("L" if self.channels == 1 else None, wanted)
        _check_pixels(picture.size)
        picture = _recoloured(_plain(picture, kind), self.channels)
        if self.ratio not in (1, "auto"):
            ratio = int(self.ratio)
            smaller = -(-width // ratio), -(-height // ratio)
            if picture.size == (width, height) != smaller:
                picture = picture.reduce(ratio)
            elif picture.size != smaller:  # too small a picture to be decoded in just that ratio
                picture = picture.resize(smaller, reducing_gap=None)
        return picture

    def _resized(self, picture: Any, out: Pixels | None) -> Pixels:
        if self.size is None or (self.fit == "stretch" and picture.size == (self.size[1], self.size[0])):
            return _array(picture)
        from PIL import Image

        height, width = self.size
        how = Image.Resampling[self.interpolation.upper()]
        scales = width / picture.width, height / picture.height
        if self.fit == "pad":
            inner = max(round(picture.width * min(scales)), 1), max(round(picture.height * min(scales)), 1)
            padded = Image.new(picture.mode, (width, height))  # black, and where there is alpha, transparent
            padded.paste(picture.resize(inner, how), ((width - inner[0]) // 2, (height - inner[1]) // 2))
            return _array(padded)
        box = (0.0, 0.0, float(picture.width), float(picture.height))
        if self.fit == "crop":  # the middle, of the shape that is wanted
            part = width / max(scales), height / max(scales)
            left, top = (picture.width - part[0]) / 2, (picture.height - part[1]) / 2
            box = max(left, 0), max(top, 0), min(left + part[0], picture.width), min(top + part[1], picture.height)
        native = self.interpolation in ("bilinear", "bicubic") and picture.mode in ("L", "RGB")
        if not native or max(*picture.size, width, height) > _LONGEST_SIDE:
            return _array(picture.resize((width, height), how, box=box))
        pixels = _array(picture)
        made = np.empty((height, width, pixels.shape[2]), np.uint8) if out is None else out
        _native.resize_picture(pixels, made, *box, self.interpolation == "bicubic")  # as Pillow does, in less time
        return made

    def shape(self) -> tuple[int, int, int] | None:
        """The shape of what comes out, where it doesn't depend on the picture."""
        return (*self.size, self.channels) if self.size and self.channels else None

    def decode_into(self, data: bytes, out: Pixels) -> None:
        """As `decode`, into an array of `shape()`."""
        if self.dtype == "uint8":
            pixels = self._decode(data, out)
            if pixels is not out:
                out[...] = pixels
        else:
            np.divide(self._decode(data), 255, out=out, dtype=np.float32)


def image_decoder(
    channels: int, size: Any, fit: Fit, ratio: Ratio, interpolation: Interpolation, dtype: Any
) -> ImageDecoder:
    """A decoder with arguments as a user gave them.

    Raises:
        PlanError: If one is out of range.
    """
    try:
        channels = whole("channels", channels, 0, 4)
        if size is not None:
            sides = tuple(size) if isinstance(size, (tuple, list, np.ndarray)) else (size, size)
            if len(sides) != 2:
                raise ValueError(f"size is one number or height and width, got {size!r:.60}")
            size = whole("size", sides[0], 1, 1 << 16), whole("size", sides[1], 1, 1 << 16)
        if ratio != "auto" and (isinstance(ratio, bool) or ratio not in (1, 2, 4, 8)):
            raise ValueError(f"ratio is 1, 2, 4, 8 or 'auto', got {ratio!r:.60}")
        one_of("", "fit", fit, Fit, error=ValueError)
        one_of("", "interpolation", interpolation, Interpolation, error=ValueError)
        if size is None and (fit != "stretch" or ratio == "auto"):
            raise ValueError(f"{'fit' if fit != 'stretch' else 'ratio'} needs the size that pictures come to: size=…")
        try:
            named = np.dtype(dtype).name
        except TypeError:
            named = ""
        one_of("", "dtype", named or dtype, PixelType, error=ValueError)
    except ValueError as error:
        raise PlanError(f"decode_image: {error}") from None
    by: Any = ratio if ratio == "auto" else int(ratio)
    pixel_type: Any = named
    return ImageDecoder(channels, size, fit, by, interpolation, pixel_type)


def decode_image(
    data: bytes,
    *,
    channels: int = 3,
    size: int | tuple[int, int] | None = None,
    fit: Fit = "stretch",
    ratio: Ratio = 1,
    interpolation: Interpolation = "bilinear",
    dtype: PixelType = "uint8",
) -> Pixels:
    """The pixels of one JPEG, PNG, BMP or GIF picture; for functions of one's own, as in `Dataset.map`.

    Args:
        data: The bytes of the file.
        channels: As for `Dataset.decode_image`, and so are the others.
        size: Height and width, or one number for both; None keeps the size of the picture.
        fit: How it comes to that size.
        ratio: By how much it is smaller than it is stored.
        interpolation: How pixels are made when it is resized.
        dtype: `"uint8"`, or `"float32"` for numbers from 0 to 1.

    Returns:
        An array of shape `(height, width, channels)`.

    Raises:
        DataError: If the bytes are no picture, damaged, or more pixels than Pillow allows.
        PlanError: If an argument is out of range.
        ImportError: If Pillow isn't installed.

    Example:
        >>> import io, PIL.Image, headrace as hr
        >>> file = io.BytesIO()
        >>> PIL.Image.new("RGB", (4, 2), (255, 0, 0)).save(file, "PNG")
        >>> hr.decode_image(file.getvalue()).shape, hr.decode_image(file.getvalue(), channels=1, size=1).tolist()
        ((2, 4, 3), [[[76]]])
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise DataError(f"decode_image: expected the bytes of a picture, got {type(data).__name__} {data!r:.60}")
    decoder = image_decoder(channels, size, fit, ratio, interpolation, dtype)
    try:
        return decoder.decode(bytes(data))
    except DataError as error:
        raise DataError(f"decode_image: {error}") from error.__cause__
