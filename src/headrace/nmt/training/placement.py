"""Layers over several GPUs, as the tutorial has them: with `num_gpus`, layer i is on GPU i modulo their number.

`place_layers` says what goes where, and `spread` puts it there. All that passes between the parts is on the first GPU,
which is home: each part takes what it is given to its own GPU, and sends home what it makes of it. So the model itself
needs not know. This is for models that one GPU cannot hold; to train faster, start several processes by torchrun.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.layers.cells import Stack
from headrace.nmt.model import Batch, Decoder, Encoder, Masks, Seq2Seq

__all__ = ["Placement", "find_gpus", "place_layers", "spread"]

PROCESSOR = -1
_MOST_ROWS = 50000  # of an embedding on a GPU: larger ones are left to the processor, as in the tutorial


class Placement(NamedTuple):
    """The GPU of each part, by number; -1 is the processor."""

    src_embedding: int
    tgt_embedding: int
    encoder: tuple[tuple[int, ...], ...]  # of each stack, of each layer
    decoder: tuple[int, ...]
    attention: int
    projection: int  # and the loss: logits are too many to be sent elsewhere


def place_layers(hparams: HParams, gpus: int, src_words: int = 0, tgt_words: int = 0) -> Placement:
    """Says which part of a model is on which GPU.

    Args:
        hparams: The settings.
        gpus: How many GPUs there are; 0: everything is on the processor.
        src_words: Number of source words.
        tgt_words: Number of target words.

    Example:
        >>> gnmt = HParams(num_layers=4, encoder_type="gnmt", attention="bahdanau", attention_architecture="gnmt_v2")
        >>> place_layers(gnmt, 4).encoder, place_layers(gnmt, 4).decoder
        (((0,), (1,), (1, 2, 3)), (0, 1, 2, 3))
    """

    def at(number: int) -> int:
        return number % gpus if gpus else PROCESSOR

    def row(layers: int, first: int = 0) -> tuple[int, ...]:
        return tuple(at(first + layer) for layer in range(layers))

    layers, decoder = hparams.encoder_layers, hparams.decoder_layers
    match hparams.encoder_type:
        case "bi":  # the backward layers come after the forward ones
            encoder: tuple[tuple[int, ...], ...] = row(layers // 2), row(layers // 2, layers // 2)
        case "gnmt":
            encoder = row(1), row(1, 1), row(layers - 1, 1)
        case _:
            encoder = (row(layers),)
    attends = decoder - 1 if hparams.attention_architecture == "standard" else 0
    return Placement(
        src_embedding=at(0) if src_words <= _MOST_ROWS else PROCESSOR,
        tgt_embedding=at(0) if tgt_words <= _MOST_ROWS else PROCESSOR,
        encoder=() if hparams.language_model else encoder,
        decoder=row(decoder),
        attention=at(attends),
        projection=at(decoder if decoder < gpus else decoder - 1),  # one of its own, if there is one to spare
    )


def find_gpus(hparams: HParams) -> list[torch.device]:
    """Returns the GPUs of this process; none, where layers are not to be spread.

    Raises:
        HParamError: There are not as many as `num_gpus` asks for.
    """
    count = hparams.num_gpus
    if count < 2:
        return []
    processes, own = (
        int(os.environ.get(f"LOCAL_{name}", default)) for name, default in (("WORLD_SIZE", 1), ("RANK", 0))
    )
    found = torch.cuda.device_count()
    if found < count * processes:
        each = f" for each of {processes} processes" if processes > 1 else ""
        raise HParamError(
            f"num_gpus={count} spreads the layers over {count} GPUs{each}, and this machine has {found}: give "
            "--num_gpus=1 to train on the processor"
        )
    return [torch.device("cuda", own * count + number) for number in range(count)]


def spread(model: Seq2Seq, placement: Placement, devices: Sequence[torch.device]) -> None:
    """Moves the parts of a recurrent model to their GPUs, in place.

    Args:
        model: The model; from now on its `loss` takes batches from anywhere.
        placement: What `place_layers` says.
        devices: The GPUs.
    """
    places = dict(enumerate(devices)) | {PROCESSOR: torch.device("cpu")}
    home = devices[0]
    for child in model.children():
        _move(child, home)
    for name, place in (
        ("src_embedding_VU", placement.src_embedding),
        ("tgt_embedding_VU", placement.tgt_embedding),
        ("projection_UV", placement.projection),
    ):
        weight = model._parameters.get(name)
        if weight is not None:
            model._parameters[name] = nn.Parameter(weight.detach().to(places[place]))
    if model.hparams.share_vocab:
        model.tgt_embedding_VU = model.src_embedding_VU

    decoder = model.decoder
    assert isinstance(decoder, Decoder)
    stacks: list[Stack] = [decoder.stack]
    rows = [placement.decoder]
    if isinstance(model.encoder, Encoder):
        stacks += [*model.encoder.stacks, *([model.encoder.top] if model.encoder.top else [])]
        rows += placement.encoder
    for stack, row in zip(stacks, rows, strict=True):
        for cell, place in zip(stack.cells, row, strict=True):
            _move(cell, places[place])
            _wrap(cell, "forward", places[place], home)
        _wrap(stack, "zero_state", home, home)
    if decoder.attention is not None:
        attends = places[placement.attention]
        _move(decoder.attention, attends)
        _wrap(decoder.attention, "keys", attends, attends)
        _wrap(decoder, "start", home, None, lambda made: (_send(made[0], attends), _send(made[1], home)))
        _wrap(decoder, "attend", attends, home)
    model.look_up = partial(_look_up, home)  # type: ignore[method-assign]
    draw_masks = model.draw_masks

    def draw(batch: Batch, generator: torch.Generator | None = None) -> Masks:
        masks: Masks = _send(draw_masks(batch, generator), home)
        return masks

    model.draw_masks = draw  # type: ignore[method-assign]
    tied = model.hparams.tied_embeddings  # the projection is then the embedding
    _wrap(model, "logits", places[placement.tgt_embedding if tied else placement.projection], None)
    _wrap(model, "loss", home, None)
    model.spread = True


def _move(module: nn.Module, device: torch.device) -> None:
    """Moves a module that shares no weight with another."""
    for part in module.modules():
        for name, weight in part._parameters.items():
            part._parameters[name] = None if weight is None else nn.Parameter(weight.detach().to(device))
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else buffer.to(device)


def _look_up(home: torch.device, words: Tensor, embedding_VU: Tensor, frozen_V: Tensor | None) -> Tensor:
    here = embedding_VU.device
    frozen_V = None if frozen_V is None else frozen_V.to(here)
    return Seq2Seq.look_up(words.to(here), embedding_VU, frozen_V).to(home)


def _wrap(
    owner: Any,
    name: str,
    there: torch.device,
    back: torch.device | None,
    after: Callable[[Any], Any] = lambda made: made,
) -> None:
    """Has a method of an object take what it is given to a device, and send what it makes to another, or leave it."""
    method = getattr(owner, name)

    def wrapped(*args: Any) -> Any:
        made = method(*(_send(arg, there) for arg in args))
        return after(made) if back is None else _send(made, back)

    setattr(owner, name, wrapped)


def _send(value: Any, device: torch.device) -> Any:
    """Sends all tensors of a tuple or list, at any depth, to a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_send(part, device) for part in value))
    if isinstance(value, tuple | list):
        return type(value)(_send(part, device) for part in value)
    return value
