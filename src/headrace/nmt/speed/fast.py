"""The loss of `model.py` and its gradient in less time: the same numbers in another order of work.

Autograd would record and replay some twenty operations for each cell and step. Here

* each recurrence is one operation with its derivative written by hand (`recurrence.py`), over real words only;
* products that do not depend on the recurrence are one matrix product over all steps: words to gates, memory to keys,
  and, on the way back, the gradient of every weight;
* the attention layer's share of the context is applied to the memory once, instead of to the context at each step;
* logits exist for a few hundred words at a time, and turn into their own gradient in place.

Shapes are named as in `model.py` and `recurrence.py`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.attention import LuongAttention
from headrace.nmt.layers.cells import LSTMCell, Stack
from headrace.nmt.layers.gemm import linear, product
from headrace.nmt.layers.sampled import sampled_cross_entropy
from headrace.nmt.model import Batch, Decoder, Encoder, Masks, Seq2Seq
from headrace.nmt.speed.recurrence import (
    ROWS_OF_BATCH,
    AttentionDecoder,
    AttentionPlan,
    Layer,
    Packing,
    lay_out,
    pack,
    round_up,
)

__all__ = ["covers", "loss"]

_SHUT = 1e4  # the logistic function of minus this is 0, of this 1
ROWS_AT_ONCE = 256  # their logits should stay within the cache: 6 MB for 6,000 words

States = list[tuple[Tensor, Tensor]]  # c_BU and h_BU of each layer


def loss(model: Seq2Seq, batch: Batch, masks: Masks | None = None, *, padded: bool = False) -> Tensor:
    """Returns what `model.loss(batch, masks)` returns; its gradients come out of `backward()` in the same way.

    With a `compute_dtype` of 16 bits, matrix products outside of the recurrences take inputs of that precision where
    gradients are recorded; where there is no faster way, PyTorch's autocast says what does.

    Args:
        model: The model.
        batch: The batch.
        masks: Its dropout.
        padded: Compute the padding, too, so that the same operations are done for all batches of a shape, and none
            waits for the device: for models that are covered, and sources with words.
    """
    dtype = model.dtype
    if torch.is_grad_enabled() and model.hparams.compute_dtype != "float32":
        dtype = getattr(torch, model.hparams.compute_dtype)
    # Without words there is nothing to pack, which is rare enough to be left to the model.
    if not padded and (not covers(model.hparams) or model.spread or int(batch.src_len_B.min()) == 0):
        sixteen = dtype != model.dtype
        with torch.autocast(model.projection_UV.device.type, dtype) if sixteen else contextlib.nullcontext():
            return model.loss(batch, masks)
    assert isinstance(model.encoder, Encoder)
    assert isinstance(model.decoder, Decoder)
    encoder_masks, decoder_masks, candidates = masks or Masks(None, None)
    if padded:
        source = lay_out(batch.src_len_B, batch.src_BS.shape[1])
        target = lay_out(batch.tgt_len_B, batch.tgt_BT1.shape[1] - 1)
    else:
        source, target = pack(batch.src_len_B), pack(batch.tgt_len_B)
    x_NU, y_NU = model.embed(source.take(batch.src_BS.t()), target.take(batch.tgt_in_TB))
    # The encoder has the sentences in the order of their sources, the decoder in that of their targets.
    rank_B = torch.empty_like(target.order_B)
    rank_B[target.order_B] = torch.arange(len(rank_B), device=rank_B.device)
    to_target_B = rank_B[source.order_B]

    outputs, states = [], []
    for direction, stack in enumerate(model.encoder.stacks):
        layer_masks = None if encoder_masks is None else [source.take(mask) for mask in encoder_masks[direction]]
        turn_N = source.reversed_N if direction == 1 else slice(None)
        if layer_masks is not None:
            layer_masks = [mask_NU[turn_N] for mask_NU in layer_masks]
        output_NU, ends = _run_stack(stack, x_NU[turn_N], source, layer_masks, dtype)
        outputs.append(output_NU[turn_N])
        states.append(ends)
    memory_ND = torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0]

    decoder = model.decoder
    start = None
    if decoder.passes_state:
        from_source_B = to_target_B.argsort()
        encoded = [state for layer in zip(*states, strict=True) for state in layer]
        start = [(c_BU[from_source_B], h_BU[from_source_B]) for c_BU, h_BU in encoded]
    layer_masks = None if decoder_masks is None else [target.take(mask) for mask in decoder_masks]
    if decoder.attention is None:
        output_NU, _ = _run_stack(decoder.stack, y_NU, target, layer_masks, dtype, start)
    else:
        slot_N = (to_target_B[source.sentence_N] * len(source.slices) + source.step_N)[: source.real]
        output_NU = _run_attention(decoder, y_NU, target, layer_masks, dtype, start, memory_ND, source, slot_N)
    words_N = target.take(batch.tgt_out_TB)
    if candidates is not None:
        real = slice(target.real)
        losses_N = sampled_cross_entropy(output_NU[real], model.projection_UV, words_N[real], candidates)
        losses_N = losses_N if target.padding_N is None else losses_N * ~target.padding_N
        return losses_N.sum() / len(batch.src_BS)
    if target.padding_N is not None:  # on a device that has no use for logits that fit into a cache
        words_N = words_N.masked_fill(target.padding_N, -100)
        logits_NV = linear(output_NU, model.projection_UV, dtype=dtype)
        how = {"reduction": "sum", "label_smoothing": model.smoothing, "ignore_index": -100}
        return F.cross_entropy(logits_NV, words_N, **how) / len(batch.src_BS)  # type: ignore[arg-type]
    args = output_NU, model.projection_UV, words_N, target.real, dtype, model.smoothing
    total: Tensor = CrossEntropy.apply(*args)  # type: ignore[no-untyped-call]
    return total / len(batch.src_BS)


def covers(hparams: HParams) -> bool:
    """Says whether there is a faster way for a model of these settings."""
    return (
        hparams.architecture == "rnn"
        and hparams.unit_type == "lstm"
        and hparams.encoder_type in ("uni", "bi")
        and hparams.attention in ("", "luong", "scaled_luong")
        and hparams.attention_architecture == "standard"
        and not hparams.language_model
        and not hparams.source_reverse
    )


def lstm_cells(stack: Stack) -> list[LSTMCell]:
    """Returns the cells of a stack of the only type that there is a fast way for."""
    return [cell for cell in stack.cells if isinstance(cell, LSTMCell)]


def _sigmoid_weights(cell: LSTMCell) -> tuple[Tensor, Tensor]:
    """Returns kernel and bias of a cell for gates that are all sigmoids, the forget bias included."""
    units = len(cell.bias_G) // 4
    doubled_G, forget_G = torch.ones_like(cell.bias_G), torch.zeros_like(cell.bias_G)
    doubled_G[units : 2 * units] = 2.0
    forget_G[2 * units : 3 * units] = cell.forget_bias
    return cell.kernel_IG * doubled_G, cell.bias_G * doubled_G + forget_G


def _run_stack(
    stack: Stack,
    x_NU: Tensor,
    packing: Packing,
    masks: Sequence[Tensor] | None,
    dtype: torch.dtype,
    start: States | None = None,
) -> tuple[Tensor, States]:
    """Runs one layer after the other over all steps; returns the top outputs and each layer's last states."""
    zero_BU = x_NU.new_zeros(len(packing.order_B), stack.units)
    ends = []
    for layer, cell in enumerate(lstm_cells(stack)):
        kernel_IG, bias_G = _sigmoid_weights(cell)
        width = x_NU.shape[1]
        dropped_NU = x_NU if masks is None else x_NU * masks[layer]
        gates_NG = linear(dropped_NU, kernel_IG[:width], bias_G, dtype)
        if packing.padding_N is not None:  # nothing comes into c there, and nothing is forgotten: it stays
            hold_G = torch.zeros_like(bias_G)
            hold_G[: stack.units], hold_G[2 * stack.units : 3 * stack.units] = -_SHUT, _SHUT
            gates_NG = gates_NG + packing.padding_N[:, None] * hold_G
        c_BU, h_BU = (zero_BU, zero_BU) if start is None else start[layer]
        h_NU, c_BU = Layer.apply(gates_NG, kernel_IG[width:], c_BU, h_BU, packing)  # type: ignore[no-untyped-call]
        ends.append((c_BU, h_NU[packing.last_B]))
        x_NU = h_NU + x_NU if stack.residuals and layer > 0 else h_NU
    return x_NU, ends


