"""The other process of `test_a_saved_position_goes_on_in_another_process`: a run is restored where nothing is shared.

`python resume_elsewhere.py KIND FOLDER WORKERS` reads a state as JSON and prints a digest of each batch that is left.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
from collections.abc import Callable, Iterator

import numpy as np

import headrace as hr


def text(folder: pathlib.Path) -> hr.Batches:
    """Pairs of lines, bucketed."""
    vocab = hr.build_vocab(sorted(folder.glob("train.???")))
    pairs = hr.zip(src=hr.read_text(folder / "train.src"), tgt=hr.read_text(folder / "train.tgt"))
    tokens = pairs.filter_length().shuffle(seed=5).tokens(vocab, max_length=6, bos={"tgt": "<s>"}, eos={"tgt": "</s>"})
    return tokens.bucket(batch_size=8, width=2, window=50).pad(value=2)


def arrays(folder: pathlib.Path) -> hr.Batches:
    """Arrays in windows of shuffling, with random numbers of their records' own."""
    data = hr.from_arrays({"x": np.arange(300.0), "n": np.arange(300)}).repeat(2).shuffle(seed=7, window=40)
    return data.map(lambda r, rng: {**r, "x": r["x"] + rng.random()}, rng=True, seed=3).batch(16)


KINDS: dict[str, Callable[[pathlib.Path], hr.Batches]] = {"text": text, "arrays": arrays}


def digests(loader: hr.Loader, epochs: int) -> Iterator[str]:
    """A hash of each batch, over names, types, shapes and every bit, to the end of the last epoch."""
    while loader.epoch < epochs:
        for batch in loader:
            known = hashlib.sha256()
            for name, column in sorted(batch.items()):
                known.update(f"{name} {column.dtype} {column.shape} ".encode())
                known.update(column.tobytes())
            yield known.hexdigest()


def main() -> None:
    """Restores, reads the rest and prints it."""
    kind, folder, workers = sys.argv[1:]
    loader = hr.Loader(KINDS[kind](pathlib.Path(folder)), workers=int(workers))
    loader.load_state_dict(json.load(sys.stdin))
    sys.stdout.write(json.dumps(list(digests(loader, epochs=2))))


if __name__ == "__main__":
    main()
