"""The loss of `model.py` and its gradient in less time: the same numbers, with the derivatives written by hand.

Autograd records and replays some twenty operations a cell and step. Here each recurrence is one operation, in which

* products that do not depend on the recurrence are one matrix product over all steps: words to gates, memory to keys,
  and, in the backward pass, every gradient of a weight;
* one sigmoid serves all four gates, as tanh(x) = 2 sigmoid(2 x) - 1: the candidate's columns are doubled beforehand;
* padding needs no selection between states: a closed input gate and an open forget gate keep the cell as it is;
* the part of the attention layer that sees the context is applied to the memory once instead of to each context;
* logits exist for a few hundred words at a time, and turn into their own gradient in place.

Shapes are named as in `model.py`; N is all predicted words of a batch in a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from headrace.nmt.gemm import linear, product, product_plus
from headrace.nmt.model import Batch, Decoder, LSTMCell, Masks, Seq2Seq, Stack, steps

__all__ = ["loss"]

ROWS_AT_ONCE = 256  # their logits should stay within the cache: 6 MB for 6,000 words


def loss(model: Seq2Seq, batch: Batch, masks: Masks | None = None) -> Tensor:
    """Returns what `model.loss(batch, masks)` returns; its gradients come out of `backward()` in the same way.

    Matrix products outside of the recurrences are in the precision of the model's `compute_dtype`.
    """
    dtype = torch.bfloat16 if model.hparams.compute_dtype == "bfloat16" else torch.float32
    encoder_masks, decoder_masks = masks or Masks(None, None)
    x_SBU, y_TBU = model.embed(batch)
    real_SB = steps(len(x_SBU), batch.src_len_B)

    outputs, states = [], []
    for direction, stack in enumerate(model.encoder.stacks):
        assert isinstance(stack, Stack)
        flip = [0] if direction == 1 else []
        last_B = torch.full_like(batch.src_len_B, len(x_SBU) - 1) if flip else (batch.src_len_B - 1).clamp(min=0)
        dropped = encoder_masks and encoder_masks[direction]
        output_SBU, state = _run_stack(stack, x_SBU.flip(flip), dropped, dtype, None, real_SB.flip(flip), last_B)
        outputs.append(output_SBU.flip(flip))
        states.append(state)
    memory_SBD = torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0]
    encoded = [state for layer in zip(*states, strict=True) for state in layer]

    decoder = model.decoder
    start = encoded if decoder.passes_state else [(torch.zeros_like(h_BU),) * 2 for _, h_BU in encoded[:1]]
    start = start * (1 if decoder.passes_state else len(decoder.stack.cells))
    if decoder.attention is None:
        output_TBU, _ = _run_stack(decoder.stack, y_TBU, decoder_masks, dtype, start)
    else:
        output_TBU = _run_attention(decoder, y_TBU, memory_SBD, real_SB, start, decoder_masks, dtype)

    counted_N = batch.real_TB.flatten().nonzero().squeeze(1)
    output_NU = output_TBU.flatten(0, 1)[counted_N]
    words_N = batch.tgt_out_TB.flatten()[counted_N]
    total: Tensor = _CrossEntropy.apply(output_NU, model.projection_UV, words_N, dtype)
    return total / len(batch.src_BS)


def _scaled(cell: LSTMCell) -> tuple[Tensor, Tensor]:
    """Returns kernel and bias of a cell for gates that are all sigmoids, the forget bias included."""
    units = cell.bias_G.shape[0] // 4
    doubled_4 = torch.tensor([1.0, 2.0, 1.0, 1.0]).repeat_interleave(units)
    forget_4 = torch.tensor([0.0, 0.0, cell.forget_bias, 0.0]).repeat_interleave(units)
    return cell.kernel_IG * doubled_4, cell.bias_G * doubled_4 + forget_4


def _run_stack(
    stack: Stack,
    x_TBU: Tensor,
    masks: Sequence[Tensor] | None,
    dtype: torch.dtype,
    start: Sequence[tuple[Tensor, Tensor]] | None = None,
    real_TB: Tensor | None = None,
    last_B: Tensor | None = None,
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Runs one layer after the other over all steps; returns the top outputs and each layer's state at `last_B`."""
    states = []
    for layer, cell in enumerate(stack.cells):
        assert isinstance(cell, LSTMCell)
        kernel_IG, bias_G = _scaled(cell)
        width = x_TBU.shape[2]
        dropped_TBU = x_TBU if masks is None else x_TBU * masks[layer]
        gates_TBG = linear(dropped_TBU, kernel_IG[:width], bias_G, dtype)
        zero_BU = x_TBU.new_zeros(x_TBU.shape[1], stack.units)
        c_BU, h_BU = (zero_BU, zero_BU) if start is None else start[layer]
        h_TBU, c_BU = _Layer.apply(gates_TBG, kernel_IG[width:], c_BU, h_BU, real_TB)
        if last_B is not None:
            states.append((c_BU, h_TBU[last_B, torch.arange(len(last_B))]))
        x_TBU = h_TBU + x_TBU if stack.residual and layer > 0 else h_TBU
    return x_TBU, states


