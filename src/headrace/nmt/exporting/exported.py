"""Translating with an exported model: the two programs and a greedy loop, as others may write it in any language.

Nothing of the model's own code is used here: the programs are run by PyTorch, or by onnxruntime.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.nmt.export import FORMAT, VERSION, ExportError
from headrace.nmt.judging.metrics import undo_subwords

if TYPE_CHECKING:
    from headrace.nmt.text.subwords import Subwords

__all__ = ["Exported", "Greedy"]

Array = NDArray[Any]
Program = Callable[[list[Array]], list[Array]]


class Greedy(NamedTuple):
    """A translation: its words, their log-probability with that of eos, and a row of attention for each (and eos)."""

    words: list[str]
    log_prob: float
    attention: Array | None


class Exported:
    """A model that `export` wrote.

    Args:
        folder: Where it is.

    Raises:
        ExportError: There is none, or it is of another version.
        ModuleNotFoundError: What runs it is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        folder = Path(folder)
        try:
            self.settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ExportError(f"{folder} has no exported model: its settings.json cannot be read ({error})") from error
        found = self.settings.get("format"), self.settings.get("version")
        if found != (FORMAT, VERSION):
            raise ExportError(
                f"{folder} is of format {found[0]} {found[1]}, this reads {FORMAT} {VERSION}: export again"
            )
        try:
            self._load(folder)
        except ModuleNotFoundError:
            raise
        except Exception as error:  # whatever PyTorch and onnxruntime raise at files that are not theirs
            reason = str(error).strip().split("\n")[0]
            raise ExportError(
                f"{folder} is no whole export ({type(error).__name__}: {reason}): export the model again"
            ) from error

    def _load(self, folder: Path) -> None:
        load = _torch_program if self.settings["kind"] == "torch" else _onnx_program
        memory = len(self.settings["memory"])
        self.encoder, self.step = (load(folder / self.settings[name], memory) for name in ("encoder", "step"))
        self.src, self.tgt = (
            (folder / f"vocab.{side}").read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]
            for side in ("src", "tgt")
        )
        self.ids = {word: number for number, word in enumerate(self.src)}
        self.subwords: Subwords | None = None
        if self.settings["subwords"]:
            from headrace.nmt.text.subwords import Subwords

            self.subwords = Subwords((folder / self.settings["subwords"]).read_bytes())

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Returns a translation of each sentence, subwords cut and joined where the model has some."""
        cut = [self.subwords.cut(text) if self.subwords else text for text in sentences]
        found = self.greedy([[word for word in text.split(" ") if word] for text in cut])
        return [undo_subwords(" ".join(one.words), self.settings["subword_option"]) for one in found]

    def greedy(self, sentences: Sequence[Sequence[str]]) -> list[Greedy]:
        """Takes the likeliest word at each step, until the end of a sentence or twice its source's length."""
        unk, sos, eos = (self.settings[name] for name in ("unk", "sos", "eos"))
        longest = self.settings["src_max_len"]
        ids = [[self.ids.get(word, unk) for word in words][:longest] for words in sentences]
        if not ids:
            return []
        lengths = np.array([len(row) for row in ids])
        src = np.full((len(ids), max(1, lengths.max())), eos)
        for row, numbers in zip(src, ids, strict=True):
            row[: len(numbers)] = numbers
        start, parts = len(self.settings["memory"]), self.encoder([src, lengths])
        memory, state = parts[:start], parts[start:]
        most = self.settings["tgt_max_len"]
        limits = np.where(lengths > 0, lengths * 2 if most is None else most, 0)
        last, going = np.full(len(ids), sos), limits > 0
        found: list[list[int]] = [[] for _ in ids]
        log_probs = np.zeros(len(ids))
        attention: list[list[Array]] = [[] for _ in ids]
        for t in range(int(limits.max())):
            if not going.any():
                break
            logits, *rest = self.step([last, *memory, *state])
            weights, state = (rest[0], rest[1:]) if self.settings["attention"] else (None, rest)
            last = logits.argmax(axis=1)
            shifted = logits - logits.max(axis=1, keepdims=True)
            best = -np.log(np.exp(shifted).sum(axis=1))  # the log-probability of the largest logit
            for row in going.nonzero()[0]:
                log_probs[row] += best[row]
                if weights is not None:
                    attention[row].append(weights[row, : lengths[row]])
                if last[row] != eos:
                    found[row].append(int(last[row]))
            going &= (last != eos) & (limits > t + 1)
        return [
            Greedy([self.tgt[number] for number in row], float(log_prob), np.array(rows) if rows else None)
            for row, log_prob, rows in zip(found, log_probs, attention, strict=True)
        ]


def _torch_program(path: Path, memory: int) -> Program:
    """Loads a program of torch.export; a step takes its tensors as lists of memory and of state."""
    import torch

    import torch._higher_order_ops  # isort: skip  a recurrent encoder has a loop, an operation that must be known to load

    with path.open("rb") as file:
        module = torch.export.load(file).module()

    def run(arrays: list[Array]) -> list[Array]:
        first, *rest = (torch.from_numpy(array) for array in arrays)
        given = (first, *rest) if path.stem == "encoder" else (first, rest[:memory], rest[memory:])
        with torch.no_grad():
            return [part.numpy() for part in module(*given)]

    return run


def _onnx_program(path: Path, memory: int) -> Program:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [part.name for part in session.get_inputs()]

    def run(arrays: list[Array]) -> list[Array]:
        found: list[Array] = session.run(None, dict(zip(names, arrays, strict=True)))
        return found

    return run
