"""How an epoch of a loader begins: the seeds that it draws, in torch's order, or those of a state that was loaded."""

from __future__ import annotations

from typing import Any

from headrace.torch.job import Place
from headrace.torch.order import order_of
from headrace.torch.position import Epoch
from headrace.torch.randomness import words
from headrace.torch.samplers import draw_seed
from headrace.torch.saved import SavedStream

_RANKS_AGREE = 0x68656164  # where no generator is given, ranks draw the same numbers from this and the epoch


def begin_epoch(loader: Any, readers: int, earlier: Epoch | None = None) -> Epoch:
    """The next epoch of a loader.

    Args:
        loader: The loader; a state that it was given is used up.
        readers: How many readers a stream has.
        earlier: The epoch before, of an iterator that is used anew.

    Raises:
        StateError: If the state turns out to be damaged.
    """
    runtime = loader._runtime
    state, runtime.resume = runtime.resume, None
    epoch = Epoch(runtime.epochs if state is None else state.epoch)
    runtime.epochs = epoch.number + 1
    begun = state if state is not None and state.base_seed is not None else None
    generator = loader.generator
    if generator is not None:
        if begun is not None and begun.generator is not None:
            generator.set_state(begun.generator)
        epoch.generator = (generator.get_state(), generator.initial_seed())
    if begun is not None:
        epoch.resets, epoch.units, epoch.batches, epoch.ahead = begun.resets, begun.units, begun.batches, begun.ahead
    elif earlier is not None:
        epoch.resets = earlier.resets + 1
    agreed = words(_RANKS_AGREE, epoch.number, 0) if loader.world_size > 1 and generator is None else None
    if loader._dataset_kind == 0:
        kept = None if begun is None or (begun.is_at_the_beginning and not begun.order) else begun.order
        seed = None if agreed is None else agreed[1] >> 1
        epoch.order = order_of(loader._index_sampler, loader._auto_collation, loader._ranks, kept, seed)
    else:
        _place_readers(epoch, None if begun is None else begun.stream, readers)
    if earlier is not None and begun is None:
        epoch.base_seed = earlier.base_seed
    elif begun is not None:
        if generator is not None and epoch.resets == 0:
            draw_seed(generator)  # as it did then, before the order was drawn
        assert begun.base_seed is not None
        epoch.base_seed = begun.base_seed
    else:
        epoch.base_seed = draw_seed(generator) if agreed is None else agreed[0] >> 1
    runtime.epoch = epoch
    return epoch


def _place_readers(epoch: Epoch, stream: SavedStream | None, readers: int) -> None:
    if stream is None:
        epoch.places = [Place() for _ in range(readers)]
        return
    places = stream.readers
    epoch.sharded = stream.sharded
    epoch.turn = stream.turn
    if len(places) != readers:
        # One reader has read it all so far, and goes on to.
        epoch.places = [places[0], *(Place() for _ in range(readers - 1))]
        epoch.turn, epoch.sharded = 0, False if epoch.sharded is False else None
        epoch.alone = epoch.sharded is None
    else:
        epoch.places = places
