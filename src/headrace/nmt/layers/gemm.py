"""Matrix products for training on a CPU, by the fastest kernel that PyTorch ships.

PyTorch multiplies float32 matrices with MKL, which on CPUs of other makers than Intel reaches half of what oneDNN does;
oneDNN is in the same binary, behind an operator made for compiled graphs. bfloat16 always goes to oneDNN. On Intel's
CPUs, where the operator is missing, or the tensors are not on a CPU, the ordinary product is taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = ["linear", "product", "product_plus", "takes"]


def _find_operator() -> Any:
    """Returns the operator, or None where it is missing or does not do what is expected of it."""
    try:
        operator = torch.ops.mkldnn._linear_pointwise
        a, b, c = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]), torch.tensor([[5.0]])
        results = operator.default(a, b.t(), None, "none", [], ""), operator.binary(a, c, b.t(), None, "add")
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return operator if [result.item() for result in results] == [11.0, 16.0] else None


def _made_by_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(errors="replace")[:1000]
    except OSError:
        return False


_operator: Any = None if _made_by_intel() else _find_operator()


def takes(dtype: torch.dtype) -> bool:
    """Says whether products of this type go to the operator."""
    return _operator is not None and dtype == torch.float32


def product(a_MK: Tensor, b_KN: Tensor) -> Tensor:
    """Returns `a @ b`; not differentiable."""
    if not takes(a_MK.dtype) or a_MK.device.type != "cpu":
        return a_MK @ b_KN
    result: Tensor = _operator.default(a_MK, b_KN.t(), None, "none", [], "")
    return result


def product_plus(a_MK: Tensor, b_KN: Tensor, c: Tensor) -> Tensor:
    """Returns `a @ b + c` for c of shape (M, N) or (N,); not differentiable."""
    if not takes(a_MK.dtype) or a_MK.device.type != "cpu":
        return torch.addmm(c, a_MK, b_KN)
    result: Tensor = (
        _operator.default(a_MK, b_KN.t(), c, "none", [], "")
        if c.dim() == 1
        else _operator.binary(a_MK, c, b_KN.t(), None, "add")
    )
    return result


class _Linear(Function):
    """`x @ w + bias`, each product in the given precision."""

    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, w_IO: Tensor, bias_O: Tensor | None, dtype: torch.dtype) -> Tensor:
        ctx.dtype, ctx.has_bias = x_NI.dtype, bias_O is not None
        x_NI, w_IO = x_NI.to(dtype), w_IO.to(dtype)
        ctx.save_for_backward(x_NI, w_IO)
        y_NO = product(x_NI, w_IO) if bias_O is None else product_plus(x_NI, w_IO, bias_O.to(dtype))
        return y_NO.to(ctx.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_NO: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        x_NI, w_IO = ctx.saved_tensors
        d_bias_O = d_NO.sum(dim=0) if ctx.has_bias else None
        d_NO = d_NO.to(x_NI.dtype)
        return product(d_NO, w_IO.t()).to(ctx.dtype), product(x_NI.t(), d_NO).to(ctx.dtype), d_bias_O, None


def linear(x_NI: Tensor, w_IO: Tensor, bias_O: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """Returns `x @ w + bias`, multiplying in `dtype`, by default that of x; differentiable once."""
    y_NO: Tensor = _Linear.apply(x_NI, w_IO, bias_O, dtype or x_NI.dtype)  # type: ignore[no-untyped-call]
    return y_NO
