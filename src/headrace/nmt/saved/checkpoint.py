"""Checkpoints: one file that holds all that a run needs to go on, bit for bit, and all that translating needs.

No state of a random generator is in it: order, dropout and samples are functions of the seed and the step.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import headrace as hr
from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import FIELDS, HParamError, HParams, flags_of
from headrace.nmt.model import Seq2Seq
from headrace.nmt.text.files import make_folder, replacing

__all__ = ["Checkpoint", "CheckpointError", "changes", "latest", "load", "prune", "save"]

FORMAT, VERSION = "headrace.nmt checkpoint", 1
_NAME = re.compile(r"translate\.ckpt-(\d+)")
_DERIVED = {f"num_{side}_layers": f"{side}_layers" for side in ("encoder", "decoder")}  # none stands for num_layers
_KINDS: dict[str, type | tuple[type, ...]] = {
    **{"step": int, "hparams": dict, "vocabs": list, "subwords": (bytes, type(None))},
    **dict.fromkeys(("weights", "optimizer", "loader", "progress"), dict),
}


class CheckpointError(hr.HeadraceError):
    """A checkpoint cannot be written or read, or does not fit: the message says what to do."""


@dataclass
class Checkpoint:
    """A run between two steps.

    Attributes:
        step: Updates made.
        hparams: The settings.
        vocabs: The words of both languages.
        weights: The model's `state_dict`.
        optimizer: The optimiser's.
        loader: The loader's: which batch comes next.
        progress: What the log and the choice of the best checkpoint go by.
        path: Where it was read from.
        subwords: What was learned to cut plain text with; None: the text is cut already.
    """

    step: int
    hparams: HParams
    vocabs: Vocabs
    weights: dict[str, Tensor]
    optimizer: dict[str, Any]
    loader: dict[str, Any]
    progress: dict[str, Any]
    path: Path = field(default_factory=Path)
    subwords: bytes | None = None

    def model(self) -> Seq2Seq:
        """Makes the model.

        Raises:
            CheckpointError: The weights are not those of a model of these settings; the message says which differ.
        """
        model = Seq2Seq(self.hparams, len(self.vocabs.src), len(self.vocabs.tgt))
        wanted = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
        found = {name: tuple(weight.shape) for name, weight in self.weights.items()}
        differ = [
            f"{name} should be {wanted.get(name, 'absent')}, is {found.get(name, 'absent')}"
            for name in sorted({**wanted, **found})
            if wanted.get(name) != found.get(name)
        ]
        if differ:
            raise CheckpointError(f"{self.path}: weights do not fit the settings beside them: {'; '.join(differ)}")
        for name, weight in self.weights.items():
            if not weight.isfinite().all():
                raise CheckpointError(
                    f"{self.path}: {name} has values that are no numbers: name another one with --ckpt"
                )
        model.load_state_dict(self.weights)
        return model.eval()

    def check_shape(self, hparams: HParams) -> None:
        """Refuses settings of another model.

        Raises:
            CheckpointError: The message names the flags that differ.
        """
        # What was learned to cut words with is of one kind; a text that came cut may have been cut by any.
        learned = ("subword_option",) if self.subwords is not None else ()
        was, wanted = (
            {name: getattr(settings, _DERIVED.get(name, name)) for name in (*flags_of("model"), *learned)}
            for settings in (self.hparams, hparams)
        )
        differ = [name for name in was if was[name] != wanted[name]]
        if differ:
            before, now = (", ".join(f"{name}={values[name]}" for name in differ) for values in (was, wanted))
            raise CheckpointError(
                f"{self.path} was trained with {before}, now {now} is asked for: leave "
                f"{', '.join(f'--{name}' for name in differ)} as it was, or train into another --out_dir"
            )

    def check_vocabs(self, vocabs: Vocabs) -> None:
        """Refuses other words.

        Raises:
            CheckpointError: The message says which language, and the first word that differs.
        """
        for side, before, now in zip(("source", "target"), self.vocabs, vocabs, strict=True):
            if before != now:
                pairs = enumerate(itertools.zip_longest(before, now))
                number, (old, new) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
                old, new = old or "absent", new or "absent"
                raise CheckpointError(
                    f"{self.path} was trained with another {side} vocabulary ({len(before):,} words, now "
                    f"{len(now):,}; word {number} was {old}, is {new}): give the same --vocab_prefix, or train into "
                    "another --out_dir"
                )


def changes(before: HParams, now: HParams) -> list[str]:
    """Names the settings of a run that are not what they were."""
    names = [name for name in FIELDS if name != "out_dir" and name not in flags_of("command")]
    return [name for name in names if getattr(before, name) != getattr(now, name)]


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Writes `translate.ckpt-STEP` and the settings, each whole or not at all.

    Raises:
        CheckpointError: It cannot be written; older checkpoints are as they were.
    """
    settings = checkpoint.hparams.replace(**{name: FIELDS[name].default for name in flags_of("command")})
    document = {
        "format": FORMAT,
        "version": VERSION,
        "step": checkpoint.step,
        "hparams": dataclasses.asdict(settings),
        "vocabs": ["\n".join(vocab) for vocab in checkpoint.vocabs],
        "weights": checkpoint.weights,
        "optimizer": checkpoint.optimizer,
        "loader": checkpoint.loader,
        "progress": checkpoint.progress,
        "subwords": checkpoint.subwords,
    }
    path = folder / f"translate.ckpt-{checkpoint.step}"
    content = io.BytesIO()  # in memory first: torch's own writer does not say that the disk is full
    torch.save(document, content)
    try:
        make_folder(folder)
        with replacing(path) as temporary:
            temporary.write_bytes(content.getbuffer())
        with replacing(folder / "hparams") as temporary:
            settings.save(temporary)
    except OSError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {path}: {error.strerror or error}; older checkpoints are as they were. Make "
            "room (or free the folder) and run the same command again: it goes on from the latest one"
        ) from error
    return path


