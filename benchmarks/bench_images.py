"""JPEG files of 320 × 240 to batches of 64 arrays of 224 × 224 × 3, shuffled: read, decoded, resized, put together.

The pictures look like nature to a codec: noise of all sizes, the larger the stronger. All contenders but tf.data decode
and resize by Pillow, bilinear and with smoothing. Run it with OMP_NUM_THREADS=1.

Reading: with workers, headrace decodes on threads of one process, which hand over arrays as they are; torch on
processes, which send them. `cpu us` counts threads and processes; `peak MB` only the process that measures. `large`
makes the same batches of pictures of 1280 × 960, whole and with `ratio="auto"`, which takes a quarter of both sides.
"""

from __future__ import annotations

import importlib
import pathlib
import resource
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import headrace as hr
from benchmarks.measure import Measure, peak_megabytes

IMAGES = 3_000
LARGE = 300
BATCH = 64
SIZE = 224


def _picture(rng: np.random.Generator, width: int, height: int) -> Any:
    image = importlib.import_module("PIL.Image")
    pixels = np.full((height, width, 3), 128.0)
    cells = 4
    while cells < width:
        noise = rng.normal(0, 1, (cells * 3 // 4, cells, 3)).astype(np.float32)
        layers = [image.fromarray(noise[..., c]).resize((width, height), image.Resampling.BICUBIC) for c in range(3)]
        pixels += np.stack([np.asarray(layer) for layer in layers], 2) * (120 / cells**0.5)
        cells *= 2
    return image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def prepare(folder: pathlib.Path) -> None:
    """Writes the files."""
    rng = np.random.default_rng(1)
    for name, count, width in (("small", IMAGES, 320), ("large", LARGE, 1280)):
        (folder / name).mkdir(exist_ok=True)
        for number in range(count):
            path = folder / name / f"{number}.jpg"
            if not path.exists():
                _picture(rng, width, width * 3 // 4).save(path, quality=90)


def _headrace(workers: int, name: str = "small", **options: Any) -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        data = hr.read_files(folder / name / "*.jpg").shuffle(seed=1).decode_image("data", size=SIZE, **options)
        loader = hr.Loader(data.batch(BATCH), workers=workers)
        return _through(loader, lambda batch: len(batch["data"]))

    return run


class _Files:
    """What PyTorch's users write: one picture at a time."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        with Image.open(self.paths[index]) as picture:
            small = picture.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        return np.asarray(small)


def _torch(workers: int, name: str = "small") -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        data: Any = _Files([str(path) for path in sorted((folder / name).glob("*.jpg"))])
        loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=workers)
        return _through(loader, len)

    return run


def _tensorflow(workers: int) -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        tf = importlib.import_module("tensorflow")

        def load(path: Any) -> Any:
            picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
            return tf.cast(tf.image.resize(picture, (SIZE, SIZE), antialias=True), tf.uint8)

        paths = tf.data.Dataset.list_files(str(folder / "small" / "*.jpg"), shuffle=True)
        return _through(paths.map(load, num_parallel_calls=workers).batch(BATCH).prefetch(1), len)

    return run


def _through(batches: Iterable[Any], size: Callable[[Any], int]) -> dict[str, float]:
    children = _cpu_of_children()
    with Measure() as m:
        with Measure() as start:
            rest = iter(batches)
            total = size(next(rest))
        for batch in rest:
            total += size(batch)
        del rest
    return {
        "images/s": total / m.wall,
        "cpu us/image": 1e6 * (m.cpu + _cpu_of_children() - children) / total,
        "first batch s": start.wall,
        "peak MB": peak_megabytes(),
    }


def _cpu_of_children() -> float:
    """Of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


OPTIONAL = ("tensorflow",)  # contenders that need these are left out where they aren't installed

CONTENDERS = {
    "headrace": _headrace(0),
    "headrace, 1 worker": _headrace(1),
    "headrace, 2 workers": _headrace(2),
    "torch DataLoader": _torch(0),
    "torch DataLoader, 1 worker": _torch(1),
    "torch DataLoader, 2 workers": _torch(2),
    "tf.data, 2 in parallel": _tensorflow(2),
    "large: headrace, 2 workers": _headrace(2, "large"),
    "large: the same, ratio auto": _headrace(2, "large", ratio="auto"),
    "large: torch, 2 workers": _torch(2, "large"),
}