def _cell(gates_BG: Tensor, c_BU: Tensor, h_BU: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Goes one step, writing the output to `h_BU`; returns the candidate, the next c and its tanh."""
    i_BU, j_BU, f_BU, o_BU = gates_BG.sigmoid_().chunk(4, dim=1)
    candidate_BU = torch.mul(j_BU, 2.0).sub_(1.0)
    c_BU = torch.mul(c_BU, f_BU).addcmul_(candidate_BU, i_BU)
    tanh_BU = torch.mul(c_BU, 2.0).sigmoid_().mul_(2.0).sub_(1.0)
    torch.mul(tanh_BU, o_BU, out=h_BU)
    return candidate_BU, c_BU, tanh_BU


def _cell_backward(
    d_gates_BG: Tensor, dh_BU: Tensor, dc_BU: Tensor, gates_BG: Tensor, before_BU: Tensor, saved: tuple[Tensor, Tensor]
) -> None:
    """Goes one step back: fills `d_gates_BG`, and turns `dc_BU` from after the step to before it."""
    i_BU, _, f_BU, o_BU = gates_BG.chunk(4, dim=1)
    di_BU, dj_BU, df_BU, do_BU = d_gates_BG.chunk(4, dim=1)
    candidate_BU, tanh_BU = saved
    torch.mul(dh_BU, tanh_BU, out=do_BU)
    through_BU = torch.mul(dh_BU, o_BU)
    dc_BU.add_(through_BU).addcmul_(through_BU.mul_(tanh_BU), tanh_BU, value=-1.0)  # times 1 - tanh²
    torch.mul(dc_BU, candidate_BU, out=di_BU)
    torch.mul(dc_BU, i_BU, out=dj_BU).mul_(2.0)
    torch.mul(dc_BU, before_BU, out=df_BU)
    d_gates_BG.mul_(torch.addcmul(gates_BG, gates_BG, gates_BG, value=-1.0))  # the sigmoids' derivative
    dc_BU.mul_(f_BU)


class _Layer(Function):
    """One LSTM layer over all steps, given the input's share of the gates."""

    @staticmethod
    def forward(
        ctx: Any, gates_TBG: Tensor, kernel_UG: Tensor, c_BU: Tensor, h_BU: Tensor, real_TB: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        n, batch, units = len(gates_TBG), *c_BU.shape
        h_TBU = gates_TBG.new_empty(n + 1, batch, units)
        h_TBU[0] = h_BU
        cells, gates, saved = [c_BU], [], []
        partial = [] if real_TB is None else (~real_TB.all(dim=1)).tolist()
        for t in range(n):
            gates_BG = product_plus(h_TBU[t], kernel_UG, gates_TBG[t])
            if real_TB is not None and partial[t]:
                ended_B1 = ~real_TB[t][:, None]
                gates_BG[:, :units].masked_fill_(ended_B1, -1e9)  # let nothing in
                gates_BG[:, 2 * units : 3 * units].masked_fill_(ended_B1, 1e9)  # forget nothing
            candidate_BU, c_BU, tanh_BU = _cell(gates_BG, c_BU, h_TBU[t + 1])
            cells.append(c_BU)
            gates.append(gates_BG)
            saved.append((candidate_BU, tanh_BU))
        ctx.save_for_backward(kernel_UG)
        ctx.steps = h_TBU, cells, gates, saved
        return h_TBU[1:], c_BU

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_output_TBU: Tensor, dc_BU: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        (kernel_UG,) = ctx.saved_tensors
        h_TBU, cells, gates, saved = ctx.steps
        d_gates_TBG = torch.empty(len(gates), *gates[0].shape)
        dc_BU, dh_BU = dc_BU.clone(), d_output_TBU[-1]
        for t in range(len(gates) - 1, -1, -1):
            _cell_backward(d_gates_TBG[t], dh_BU, dc_BU, gates[t], cells[t], saved[t])
            to_BU = d_output_TBU[t - 1] if t > 0 else torch.zeros_like(dh_BU)
            dh_BU = product_plus(d_gates_TBG[t], kernel_UG.t(), to_BU)
        d_kernel_UG = product(h_TBU[:-1].flatten(0, 1).t(), d_gates_TBG.flatten(0, 1))
        return d_gates_TBG, d_kernel_UG, dc_BU, dh_BU, None


def _run_attention(
    decoder: Decoder,
    y_TBU: Tensor,
    memory_SBD: Tensor,
    real_SB: Tensor,
    start: Sequence[tuple[Tensor, Tensor]],
    masks: Sequence[Tensor] | None,
    dtype: torch.dtype,
) -> Tensor:
    """Runs the decoder with attention and input feeding over all steps; returns what predicts the words."""
    attention, layer_QU = decoder.attention, decoder.attention_layer_QU
    assert attention is not None
    assert layer_QU is not None
    units = decoder.stack.units
    keys_SBU = linear(memory_SBD, attention.memory_layer_DU, dtype=dtype)
    if attention.scale is not None:
        keys_SBU = keys_SBU * attention.scale
    contexts_SBU = linear(memory_SBD, layer_QU[units:], dtype=dtype)
    shut_BS = torch.zeros(real_SB.shape).masked_fill_(~real_SB, -math.inf).t()
    shut_BS[:, 0] = 0.0  # as in the model: an empty source has one step

    kernels, biases = zip(*(_scaled(cell) for cell in decoder.stack.cells), strict=True)
    words_TBU = y_TBU if masks is None else y_TBU * masks[0][:, :, :units]
    gates_TBG = linear(words_TBU, kernels[0][:units], biases[0], dtype)
    others = [None if masks is None else mask[:, :, -units:] for mask in masks or [None] * len(kernels)]
    output_TBU: Tensor = _AttentionDecoder.apply(
        (decoder.stack.residual, decoder.output_attention, others, shut_BS),
        gates_TBG,
        keys_SBU.transpose(0, 1).contiguous(),
        contexts_SBU.transpose(0, 1).contiguous(),
        layer_QU[:units],
        *(kernels[0][units:], *kernels[1:]),
        *biases[1:],
        *(tensor for state in start for tensor in state),
    )
    return output_TBU


class _AttentionDecoder(Function):
    """All steps of the decoder. Each layer's kernel is for [its dropped input, its last output], 2 U wide.

    The bottom layer's input is the last attention vector only: `gates_TBG` holds the words' share.
    """

    @staticmethod
    def forward(
        ctx: Any, plan: Any, gates_TBG: Tensor, keys_BSU: Tensor, contexts_BSU: Tensor, query_UU: Tensor, *rest: Tensor
    ) -> Tensor:
        residual, output_attention, masks, shut_BS = plan
        layers = (len(rest) + 1) // 4
        kernels, biases, start = rest[:layers], rest[layers : 2 * layers - 1], rest[2 * layers - 1 :]
        n, batch, units = len(gates_TBG), *start[0].shape
        # Step t reads inputs[layer][t] = [dropped input, last output] and writes its output to the next row.
        inputs = [gates_TBG.new_empty(n + 1, batch, 2 * units) for _ in range(layers)]
        cells = [[start[2 * layer]] for layer in range(layers)]
        for layer in range(layers):
            inputs[layer][0, :, units:] = start[2 * layer + 1]
        keys_BUS = keys_BSU.transpose(1, 2)
        attention_TBU, query_TBU = gates_TBG.new_empty(n, batch, units), gates_TBG.new_empty(n, batch, units)
        weights_TBS = gates_TBG.new_empty(n, *shut_BS.shape)
        gates: list[list[Tensor]] = []
        saved: list[list[tuple[Tensor, Tensor]]] = []
        x_BU = torch.zeros_like(start[0])
        for t in range(n):
            gates.append([])
            saved.append([])
            for layer in range(layers):
                fed_BI = inputs[layer][t]
                if masks[layer] is None:
                    fed_BI[:, :units] = x_BU
                else:
                    torch.mul(x_BU, masks[layer][t], out=fed_BI[:, :units])
                gates_BG = product_plus(fed_BI, kernels[layer], gates_TBG[t] if layer == 0 else biases[layer - 1])
                h_BU = inputs[layer][t + 1, :, units:]
                candidate_BU, c_BU, tanh_BU = _cell(gates_BG, cells[layer][-1], h_BU)
                cells[layer].append(c_BU)
                gates[t].append(gates_BG)
                saved[t].append((candidate_BU, tanh_BU))
                x_BU = h_BU + x_BU if residual and layer > 0 else h_BU
            query_TBU[t] = x_BU
            scores_BS = torch.bmm(query_TBU[t][:, None], keys_BUS)[:, 0].add_(shut_BS)
            torch.softmax(scores_BS, dim=1, out=weights_TBS[t])
            context_BU = torch.bmm(weights_TBS[t][:, None], contexts_BSU)[:, 0]
            x_BU = product_plus(query_TBU[t], query_UU, context_BU)
            attention_TBU[t] = x_BU
        ctx.plan = plan
        ctx.save_for_backward(keys_BSU, contexts_BSU, query_UU, *kernels)
        ctx.steps = inputs, cells, gates, saved, query_TBU, weights_TBS
        return attention_TBU if output_attention else query_TBU

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output_TBU: Tensor) -> tuple[Tensor | None, ...]:
        residual, output_attention, masks, _ = ctx.plan
        keys_BSU, contexts_BSU, query_UU, *kernels = ctx.saved_tensors
        inputs, cells, gates, saved, query_TBU, weights_TBS = ctx.steps
        n, batch, units = query_TBU.shape
        layers = len(kernels)
        d_gates = [torch.empty(n, batch, 4 * units) for _ in range(layers)]
        d_attention_TBU, d_scores_TBS = torch.empty_like(query_TBU), torch.empty_like(weights_TBS)
        contexts_BUS = contexts_BSU.transpose(1, 2)
        dc = [torch.zeros_like(cells[layer][0]) for layer in range(layers)]
        dh = [torch.zeros_like(cells[layer][0]) for layer in range(layers)]
        d_fed_BU = torch.zeros_like(dc[0])  # of the attention vector, from the step after
        for t in range(n - 1, -1, -1):
            da_BU = d_attention_TBU[t]
            if output_attention:
                torch.add(d_fed_BU, d_output_TBU[t], out=da_BU)
            else:
                da_BU.copy_(d_fed_BU)
            d_weights_BS = torch.bmm(da_BU[:, None], contexts_BUS)[:, 0]
            d_scores_BS = torch._softmax_backward_data(d_weights_BS, weights_TBS[t], 1, torch.float32)
            d_scores_TBS[t] = d_scores_BS
            dx_BU = product_plus(da_BU, query_UU.t(), torch.bmm(d_scores_BS[:, None], keys_BSU)[:, 0])
            if not output_attention:
                dx_BU.add_(d_output_TBU[t])
            for layer in range(layers - 1, -1, -1):
                dh[layer].add_(dx_BU)
                d_gates_BG = d_gates[layer][t]
                _cell_backward(d_gates_BG, dh[layer], dc[layer], gates[t][layer], cells[layer][t], saved[t][layer])
                d_fed_BI = product(d_gates_BG, kernels[layer].t())
                dh[layer] = d_fed_BI[:, units:]
                below_BU = d_fed_BI[:, :units]
                if masks[layer] is not None:
                    below_BU.mul_(masks[layer][t])
                dx_BU = below_BU.add_(dx_BU) if residual and layer > 0 else below_BU
            d_fed_BU = dx_BU
        d_keys_BSU = torch.bmm(d_scores_TBS.permute(1, 2, 0), query_TBU.transpose(0, 1))
        d_contexts_BSU = torch.bmm(weights_TBS.permute(1, 2, 0), d_attention_TBU.transpose(0, 1))
        d_query_UU = product(query_TBU.flatten(0, 1).t(), d_attention_TBU.flatten(0, 1))
        d_kernels = [product(inputs[k][:-1].flatten(0, 1).t(), d_gates[k].flatten(0, 1)) for k in range(layers)]
        d_biases = [d_gates_TBG.sum(dim=(0, 1)) for d_gates_TBG in d_gates[1:]]
        d_start = [tensor for pair in zip(dc, dh, strict=True) for tensor in pair]
        return None, d_gates[0], d_keys_BSU, d_contexts_BSU, d_query_UU, *d_kernels, *d_biases, *d_start


class _CrossEntropy(Function):
    """The cross-entropy of the right words, summed; makes the gradients on the way, as the logits are not kept."""

    @staticmethod
    def forward(ctx: Any, output_NU: Tensor, projection_UV: Tensor, words_N: Tensor, dtype: torch.dtype) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        weight_UV = projection_UV.to(dtype)
        total = output_NU.new_zeros(())
        d_output_NU = torch.empty_like(output_NU) if wanted else None
        d_projection_UV = torch.zeros_like(projection_UV) if wanted else None
        for start in range(0, len(words_N), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            x_NU, right_N1 = output_NU[rows].to(dtype), words_N[rows, None]
            d_logits_NV = torch.softmax(product(x_NU, weight_UV), dim=1, dtype=torch.float32)
            total -= d_logits_NV.gather(1, right_N1).clamp_(min=1e-38).log_().sum()
            if d_output_NU is not None and d_projection_UV is not None:
                d_logits_NV.scatter_add_(1, right_N1, d_logits_NV.new_full(right_N1.shape, -1.0))
                d_logits_NV = d_logits_NV.to(dtype)
                d_output_NU[rows] = product(d_logits_NV, weight_UV.t())
                d_projection_UV += product(x_NU.t(), d_logits_NV)
        ctx.gradients = d_output_NU, d_projection_UV
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor) -> tuple[Tensor, Tensor, None, None]:
        d_output_NU, d_projection_UV = ctx.gradients
        return d_output_NU.mul_(d_total), d_projection_UV.mul_(d_total), None, None
