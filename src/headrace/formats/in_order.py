"""Goes through work on some threads, with results in order and few ahead of whoever takes them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

_THREADS = 8
T = TypeVar("T")
R = TypeVar("R")


def in_order(function: Callable[[T], R], items: Sequence[T]) -> Generator[R, None, None]:
    """Calls a function for each item on up to eight threads.

    Close the generator (`contextlib.closing`) to stop early: calls that have begun end, the others never begin.

    Args:
        function: Called from several threads at once.
        items: What it is called with; the results come in this order.

    Example:
        >>> from headrace.formats.in_order import in_order
        >>> list(in_order(lambda n: n * n, range(5)))
        [0, 1, 4, 9, 16]
    """
    threads = min(_THREADS, os.cpu_count() or 1, len(items))
    if threads <= 1:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # here, because few programs need it

    pool = ThreadPoolExecutor(threads, "headrace-in-order")
    waiting: deque[Future[R]] = deque()
    rest = iter(items)
    try:
        waiting.extend(pool.submit(function, item) for item in islice(rest, threads + 1))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(function, item) for item in islice(rest, 1))
            yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
