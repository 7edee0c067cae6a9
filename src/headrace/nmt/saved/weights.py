"""Weights by the names that tensorflow/nmt gives them, so that its trained models can be loaded, and ours compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.nmt.layers.attention import AttentionMechanism, BahdanauAttention, LuongAttention
from headrace.nmt.layers.cells import Cell, CudnnGRUCell, GRUCell, LayerNormLSTMCell, LSTMCell, NASCell, Stack
from headrace.nmt.model import Decoder, Encoder, Seq2Seq

__all__ = ["export_gradients", "export_variables", "import_variables"]


def named_weights(model: Seq2Seq) -> Iterator[tuple[str, Tensor]]:
    """Yields each weight of a model with its name in tensorflow/nmt; the layouts are the same.

    Raises:
        ValueError: It has no such models.
    """
    if model.hparams.tied_embeddings or not isinstance(model.decoder, Decoder):
        raise ValueError("tensorflow/nmt has neither a Transformer nor tied_embeddings: there are no names for these")
    if model.hparams.share_vocab:
        yield "embeddings/embedding_share", model.src_embedding_VU
    else:
        if model.chars is None:
            yield "embeddings/encoder/embedding_encoder", model.src_embedding_VU
        else:  # which the original leaves to others
            yield from ((f"embeddings/encoder/char/{name}", weight) for name, weight in model.chars.named_parameters())
        yield "embeddings/decoder/embedding_decoder", model.tgt_embedding_VU
    root, encoder, decoder = "dynamic_seq2seq", model.encoder, model.decoder
    if isinstance(encoder, Encoder):
        both = len(encoder.stacks) == 2
        for direction, stack in zip(("fw", "bw"), encoder.stacks, strict=False):
            yield from _stack(f"{root}/encoder/{f'bidirectional_rnn/{direction}' if both else 'rnn'}", stack)
        if encoder.top is not None:
            yield from _stack(f"{root}/encoder/rnn", encoder.top)
    if decoder.attention is None:
        yield from _stack(f"{root}/decoder", decoder.stack)
    elif decoder.architecture == "standard":
        yield from _stack(f"{root}/decoder/attention", decoder.stack)
        yield from _attention(f"{root}/decoder", "attention", decoder.attention)
    else:  # there, only the bottom cell is wrapped with attention
        wrapped = "multi_rnn_cell/cell_0_attention/attention"
        yield from _cell(f"{root}/decoder/{wrapped}", decoder.stack.cells[0])
        yield from _attention(f"{root}/decoder", wrapped, decoder.attention)
        for layer, cell in enumerate(decoder.stack.cells[1:], 1):
            yield from _cell(f"{root}/decoder/multi_rnn_cell/cell_{layer}", cell)
    yield f"{root}/decoder/output_projection/kernel", model.projection_UV


def _attention(scope: str, wrapped: str, attention: AttentionMechanism) -> Iterator[tuple[str, Tensor]]:
    yield f"{scope}/memory_layer/kernel", attention.memory_layer_DU
    if attention.layer_CU is not None:
        yield f"{scope}/{wrapped}/attention_layer/kernel", attention.layer_CU
    if isinstance(attention, LuongAttention) and attention.scale is not None:
        yield f"{scope}/{wrapped}/luong_attention/attention_g", attention.scale
    if isinstance(attention, BahdanauAttention):
        inner = f"{scope}/{wrapped}/bahdanau_attention"
        yield f"{inner}/query_layer/kernel", attention.query_layer_UU
        yield f"{inner}/attention_v", attention.v_U
        if attention.length is not None and attention.bias_U is not None:
            yield f"{inner}/attention_g", attention.length
            yield f"{inner}/attention_b", attention.bias_U


def _stack(scope: str, stack: Stack) -> Iterator[tuple[str, Tensor]]:
    for layer, cell in enumerate(stack.cells):
        yield from _cell(f"{scope}/multi_rnn_cell/cell_{layer}" if len(stack.cells) > 1 else scope, cell)


def _cell(scope: str, cell: Cell) -> Iterator[tuple[str, Tensor]]:
    match cell:
        case LSTMCell():
            yield f"{scope}/basic_lstm_cell/kernel", cell.kernel_IG
            yield f"{scope}/basic_lstm_cell/bias", cell.bias_G
        case LayerNormLSTMCell():
            yield f"{scope}/layer_norm_basic_lstm_cell/kernel", cell.kernel_IG
            for part, norm in zip(_NORMED, cell.norms, strict=True):
                yield f"{scope}/layer_norm_basic_lstm_cell/{part}/gamma", norm.weight
                yield f"{scope}/layer_norm_basic_lstm_cell/{part}/beta", norm.bias
        case GRUCell():
            yield f"{scope}/gru_cell/gates/kernel", cell.gates_kernel
            yield f"{scope}/gru_cell/gates/bias", cell.gates_bias
            yield f"{scope}/gru_cell/candidate/kernel", cell.candidate_kernel_IU
            yield f"{scope}/gru_cell/candidate/bias", cell.candidate_bias_U
        case CudnnGRUCell():
            inner = f"{scope}/cudnn_compatible_gru_cell"
            yield f"{inner}/gates/kernel", cell.gates_kernel
            yield f"{inner}/gates/bias", cell.gates_bias
            yield f"{inner}/candidate/input_projection/kernel", cell.input_kernel_IU
            yield f"{inner}/candidate/input_projection/bias", cell.input_bias_U
            yield f"{inner}/candidate/hidden_projection/kernel", cell.hidden_kernel_UU
            yield f"{inner}/candidate/hidden_projection/bias", cell.hidden_bias_U
        case NASCell():
            yield f"{scope}/nas_cell/kernel", cell.kernel
            yield f"{scope}/nas_cell/recurrent_kernel", cell.recurrent_kernel


_NORMED = ("input", "transform", "forget", "output", "state")  # what a layer_norm_lstm norms, in its order


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
