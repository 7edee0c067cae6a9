from __future__ import annotations

import importlib.abc
import sys
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.batch.convert import DELIVERIES, deliver


def test_to_torch_shares_memory_and_keeps_texts() -> None:
    torch = pytest.importorskip("torch")
    x = np.arange(6, dtype=np.float32)
    out = hr.to_torch({"x": x, "r": hr.Ragged.from_rows([[1, 2], [3]]), "s": hr.Strings.from_rows(["a"])})
    assert out["x"].data_ptr() == x.ctypes.data
    assert [row.tolist() for row in out["r"].unbind()] == [[1, 2], [3]]
    assert out["s"].tolist() == ["a"]
    assert isinstance(out["x"], torch.Tensor)


def test_to_torch_copies_what_cannot_be_shared() -> None:
    pytest.importorskip("torch")
    read_only = np.arange(3)
    read_only.flags.writeable = False
    foreign = np.arange(3, dtype=">i4")
    assert hr.to_torch((read_only, foreign, np.arange(3)[::-1]))[1].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("name", "package"), [("torch", "'headrace\\[torch\\]'"), ("jax", "jax")])
def test_a_framework_that_is_not_installed_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Missing(name), *sys.meta_path])
    message = f"handing batches to {name} needs it installed: pip install {package}$"
    with pytest.raises(ImportError, match=message):
        DELIVERIES[name]({"x": np.arange(2)})
    with pytest.raises(ImportError, match=message):
        deliver(name)


class Missing(importlib.abc.MetaPathFinder):
    """Hides a package from imports."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname.partition(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=self.name)


def test_deliver_knows_its_names() -> None:
    batch = {"x": np.arange(2)}
    assert deliver("numpy")(batch) is batch
    with pytest.raises(ValueError, match="to is one of 'numpy', 'torch', 'jax', 'arrow', got 'tensorflow'"):
        deliver("tensorflow")


def test_jax_takes_numbers_and_leaves_the_rest() -> None:
    jax = pytest.importorskip("jax")
    batch = {"x": np.arange(3, dtype=np.float32), "big": np.arange(2, dtype=">i4"), "s": hr.Strings.from_rows(["a"])}
    out = deliver("jax")(batch)
    assert isinstance(out["x"], jax.Array)
    assert out["x"].tolist() == [0.0, 1.0, 2.0]
    assert out["big"].tolist() == [0, 1]
    assert out["s"] is batch["s"]
