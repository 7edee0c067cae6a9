"""What the installed package must do with NumPy alone: `python smoke.py ENVIRONMENT`, outside the repository."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
import tempfile

import numpy as np

import headrace as hr

assert pathlib.Path(hr.__file__).is_relative_to(sys.argv[1]), hr.__file__
assert importlib.util.find_spec("torch") is None, "the environment was meant to have NumPy alone"

data = hr.from_arrays({"x": np.arange(100), "y": np.arange(100.0)}).shuffle(seed=1).batch(8)
loader = hr.Loader(data, workers=2)
first = next(iter(loader))
state = json.loads(json.dumps(loader.state_dict()))
rest = [n for batch in loader for n in batch["x"].tolist()]
assert sorted([*first["x"].tolist(), *rest]) == list(range(100))
again = hr.Loader(data)
again.load_state_dict(state)
assert [n for batch in again for n in batch["x"].tolist()] == rest

with tempfile.TemporaryDirectory() as name:
    path = pathlib.Path(name, "lines.txt")
    path.write_text("a b\nb c c\n\nd\n")
    vocab = hr.build_vocab(path)
    for _ in range(2):  # the second time through the sidecar
        texts = hr.read_text(path)
        assert pathlib.Path(f"{path}.hrindex").exists()
        assert list(texts) == ["a b", "b c c", "", "d"]
        batches = texts.filter_length().tokens(vocab).bucket(batch_size=2, width=2).pad(value=-1)
        assert sum(len(ids) for ids, _ in hr.Loader(batches)) == 3
