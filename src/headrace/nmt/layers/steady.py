"""Operations whose results do not depend on what else is in a batch, to the last bit.

What PyTorch's give for an element may depend on its place and on how many there are: a matrix product changes its
kernel, and with it the order in which it adds, with the number of rows; and the last elements of a function of each
element, which do not fill a vector register, are computed one at a time by other code. So the translation of a sentence
would depend on its batch, in the last digits mostly, and at times in its words.

Here the number of rows is rounded up, and elements are taken in whole groups. Where gradients are recorded, and
elsewhere than on a CPU, these are the ordinary operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from headrace.nmt.layers import gemm

__all__ = ["add_up", "exp", "log", "multiply", "pad_steps", "sigmoid", "tanh"]

# What the number of rows of a product is rounded up to: oneDNN compiles a kernel for each, so there are to be few. Its
# kernels stay the same from a few rows on, MKL's between a few and some hundred, as the tests make sure.
_ROWS_OF_ONEDNN, _ROWS_OF_OTHERS, _MOST_ROWS_OF_OTHERS = 16, 8, 128
# What columns are filled up to where MKL adds them up in another order for even than for odd rows: the last ones of
# float64, and those of a transposed matrix; and a single one, of either type.
_COLUMNS = 32
_GROUP = 32  # elements that functions of each element take at once, where a vector register has 512 bits
_ON_ONE_THREAD = 32768 - _GROUP  # more elements would be shared among threads, wherever that divides them
_STEPS = 16  # what sums over the source take at once
_SMALL_PRODUCT = 400  # PyTorch has other code for matrix products of fewer multiplications


def is_ordinary(x: Tensor) -> bool:
    """Says whether the ordinary operations are to be used."""
    return torch.is_grad_enabled() or x.device.type != "cpu" or torch.compiler.is_compiling()


def multiply(x: Tensor, w_IO: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Returns `x @ w + bias`, over the last dimension of x."""
    if is_ordinary(x):
        y = x @ w_IO
        return y if bias_O is None else y + bias_O
    onednn = gemm.takes(x.dtype)
    x_NI = x.reshape(-1, x.shape[-1])
    rows, multiple = len(x_NI), _ROWS_OF_ONEDNN if onednn else _ROWS_OF_OTHERS
    if rows % multiple:
        x_NI = F.pad(x_NI, (0, 0, 0, -rows % multiple))
    outputs = w_IO.shape[1]
    if onednn:
        y_NO = gemm.product(x_NI, w_IO)
    else:
        if outputs == 1 or x.dtype == torch.float64:
            missing = -outputs % _COLUMNS
            w_IO = F.pad(w_IO, (0, missing)) if missing else w_IO.contiguous()
        y_NO = x.new_empty(len(x_NI), w_IO.shape[1])
        for start in range(0, len(x_NI), _MOST_ROWS_OF_OTHERS):
            part = slice(start, start + _MOST_ROWS_OF_OTHERS)
            torch.mm(x_NI[part], w_IO, out=y_NO[part])
        y_NO = y_NO[:, :outputs]
    if bias_O is not None:
        y_NO += bias_O
    return y_NO[:rows].view(*x.shape[:-1], outputs)


def sigmoid(x: Tensor) -> Tensor:
    """Returns the logistic function of each element."""
    return _of_each(torch.sigmoid, x)


def tanh(x: Tensor) -> Tensor:
    """Returns the hyperbolic tangent of each element."""
    return _of_each(torch.tanh, x)


def exp(x: Tensor) -> Tensor:
    """Returns e to the power of each element."""
    return _of_each(torch.exp, x)


def log(x: Tensor) -> Tensor:
    """Returns the natural logarithm of each element."""
    return _of_each(torch.log, x)


def _of_each(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    if is_ordinary(x):
        return function(x)
    size, threads = x.numel(), torch.get_num_threads()
    rows_fill = x.dim() > 0 and x.shape[-1] % _GROUP == 0 and x.stride(-1) == 1
    fills = rows_fill or (size % _GROUP == 0 and x.is_contiguous())
    if fills and (threads == 1 or size <= _ON_ONE_THREAD):
        return function(x)
    flat = F.pad(x.reshape(-1), (0, -size % _GROUP))
    parts = [function(part) for part in flat.split(_ON_ONE_THREAD)]  # type: ignore[no-untyped-call]
    return (torch.cat(parts) if len(parts) > 1 else parts[0])[:size].view(x.shape)


def add_up(parts: list[Tensor]) -> Tensor:
    """Returns the sum of tensors, from the first to the last."""
    return reduce(torch.add, parts)


def pad_steps(x_BS: Tensor, value: int, width: int) -> Tensor:
    """Pads sources to whole groups of steps; an empty one has steps, too.

    Args:
        x_BS: The sources.
        value: What to pad with.
        width: Width of the vectors that are compared over these steps.
    """
    n = max(x_BS.shape[1], -(-_SMALL_PRODUCT // width))
    return F.pad(x_BS, (0, n + -n % _STEPS - x_BS.shape[1]), value=value)
