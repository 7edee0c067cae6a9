"""LSTM recurrences over the steps of a batch, each one differentiable operation with its derivative written by hand.

Rows are packed: the sentences of a batch are sorted by length, the longest first, and the rows of step 0 are followed
by those of step 1, which are fewer, and so on, so that padding takes no part. A letter beyond those of `model.py`:

    N packed rows, all real steps of a batch: those of step t are the first n sentences in the sorted order

The kernels of a matrix product are compiled for each new shape, which takes longer than the product. So that shapes
recur, N is rounded up with rows that mean nothing, and get no gradient; and a product at one step also takes some rows
after those of the step, whose results are dropped.

All four gates are sigmoids here, as tanh(x) = 2 sigmoid(2 x) - 1: whoever makes a kernel doubles the candidate's
columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headrace.nmt.layers.gemm import product, product_plus
from headrace.nmt.model import steps

__all__ = ["AttentionDecoder", "Layer", "Packing", "lay_out", "pack"]


ROWS_OF_BATCH, ROWS_OF_STEP = 64, 16  # what the numbers of rows are rounded up to


def round_up(n: int, multiple: int) -> int:
    """Returns the least multiple that is not below n."""
    return -(-n // multiple) * multiple


@dataclass(frozen=True)
class Packing:
    """Where the real steps of a batch are in its packed rows."""

    order_B: Tensor  # sentences from the longest to the shortest
    real: int  # rows with a meaning: the first ones
    slices: list[slice]  # rows of each step
    wide: list[slice]  # rows that a product at each step takes
    step_N: Tensor  # of each row its step,
    sentence_N: Tensor  # and its sentence in the sorted order
    previous_N: Tensor  # rows of the step before, for all rows but those of step 0
    last_B: Tensor  # last row of each sorted sentence
    reversed_N: Tensor  # reads each sentence from its end
    padding_N: Tensor | None = None  # which rows are padding, where that is laid out, too

    def empty(self, like: Tensor, width: int) -> Tensor:
        """Makes packed rows to be filled; those without a meaning are zero."""
        rows = like.new_empty(len(self.step_N), width)
        rows[self.real :] = 0.0
        return rows

    def take(self, x_TB: Tensor) -> Tensor:
        """Packs the real steps of a padded tensor (T, B, ...) in the batch's own order."""
        return x_TB[self.step_N, self.order_B[self.sentence_N]]

    def pad(self, x_N: Tensor) -> Tensor:
        """Returns packed rows as (T, B, ...) in the sorted order, zeros at the padding."""
        padded = x_N.new_zeros(len(self.slices), len(self.order_B), *x_N.shape[1:])
        padded[self.step_N[: self.real], self.sentence_N[: self.real]] = x_N[: self.real]
        return padded


def pack(lengths_B: Tensor) -> Packing:
    """Lays out the steps of sentences that each have at least one."""
    sorted_B, order_B = lengths_B.sort(descending=True, stable=True)
    real_TB = steps(int(sorted_B[0]), sorted_B)
    step_N, sentence_N = real_TB.nonzero(as_tuple=True)
    ends_T = real_TB.sum(dim=1).cumsum(dim=0)
    starts_T = torch.cat([ends_T.new_zeros(1), ends_T[:-1]])
    batch, real = len(lengths_B), len(step_N)
    slices = [slice(start, end) for start, end in zip(starts_T.tolist(), ends_T.tolist(), strict=True)]
    wide = [slice(s.start, s.start + min(batch, round_up(s.stop - s.start, ROWS_OF_STEP))) for s in slices]
    # The last product must not go past the rows that there are.
    rest = round_up(max(real, *(s.stop for s in wide)), ROWS_OF_BATCH) - real
    later = slice(batch, None)
    return Packing(
        order_B=order_B,
        real=real,
        slices=slices,
        wide=wide,
        step_N=F.pad(step_N, (0, rest)),
        sentence_N=F.pad(sentence_N, (0, rest)),
        previous_N=F.pad(starts_T[step_N[later] - 1] + sentence_N[later], (0, rest)),
        last_B=starts_T[sorted_B - 1] + torch.arange(batch, device=lengths_B.device),
        reversed_N=F.pad(starts_T[sorted_B[sentence_N] - 1 - step_N] + sentence_N, (0, rest)),
    )


