"""Iterators: where a session is in a dataset."""

from __future__ import annotations

import threading
from typing import Any

from headrace.tf1 import errors
from headrace.tf1.data.dataset import Dataset
from headrace.tf1.data.structure import Context, End, Next, Spec, flatten, flatten_as, leaves_of, pack
from headrace.tf1.dtypes import as_dtype, as_shape
from headrace.tf1.graph import Operation, add_op, get_default_graph
from headrace.tf1.session import Run

__all__ = ["Iterator"]


class _Place:
    def __init__(self) -> None:
        self.step: Next | None = None
        self.lock = threading.Lock()


class Iterator:
    """Gives the elements of a dataset, one a run of `get_next`."""

    def __init__(self, spec: Any, dataset: Dataset | None, shared_name: str | None = None, one_shot: bool = False):
        self._spec = spec
        self._dataset = dataset if one_shot else None
        name = get_default_graph().unique_name("Iterator")
        self._key = f"iterator/{shared_name or name}"
        self._initializer = None if one_shot or dataset is None else self.make_initializer(dataset)

    @staticmethod
    def from_structure(output_types: Any, output_shapes: Any = None, shared_name: str | None = None) -> Iterator:
        """An iterator for several datasets of one kind; `make_initializer` gives each one's initializer."""
        types = flatten(output_types)
        shapes = [None] * len(types) if output_shapes is None else flatten_as(output_types, output_shapes, "shapes")
        specs = [Spec(as_dtype(t), as_shape(s)) for t, s in zip(types, shapes, strict=True)]
        return Iterator(pack(output_types, list(specs)), None, shared_name)

    @property
    def initializer(self) -> Operation:
        """Begins, or begins anew.

        Raises:
            ValueError: If the iterator begins by itself, or has no dataset of its own.
        """
        if self._initializer is None:
            raise ValueError("this iterator has no initializer of its own: use make_initializer(dataset)")
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """An operation that begins with a dataset."""
        ours, theirs = leaves_of(self._spec), leaves_of(dataset.spec)
        if [leaf.dtype for leaf in ours] != [leaf.dtype for leaf in theirs]:
            raise TypeError(f"expected elements of types {ours}, got {theirs}")

        def compute(run: Run) -> None:
            place = self._place(run)
            with place.lock:
                place.step = None
                # What is fed to this call are parameters of the dataset, until it begins anew.
                place.step = dataset.iterate(Context(_lasting(run), dict(run.feeds)))

        return add_op("MakeIterator", compute, name=name)

    def _place(self, run: Run) -> _Place:
        place: _Place = run.resource(self._key, _Place)
        return place

    def get_next(self, name: str | None = None) -> Any:
        """The next element, as a structure of tensors.

        Raises:
            OutOfRangeError: When it runs after the last one.
            FailedPreconditionError: When it runs before the initializer.
        """

        def compute(run: Run) -> Any:
            place = self._place(run)
            with place.lock:
                if place.step is None and self._dataset is not None:
                    place.step = self._dataset.iterate(Context(_lasting(run)))
                if place.step is None:
                    raise errors.FailedPreconditionError(
                        None,
                        None,
                        "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                        "initializer operation for this iterator before getting the next element.",
                    )
                try:
                    row = place.step()
                except End:
                    raise errors.OutOfRangeError(None, None, "End of sequence") from None
            return row if len(row) != 1 else row[0]

        specs = leaves_of(self._spec)
        op = add_op("IteratorGetNext", compute, (), [(s.dtype, s.shape) for s in specs], name)
        return pack(self._spec, list(op.outputs))

    @property
    def output_types(self) -> Any:
        """The types of an element's values."""
        return pack(self._spec, [s.dtype for s in leaves_of(self._spec)])

    @property
    def output_shapes(self) -> Any:
        """What is known of the shapes of an element's values."""
        return pack(self._spec, [s.shape for s in leaves_of(self._spec)])


def _lasting(run: Run) -> Run:
    """The run of an iterator outlives the call that began it, and has no time limit."""
    return Run(run.session, None)