def load(path: Path) -> Checkpoint:
    """Reads a checkpoint.

    Raises:
        CheckpointError: The file is not there, cut short, damaged, or something else; the message says which.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"cannot read the checkpoint {path}: {error.strerror}; check --ckpt, --out_dir"
        ) from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            if (bad := parts.testzip()) is not None:  # torch would take damaged weights as they are
                raise ValueError(f"{bad} is damaged")
        document = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever zip, pickle and torch raise at bytes that are not theirs
        reason = str(error).split("\n")[0].split(". ")[0]
        raise CheckpointError(
            f"{path} is no checkpoint, cut short or damaged ({len(content):,} bytes): {reason}; delete it, or name "
            "another one with --ckpt"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CheckpointError(f"{path} was written by another program: expected a checkpoint of headrace.nmt")
    if document.get("version") != VERSION:
        raise CheckpointError(
            f"{path} is of version {document.get('version')}, this headrace reads {VERSION}: update the older one"
        )
    try:
        document.setdefault("subwords", None)
        for name, kind in _KINDS.items():
            if not isinstance(document[name], kind):
                raise TypeError(f"{name} is of type {type(document[name]).__name__}")
        if not all(isinstance(weight, Tensor) for weight in document["weights"].values()):
            raise TypeError("weights holds something else")
        return Checkpoint(
            step=document["step"],
            hparams=HParams().replace(**document["hparams"]),
            vocabs=Vocabs(*(hr.Vocab(words.split("\n")) for words in document["vocabs"])),
            weights=document["weights"],
            optimizer=document["optimizer"],
            loader=document["loader"],
            progress=document["progress"],
            path=path,
            subwords=document["subwords"],
        )
    except HParamError as error:
        raise CheckpointError(f"{path} has settings that this headrace cannot take: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is not whole ({type(error).__name__}: {error}): expected step, hparams, vocabs, weights, "
            "optimizer, loader and progress; delete it, or name another one with --ckpt"
        ) from error


def steps_of(folder: Path) -> dict[int, Path]:
    """Lists the checkpoints of a folder by step, the oldest first."""
    found = {int(m[1]): path for path in folder.glob("translate.ckpt-*") if (m := _NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def latest(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """Reads the latest checkpoint of a folder that can be read; None if there is none at all.

    Args:
        folder: Where to look.
        say: Told of each one that had to be passed over.

    Raises:
        CheckpointError: There are some, and none can be read.
    """
    error = None
    for path in reversed(steps_of(folder).values()):
        try:
            return load(path)
        except CheckpointError as trouble:
            error = trouble
            say(f"# {trouble}. Trying the one before it")
    if error is not None:
        raise CheckpointError(f"no checkpoint in {folder} can be read; the oldest: {error}") from error
    return None


def prune(folder: Path, keep: int) -> None:
    """Deletes all but the latest checkpoints, and what a killed process may have left of one."""
    for path in [*list(steps_of(folder).values())[:-keep], *folder.glob(".translate.ckpt-*.tmp")]:
        path.unlink(missing_ok=True)
