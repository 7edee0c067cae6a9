"""Weights by the names that tensorflow/nmt gives them, so that its trained models can be loaded, and ours compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.nmt.model import Seq2Seq, Stack

__all__ = ["export_gradients", "export_variables", "import_variables"]


def named_weights(model: Seq2Seq) -> Iterator[tuple[str, Tensor]]:
    """Yields each weight of a model with its name in tensorflow/nmt; the layouts are the same."""
    if model.hparams.share_vocab:
        yield "embeddings/embedding_share", model.src_embedding_VU
    else:
        yield "embeddings/encoder/embedding_encoder", model.src_embedding_VU
        yield "embeddings/decoder/embedding_decoder", model.tgt_embedding_VU
    root = "dynamic_seq2seq"
    if len(model.encoder.stacks) == 1:
        yield from _stack(f"{root}/encoder/rnn", model.encoder.stacks[0])
    else:
        for direction, stack in zip(("fw", "bw"), model.encoder.stacks, strict=True):
            yield from _stack(f"{root}/encoder/bidirectional_rnn/{direction}", stack)
    decoder = model.decoder
    if decoder.attention is None:
        yield from _stack(f"{root}/decoder", decoder.stack)
    else:
        yield f"{root}/decoder/memory_layer/kernel", decoder.attention.memory_layer_DU
        yield from _stack(f"{root}/decoder/attention", decoder.stack)
        if decoder.attention.scale is not None:
            yield f"{root}/decoder/attention/luong_attention/attention_g", decoder.attention.scale
        yield f"{root}/decoder/attention/attention_layer/kernel", decoder.attention.layer_CU
    yield f"{root}/decoder/output_projection/kernel", model.projection_UV


def _stack(scope: str, stack: Stack) -> Iterator[tuple[str, Tensor]]:
    for layer, cell in enumerate(stack.cells):
        inner = f"multi_rnn_cell/cell_{layer}/" if len(stack.cells) > 1 else ""
        yield f"{scope}/{inner}basic_lstm_cell/kernel", cell.kernel_IG
        yield f"{scope}/{inner}basic_lstm_cell/bias", cell.bias_G


def import_variables(model: Seq2Seq, variables: Mapping[str, NDArray[np.float32]]) -> None:
    """Overwrites all weights of a model with those of a tensorflow/nmt model of the same settings.

    Args:
        model: The model to fill.
        variables: Arrays by variable name, as `tf.train.load_checkpoint` or an `.npz` file gives them.

    Raises:
        ValueError: A weight is missing, left over, or of another shape; the message names all of them. The model is
            then as before.
    """
    weights = dict(named_weights(model))
    troubles = [f"missing {name}" for name in weights if name not in variables]
    troubles += [f"not in this model: {name}" for name in variables if name not in weights]
    for name, weight in weights.items():
        if name in variables and variables[name].shape != tuple(weight.shape):
            troubles.append(f"{name} should be of shape {tuple(weight.shape)}, got {variables[name].shape}")
    if troubles:
        raise ValueError("these weights do not fit the model's settings: " + "; ".join(troubles))
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(torch.from_numpy(np.asarray(variables[name], dtype=np.float32)))


def export_variables(model: Seq2Seq) -> dict[str, NDArray[np.float32]]:
    """Returns copies of all weights by their names in tensorflow/nmt."""
    return {name: weight.detach().cpu().numpy().copy() for name, weight in named_weights(model)}


def export_gradients(model: Seq2Seq) -> dict[str, NDArray[np.float32]]:
    """Returns copies of all gradients by the names of their weights in tensorflow/nmt."""
    gradients = {}
    for name, weight in named_weights(model):
        gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad.to_dense()
        gradients[name] = gradient.detach().cpu().numpy().copy()
    return gradients