def _run_attention(
    decoder: Decoder,
    y_NU: Tensor,
    packing: Packing,
    masks: list[Tensor] | None,
    dtype: torch.dtype,
    start: States | None,
    memory_ND: Tensor,
    source: Packing,
    slot_N: Tensor,
) -> Tensor:
    """Runs the decoder with attention over all steps; `slot_N` is the place of each memory row in (B, S)."""
    attention, units = decoder.attention, decoder.stack.units
    assert isinstance(attention, LuongAttention)
    assert attention.layer_CU is not None
    batch, longest = len(packing.order_B), len(source.slices)

    def spread(rows_NU: Tensor) -> Tensor:
        spread_NU = rows_NU.new_zeros(batch * longest, units).index_copy(0, slot_N, rows_NU[: source.real])
        return spread_NU.view(batch, longest, units)

    keys_NU = linear(memory_ND, attention.memory_layer_DU, dtype=dtype)
    if attention.scale is not None:
        keys_NU = keys_NU * attention.scale
    contexts_NU = linear(memory_ND, attention.layer_CU[units:], dtype=dtype)
    if source.padding_N is not None:
        shut_BS = torch.zeros_like(keys_NU[:, 0]).masked_fill(source.padding_N, -math.inf).view(longest, batch).t()
    else:
        shut_BS = keys_NU.new_full((batch * longest,), -math.inf)
        shut_BS[slot_N] = 0.0

    kernels, biases = zip(*(_sigmoid_weights(cell) for cell in lstm_cells(decoder.stack)), strict=True)
    words_NU = y_NU if masks is None else y_NU * masks[0][:, :units]
    zero_BU = y_NU.new_zeros(batch, units)
    plan = AttentionPlan(
        packing,
        decoder.stack.residuals > 0,
        decoder.output_attention,
        [None] * len(kernels) if masks is None else [mask[:, -units:] for mask in masks],
        shut_BS.reshape(batch, longest),
    )
    output_NU: Tensor = AttentionDecoder.apply(  # type: ignore[no-untyped-call]
        plan,
        linear(words_NU, kernels[0][:units], biases[0], dtype),
        spread(keys_NU),
        spread(contexts_NU),
        attention.layer_CU[:units],
        *(kernels[0][units:], *kernels[1:]),
        *biases[1:],
        *(tensor for state in start or [(zero_BU, zero_BU)] * len(kernels) for tensor in state),
    )
    return output_NU


