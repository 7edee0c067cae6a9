import struct
from pathlib import Path

import numpy as np
import pytest

from headrace.nmt.judging import plot
from headrace.nmt.judging.plot import plot_attention, plot_curves

pytest.importorskip("matplotlib")


def size_of(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


@pytest.mark.parametrize("rows", [2, 3])
def test_attention_is_a_png(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "attention.png"
    plot_attention(path, np.full((rows, 4), 0.25), ["das", "ist", "ein", "Bild"], ["a", "picture"])
    assert min(size_of(path)) > 100


def test_a_matrix_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected attention of shape \(1 or 2, 2\).*got \(2, 3\)"):
        plot_attention(tmp_path / "a.png", np.zeros((2, 3)), ["a", "b"], ["c"])
    assert not (tmp_path / "a.png").exists()


def test_the_axes_of_attention_say_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = plot._figure(3.0, 2.0)
    monkeypatch.setattr(plot, "_figure", lambda *size: figure)
    plot_attention(tmp_path / "a.png", np.full((1, 2), 0.5), ["ein", "Bild"], ["picture"])
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "translation")


@pytest.mark.parametrize("names", [["train_ppl"], ["train_ppl", "dev_ppl", "dev_bleu"], []])
def test_curves_are_a_png(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "curves.png"
    plot_curves(path, {name: [(0, 50.0), (100, 5.0)] for name in names}, title="a run")
    assert min(size_of(path)) > 200