def lay_out(lengths_B: Tensor, longest: int) -> Packing:
    """Lays out all steps of a padded batch, the padding included.

    Unlike with `pack`, what is where depends on the shape alone: a CUDA graph can be made of it. Sentences stay in
    their order, and their padding at the end, also where they are read from it.
    """
    device, batch = lengths_B.device, len(lengths_B)
    rows_N = torch.arange(longest * batch, device=device)
    step_N, sentence_N = rows_N // batch, rows_N % batch
    length_N = lengths_B[sentence_N]
    slices = [slice(t * batch, (t + 1) * batch) for t in range(longest)]
    at_B = torch.arange(batch, device=device)
    return Packing(
        order_B=at_B,
        real=len(rows_N),
        slices=slices,
        wide=slices,
        step_N=step_N,
        sentence_N=sentence_N,
        previous_N=rows_N[: len(rows_N) - batch],
        last_B=(lengths_B - 1) * batch + at_B,
        reversed_N=torch.where(step_N < length_N, length_N - 1 - step_N, step_N) * batch + sentence_N,
        padding_N=step_N >= length_N,
    )


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
    dc_BU.add_(through_BU).addcmul_(through_BU.mul_(tanh_BU), tanh_BU, value=-1.0)  # through times 1 - tanh²
    torch.mul(dc_BU, candidate_BU, out=di_BU)
    torch.mul(dc_BU, i_BU, out=dj_BU).mul_(2.0)
    torch.mul(dc_BU, before_BU, out=df_BU)
    d_gates_BG.mul_(torch.addcmul(gates_BG, gates_BG, gates_BG, value=-1.0))  # the sigmoids' derivative
    dc_BU.mul_(f_BU)


class Layer(Function):
    """One LSTM layer over all steps: `apply(gates_NG, kernel_UG, c_BU, h_BU, packing) -> (h_NU, c_BU at each end)`.

    `gates_NG` holds the share of the layer's input and the bias; the states are in the sorted order.
    """

    @staticmethod
    def forward(
        ctx: Any, gates_NG: Tensor, kernel_UG: Tensor, c_BU: Tensor, h_BU: Tensor, packing: Packing
    ) -> tuple[Tensor, Tensor]:
        """Goes through the steps, keeping what the way back needs."""
        h_NU = packing.empty(gates_NG, c_BU.shape[1])
        last_BU, start_BU = torch.empty_like(c_BU), h_BU
        cells, gates, saved = [c_BU], [], []
        for rows, wide in zip(packing.slices, packing.wide, strict=True):
            n = rows.stop - rows.start
            last_BU[n : len(c_BU)] = c_BU[n:]  # these sentences have ended
            gates.append(product_plus(h_BU[: wide.stop - wide.start], kernel_UG, gates_NG[wide])[:n])
            h_BU = h_NU[wide]
            candidate_BU, c_BU, tanh_BU = _cell(gates[-1], c_BU[:n], h_BU[:n])
            cells.append(c_BU)
            saved.append((candidate_BU, tanh_BU))
        last_BU[: len(c_BU)] = c_BU
        ctx.save_for_backward(kernel_UG, start_BU)
        ctx.steps = packing, h_NU, cells, gates, saved
        return h_NU, last_BU

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output_NU: Tensor, dc_BU: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        """Goes back through the steps."""
        kernel_UG, start_BU = ctx.saved_tensors
        packing, h_NU, cells, gates, saved = ctx.steps
        d_gates_NG = packing.empty(h_NU, kernel_UG.shape[1])
        dc_BU, dh_NU = dc_BU.clone(), d_output_NU.clone()
        dh_BU = torch.zeros_like(dc_BU)
        for t in range(len(gates) - 1, -1, -1):
            rows, n = packing.slices[t], len(gates[t])
            _cell_backward(d_gates_NG[rows], dh_NU[rows], dc_BU[:n], gates[t], cells[t][:n], saved[t])
            earlier_NU = dh_NU[packing.slices[t - 1]] if t > 0 else dh_BU
            earlier_NU[:n] += product(d_gates_NG[packing.wide[t]], kernel_UG.t())[:n]
        before_NU = torch.cat([start_BU, h_NU[packing.previous_N]])
        return d_gates_NG, product(before_NU.t(), d_gates_NG), dc_BU, dh_BU, None