class CrossEntropy(Function):
    """The cross-entropy of the first `real` words, summed.

    `apply(output_NU, projection_UV, words_N, real, dtype, smoothing)`

    Makes the gradients on the way, as the logits are not kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        output_NU: Tensor,
        projection_UV: Tensor,
        words_N: Tensor,
        real: int,
        dtype: torch.dtype,
        smoothing: float,
    ) -> Tensor:
        """Returns the sum."""
        wanted = any(ctx.needs_input_grad)
        weight_UV = projection_UV.to(dtype)
        total = output_NU.new_zeros(())
        d_output_NU = torch.zeros_like(output_NU) if wanted else None
        d_projection_UV = torch.zeros_like(projection_UV) if wanted else None
        for start in range(0, real, ROWS_AT_ONCE):
            rows = slice(start, min(start + ROWS_AT_ONCE, round_up(real, ROWS_OF_BATCH)))
            x_NU, right_N1 = output_NU[rows].to(dtype), words_N[rows, None]
            logits_NV = product(x_NU, weight_UV)
            d_logits_NV = torch.softmax(logits_NV, dim=1, dtype=output_NU.dtype)
            right_p_N1 = d_logits_NV.gather(1, right_N1)[: real - start]
            if smoothing:
                log_p_NV = torch.log_softmax(logits_NV, dim=1, dtype=output_NU.dtype)[: real - start]
                total -= (1.0 - smoothing) * log_p_NV.gather(1, right_N1[: real - start]).sum()
                total -= smoothing * log_p_NV.mean(dim=1).sum()
                d_logits_NV -= smoothing / d_logits_NV.shape[1]
            elif right_p_N1.min() < 1e-30:  # about to vanish: a bad start can be that sure of the wrong words
                log_p_NV = torch.log_softmax(logits_NV, dim=1, dtype=output_NU.dtype)
                total -= log_p_NV.gather(1, right_N1)[: real - start].sum()
            else:
                total -= right_p_N1.log_().sum()
            if d_output_NU is not None and d_projection_UV is not None:
                d_logits_NV.scatter_add_(1, right_N1, d_logits_NV.new_full(right_N1.shape, smoothing - 1.0))
                d_logits_NV[real - start :] = 0.0
                d_logits_NV = d_logits_NV.to(dtype)
                d_output_NU[rows] = product(d_logits_NV, weight_UV.t())
                d_projection_UV += product(x_NU.t(), d_logits_NV)
        ctx.gradients = d_output_NU, d_projection_UV
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        """Hands out the gradients."""
        d_output_NU, d_projection_UV = ctx.gradients
        return d_output_NU.mul_(d_total), d_projection_UV.mul_(d_total), None, None, None, None