@dataclass(frozen=True)
class AttentionPlan:
    """What an `AttentionDecoder` needs beside the tensors that it differentiates by."""

    packing: Packing
    residual: bool
    output_attention: bool
    masks: list[Tensor | None]  # dropout of each layer's input, (N, U); at the bottom, of the fed attention
    shut_BS: Tensor  # minus infinity past each source's end, else 0


class AttentionDecoder(Function):
    """All steps of a decoder with Luong attention and input feeding.

    `apply(plan, gates_NG, keys_BSU, contexts_BSU, query_UU, kernels..., biases..., c_BU, h_BU of each layer...)` gives
    what predicts the words, (N, U). A layer's kernel is for [its dropped input, its last output]; the bottom layer's
    input is the last attention vector only, as `gates_NG` holds the words' share and the bias, so that `biases` are
    those of the layers above. `contexts_BSU` is the memory after the attention layer, whose rest is `query_UU`.
    Sentences are in the sorted order.
    """

    @staticmethod
    def forward(
        ctx: Any,
        plan: AttentionPlan,
        gates_NG: Tensor,
        keys_BSU: Tensor,
        contexts_BSU: Tensor,
        query_UU: Tensor,
        *rest: Tensor,
    ) -> Tensor:
        """Goes through the steps, keeping what the way back needs."""
        layers = (len(rest) + 1) // 4
        kernels, biases, start = rest[:layers], rest[layers : 2 * layers - 1], rest[2 * layers - 1 :]
        packing, units = plan.packing, query_UU.shape[0]
        inputs = [packing.empty(gates_NG, 2 * units) for _ in range(layers)]  # [dropped input, last output]
        outputs = [packing.empty(gates_NG, units) for _ in range(layers)]
        attention_NU, query_NU = packing.empty(gates_NG, units), packing.empty(gates_NG, units)
        weights_NS = packing.empty(gates_NG, plan.shut_BS.shape[1])
        keys_BUS = keys_BSU.transpose(1, 2)
        cells: list[list[Tensor]] = [[c_BU] for c_BU in start[0::2]]
        last: list[Tensor] = list(start[1::2])
        gates: list[list[Tensor]] = [[] for _ in range(layers)]
        saved: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(layers)]
        x_BU = torch.zeros_like(start[0])
        for rows, wide in zip(packing.slices, packing.wide, strict=True):
            n = rows.stop - rows.start
            x_BU = x_BU[:n]
            for layer in range(layers):
                fed_BI, h_BU, mask_NU = inputs[layer][rows], outputs[layer][rows], plan.masks[layer]
                torch.mul(x_BU, 1.0 if mask_NU is None else mask_NU[rows], out=fed_BI[:, :units])
                fed_BI[:, units:] = last[layer][:n]
                plus = gates_NG[wide] if layer == 0 else biases[layer - 1]
                gates_BG = product_plus(inputs[layer][wide], kernels[layer], plus)[:n]
                candidate_BU, c_BU, tanh_BU = _cell(gates_BG, cells[layer][-1][:n], h_BU)
                cells[layer].append(c_BU)
                gates[layer].append(gates_BG)
                saved[layer].append((candidate_BU, tanh_BU))
                last[layer] = h_BU
                x_BU = h_BU + x_BU if plan.residual and layer > 0 else h_BU
            query_NU[rows] = x_BU
            scores_BS = torch.bmm(x_BU[:, None], keys_BUS[:n])[:, 0].add_(plan.shut_BS[:n])
            weights_BS = torch.softmax(scores_BS, dim=1, out=weights_NS[rows])
            contexts_BU = torch.bmm(weights_BS[:, None], contexts_BSU[:n])[:, 0]
            x_BU = torch.add(product(query_NU[wide], query_UU)[:n], contexts_BU, out=attention_NU[rows])
        ctx.plan = plan
        ctx.save_for_backward(keys_BSU, contexts_BSU, query_UU, *kernels)
        ctx.steps = inputs, cells, gates, saved, query_NU, weights_NS
        return attention_NU if plan.output_attention else query_NU

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output_NU: Tensor) -> tuple[Tensor | None, ...]:
        """Goes back through the steps."""
        plan: AttentionPlan = ctx.plan
        keys_BSU, contexts_BSU, query_UU, *kernels = ctx.saved_tensors
        inputs, cells, gates, saved, query_NU, weights_NS = ctx.steps
        packing, layers, units = plan.packing, len(kernels), query_UU.shape[0]
        d_gates = [packing.empty(query_NU, 4 * units) for _ in range(layers)]
        d_scores_NS = torch.empty_like(weights_NS)
        # What reaches the attention vectors: from the predictions, and, added below, from the step that each is fed to.
        d_attention_NU = d_output_NU.clone() if plan.output_attention else torch.zeros_like(d_output_NU)
        contexts_BUS = contexts_BSU.transpose(1, 2)
        dc = [torch.zeros_like(cells[layer][0]) for layer in range(layers)]
        dh = [torch.zeros_like(cells[layer][0]) for layer in range(layers)]
        for t in range(len(packing.slices) - 1, -1, -1):
            rows, wide = packing.slices[t], packing.wide[t]
            n = rows.stop - rows.start
            da_BU = d_attention_NU[rows]
            d_weights_BS = torch.bmm(da_BU[:, None], contexts_BUS[:n])[:, 0]
            d_scores_BS = torch._softmax_backward_data(d_weights_BS, weights_NS[rows], 1, da_BU.dtype)
            d_scores_NS[rows] = d_scores_BS
            dx_BU = torch.bmm(d_scores_BS[:, None], keys_BSU[:n])[:, 0]
            dx_BU += product(d_attention_NU[wide], query_UU.t())[:n]
            if not plan.output_attention:
                dx_BU += d_output_NU[rows]
            for layer in range(layers - 1, -1, -1):
                dh_BU, d_gates_BG, mask_NU = dh[layer][:n], d_gates[layer][rows], plan.masks[layer]
                dh_BU += dx_BU
                _cell_backward(d_gates_BG, dh_BU, dc[layer][:n], gates[layer][t], cells[layer][t][:n], saved[layer][t])
                d_fed_BI = product(d_gates[layer][wide], kernels[layer].t())[:n]
                dh_BU.copy_(d_fed_BI[:, units:])
                below_BU = d_fed_BI[:, :units] if mask_NU is None else d_fed_BI[:, :units] * mask_NU[rows]
                dx_BU = below_BU + dx_BU if plan.residual and layer > 0 else below_BU
            if t > 0:
                d_attention_NU[packing.slices[t - 1]][:n] += dx_BU
        d_attention_BTU = packing.pad(d_attention_NU).transpose(0, 1)
        d_keys_BSU = torch.bmm(packing.pad(d_scores_NS).permute(1, 2, 0), packing.pad(query_NU).transpose(0, 1))
        d_contexts_BSU = torch.bmm(packing.pad(weights_NS).permute(1, 2, 0), d_attention_BTU)
        d_query_UU = product(query_NU.t(), d_attention_NU)
        d_kernels = [product(inputs[layer].t(), d_gates[layer]) for layer in range(layers)]
        d_biases = [d_gates_NG.sum(dim=0) for d_gates_NG in d_gates[1:]]
        d_start = [tensor for pair in zip(dc, dh, strict=True) for tensor in pair]
        return None, d_gates[0], d_keys_BSU, d_contexts_BSU, d_query_UU, *d_kernels, *d_biases, *d_start
