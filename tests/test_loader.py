from __future__ import annotations

import copy
import gc
import itertools
import json
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr


def numbers(n: int) -> hr.Dataset:
    return hr.from_arrays(np.arange(n))


def flat(batches: Any) -> list[int]:
    return [int(x) for batch in batches for x in batch]


def test_an_epoch_has_every_record_once_and_the_next_another_order() -> None:
    loader = hr.Loader(numbers(1000).shuffle(seed=5).batch(64), workers=2)
    first, second = flat(loader), flat(loader)
    assert sorted(first) == sorted(second) == list(range(1000))
    assert first != second
    assert loader.epoch == 2


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_the_order_does_not_depend_on_workers(workers: int) -> None:
    data = numbers(500).shuffle(seed=1).map(lambda n, rng: n + rng.random(), rng=True).batch(32)
    expected = [b.tolist() for b in hr.Loader(data)]
    assert [b.tolist() for b in hr.Loader(data, workers=workers, prefetch=1)] == expected


def test_leaving_a_loop_and_iterating_again_goes_on() -> None:
    loader = hr.Loader(numbers(10).batch(3), workers=1)
    assert next(iter(loader)).tolist() == [0, 1, 2]
    assert flat(loader) == [3, 4, 5, 6, 7, 8, 9]
    assert flat(loader) == list(range(10))
    loader.set_epoch(0)
    assert flat(loader) == list(range(10))


def test_len_counts_batches_of_this_rank() -> None:
    data = numbers(10).batch(3)
    assert len(hr.Loader(data)) == 4
    assert len(hr.Loader(data, rank=0, world_size=3)) == 4
    deal = [len(hr.Loader(data, rank=r, world_size=3, split="batches")) for r in range(3)]
    assert deal == [2, 1, 1]
    assert [len(list(hr.Loader(data, rank=r, world_size=3, split="batches"))) for r in range(3)] == deal
    drop = [hr.Loader(data, rank=r, world_size=3, split="batches", uneven="drop") for r in range(3)]
    assert [len(d) for d in drop] == [len(list(d)) for d in drop] == [1, 1, 1]


@given(
    n=st.integers(0, 60),
    size=st.integers(1, 9),
    world=st.integers(1, 5),
    split=st.sampled_from(["records", "batches"]),
)
def test_ranks_together_give_the_whole(n: int, size: int, world: int, split: Any) -> None:
    data = numbers(n).shuffle(seed=n).batch(size)
    whole = [b.tolist() for b in hr.Loader(data)]
    ranks = [[b.tolist() for b in hr.Loader(data, rank=r, world_size=world, split=split)] for r in range(world)]
    if split == "records":
        assert all(len(r) == len(whole) for r in ranks)
        for i, batch in enumerate(whole):
            assert [ranks[k % world][i][k // world] for k in range(len(batch))] == batch
    else:
        merged = [b for step in itertools.zip_longest(*ranks) for b in step if b is not None]
        assert merged == whole


@pytest.mark.parametrize("split", ["records", "batches"])
@pytest.mark.parametrize("seed", range(6))
def test_a_chain_of_restores_with_other_ranks_and_workers_loses_nothing(split: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, 300)
    rows = hr.Ragged.from_rows([np.full(n, i) for i, n in enumerate(lengths)])
    data = hr.from_arrays(rows).shuffle(seed=seed).bucket(batch_size=8, width=5, window=100)
    whole = [[int(row[0]) for row in batch] for batch in hr.Loader(data)]
    assert sorted(i for batch in whole for i in batch) == list(range(300))
    seen: list[list[int]] = []
    state = hr.Loader(data).state_dict()
    for world, workers, steps in [(1, 0, 7), (2, 2, 5), (3, 1, 4), (2, 0, 1), (1, 2, 1000)]:
        loaders = [hr.Loader(data, rank=r, world_size=world, split=split, workers=workers) for r in range(world)]
        for loader in loaders:
            loader.load_state_dict(json.loads(json.dumps(state)))
        runs = [list(itertools.islice(loader, steps)) for loader in loaders]
        states = [loader.state_dict() for loader in loaders]
        assert all(s == states[0] for s in states)
        state = states[0]
        for i in range(max(map(len, runs))):
            parts = [[int(row[0]) for row in run[i]] for run in runs if i < len(run)]
            if split == "records":
                size = sum(map(len, parts))
                seen.append([parts[k % world][k // world] for k in range(size)])
            else:
                seen += parts
    assert seen == whole


def test_the_state_is_a_short_document() -> None:
    data = hr.zip(a=numbers(1000), b=numbers(1000)).shuffle(seed=2, window=50).repeat(3).map(len).batch(10)
    loader = hr.Loader(data)
    next(iter(loader))
    state = loader.state_dict()
    assert state["epoch"] == 0
    assert state["batch"] == 1
    assert len(json.dumps(state)) < 1000
    huge = hr.concat(*(numbers(10) for _ in range(200))).map(len).batch(5)
    assert len(json.dumps(hr.Loader(huge).state_dict())) < 1000


def test_a_state_of_another_description_is_refused_with_what_differs() -> None:
    state = hr.Loader(numbers(10).shuffle(seed=1).batch(2)).state_dict()
    with pytest.raises(
        hr.StateError,
        match=r"another description: step 1 was shuffle\(seed=1\), is now shuffle\(seed=2\); restore with the same",
    ):
        hr.Loader(numbers(10).shuffle(seed=2).batch(2)).load_state_dict(state)
    with pytest.raises(hr.StateError, match="1 steps then, 2 now"):
        hr.Loader(numbers(10).batch(2)).load_state_dict({**state, "pipeline": [*state["pipeline"][:1]]})


def test_a_state_of_other_data_is_refused_with_what_differs() -> None:
    state = hr.Loader(numbers(10).batch(2)).state_dict()
    with pytest.raises(hr.StateError, match=r"another data: source 0 was \{'records': 10, .*is now \{'records': 11"):
        hr.Loader(numbers(11).batch(2)).load_state_dict(state)
    other = hr.from_arrays(np.arange(10) * 2)
    with pytest.raises(hr.StateError, match="another data"):
        hr.Loader(other.batch(2)).load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"headrace": 99}, "expected a loader's state of version 1, got version 99"),
        ({"window": [0]}, "damaged: window is"),
        ({"epoch": -1}, "damaged: -1 is no position"),
        ({"batch": "x"}, "damaged: 'x' is no position"),
        ({"batch": True}, "damaged: True is no position"),
        ({"epoch": 2**63}, "damaged: 9223372036854775808 is no position"),
        ({"headrace": True}, "expected a loader's state of version 1, got version True"),
        ({"data": None}, "damaged: data is None, expected a list"),
        ({"pipeline": 5}, "damaged: pipeline is 5, expected a list"),
        ({"window": [0, 1]}, r"damaged: batch 0 of the epoch can't be in window \[0, 1\]"),
        ({"batch": 7}, r"damaged: batch 7 of the epoch can't be in window \[0, 0\]"),
        ({"window": [0, 6], "batch": 6}, "damaged: it is after batch 6 of window 0, which has 5 batches"),
        ({"window": [1, 0], "batch": 5}, "damaged: it is in window 1, the epoch has 1 windows"),
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any], message: str) -> None:
    loader = hr.Loader(numbers(10).batch(2))
    with pytest.raises(hr.StateError, match=message):
        loader.load_state_dict({**loader.state_dict(), **change})
    kinds: list[Any] = [None, [], 5, json.dumps(loader.state_dict())]
    for kind in kinds:
        with pytest.raises(hr.StateError, match=r"expected a loader's state, the dict that state_dict\(\) gave, got"):
            loader.load_state_dict(kind)
    state = loader.state_dict()
    del state["pipeline"]
    with pytest.raises(hr.StateError, match=r"another kind: its keys are \['epoch', 'headrace.torch'\]"):
        loader.load_state_dict({"headrace.torch": 1, "epoch": 0})
    with pytest.raises(hr.StateError, match="has no 'pipeline': it is cut short"):
        loader.load_state_dict(state)
    assert loader.state_dict()["epoch"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": -1}, "workers is at least 0 or 'auto', got -1"),
        ({"workers": 1.5}, "workers is an integer or 'auto', got 1.5"),
        ({"world_size": 2}, "world_size=2 needs rank"),
        ({"rank": 2, "world_size": 2}, "rank is within 0 … world_size−1, got rank 2 of 2"),
        ({"prefetch": 0}, "prefetch is at least 1, got 0"),
        ({"to": "jox"}, "Loader: to is one of 'numpy', 'torch', 'jax', 'arrow', got 'jox'"),
        ({"split": "halves"}, "Loader: split is one of 'records', 'batches', got 'halves'"),
        ({"uneven": "drop"}, "which split='records' never has"),
        ({"timeout": 0}, "timeout is above 0 seconds, got 0"),
        ({"timeout": "x"}, "timeout is above 0 seconds, got 'x'"),
        ({"rank": "a"}, "rank is an integer, got 'a'"),
        ({"rank": 1.0, "world_size": 2}, "rank is an integer, got 1.0"),
        ({"rank": -1}, "rank is within 0 … world_size−1, got rank -1 of 1"),
        ({"workers": True}, "workers is an integer or 'auto', got True"),
        ({"prefetch": 2**70}, "prefetch is at most 4611686018427387903, got 1180591620717411303424"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hr.PlanError, match=message):
        hr.Loader(numbers(3).batch(1), **arguments)


def test_numbers_of_numpy_are_numbers() -> None:
    arguments: dict[str, Any] = {"workers": np.int8(1), "rank": np.int64(1), "world_size": np.uint8(3)}
    loader = hr.Loader(numbers(7).batch(2), **arguments)
    assert flat(loader) == [1, 3, 5]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_copy_of_a_running_loader_goes_on_from_its_position(workers: int) -> None:
    for data in (numbers(10), hr.from_iterable(range(10))):
        loader = hr.Loader(data.batch(3), workers=workers)
        running = iter(loader)
        next(running)
        for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
            assert next(iter(other)).tolist() == [3, 4, 5]
            assert flat(other) == [6, 7, 8, 9]
        assert flat(running) == [3, 4, 5, 6, 7, 8, 9]


def test_records_without_batches_are_refused() -> None:
    with pytest.raises(hr.PlanError, match=r"Loader needs batches, got Dataset: end with \.batch"):
        hr.Loader(numbers(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_user_error_comes_as_itself_with_the_record(workers: int) -> None:
    def fail(n: Any) -> Any:
        if n == 17:
            raise ZeroDivisionError("seventeen")
        return n

    loader = hr.Loader(numbers(40).map(fail).batch(4), workers=workers)
    seen = []
    with pytest.raises(ZeroDivisionError, match="seventeen") as info:
        for batch in loader:
            seen += batch.tolist()
    assert seen == list(range(16))
    assert any("of row 17 of the arrays" in note for note in info.value.__notes__)
    assert loader.state_dict()["batch"] == 4


def test_a_dropped_iterator_takes_its_workers_along() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            loader = hr.Loader(numbers(100).batch(2), workers=3)
            next(iter(loader))
            del loader
        assert not [t for t in threading.enumerate() if t.name.startswith("headrace-worker")]
    finally:
        gc.enable()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_stream_gives_its_records_in_order_and_resumes(workers: int) -> None:
    data = hr.from_iterable(lambda: iter(range(25))).batch(4)
    loader = hr.Loader(data, workers=workers)
    assert flat(loader) == flat(loader) == list(range(25))
    with pytest.raises(TypeError, match="their number isn't known"):
        len(loader)
    hr.assert_resumable(data, epochs=2, workers=(workers, 2))


def test_a_stream_whose_length_is_a_multiple_of_the_batch() -> None:
    assert [b.tolist() for b in hr.Loader(hr.from_iterable(range(4)).batch(2))] == [[0, 1], [2, 3]]
    assert list(hr.Loader(hr.from_iterable([]).batch(2))) == []


def test_a_stream_drops_the_remainder_where_told() -> None:
    data = hr.from_iterable(range(5)).batch(2, drop_remainder=True)
    assert [b.tolist() for b in hr.Loader(data)] == [[0, 1], [2, 3]]


def test_a_generator_can_be_read_once() -> None:
    loader = hr.Loader(hr.from_iterable(n for n in range(4)).batch(2))
    assert flat(loader) == [0, 1, 2, 3]
    with pytest.raises(hr.DataError, match="used up and can't start again"):
        list(loader)


def test_streams_that_end_apart_are_refused_unless_told() -> None:
    a, b = hr.from_iterable(range(5)), hr.from_iterable(range(7))
    with pytest.raises(hr.DataError, match="one side ended 1 records or more before another"):
        list(hr.Loader(hr.zip(a, b).batch(3)))
    pairs = list(hr.Loader(hr.zip(a, b, shortest=True).batch(3)))
    assert flat(x for x, _ in pairs) == [0, 1, 2, 3, 4]


def test_torch_batches_share_the_arrays() -> None:
    torch = pytest.importorskip("torch")
    (batch,) = hr.Loader(hr.from_arrays({"x": np.arange(3)}).batch(3), to="torch")
    assert isinstance(batch["x"], torch.Tensor)
    assert batch["x"].tolist() == [0, 1, 2]


def test_stats_count_batches_bytes_and_stages() -> None:
    loader = hr.Loader(numbers(20).map(lambda n: n).batch(4), workers=1)
    assert loader.stats().verdict() == "Nothing has been read yet."
    list(loader)
    report = loader.stats()
    assert (report.batches, report.bytes, report.workers) == (5, 160, 1)
    assert {"plan", "read", "map", "collate", "other"} <= report.stages.keys()
    assert 0 <= report.waited <= report.wall
    assert "map" in str(report)
    loader.reset_stats()
    assert loader.stats().batches == 0


class Frozen(Exception):
    """As frozen dataclasses do, it refuses attributes, and so notes."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_that_takes_no_notes_still_comes_as_itself(workers: int) -> None:
    def fail(n: Any) -> Any:
        raise Frozen("seven")

    for data in (numbers(3).map(fail).batch(2), numbers(3).batch(2).map(fail)):
        with pytest.raises(Frozen, match="seven"):
            list(hr.Loader(data, workers=workers))


def test_an_error_that_is_raised_again_has_each_note_once() -> None:
    error = ValueError("always the same")

    def fail(n: Any) -> Any:
        raise error

    for _ in range(3):
        with pytest.raises(ValueError, match="always the same"):
            list(hr.Loader(numbers(3).map(fail).batch(2)))
    assert len(error.__notes__) == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("move", [iter, hr.Loader.close, lambda loader: loader.set_epoch(3)])
def test_a_function_cannot_move_the_loader_that_calls_it(workers: int, move: Any) -> None:
    def meddle(n: Any) -> Any:
        if n == 3:
            move(loader)
        return n

    loader = hr.Loader(numbers(10).map(meddle).batch(2), workers=workers)
    with pytest.raises(RuntimeError, match=r"this loader is reading a batch just now: .* make a second Loader"):
        list(loader)
    assert loader.state_dict()["batch"] == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_stats_count_what_was_handed_over(workers: int) -> None:
    loader = hr.Loader(hr.from_iterable(range(5)).batch(2), workers=workers)
    assert len(list(loader)) == loader.stats().batches == 3
    failing = hr.Loader(hr.from_dataset([1, 1, 0]).map(lambda n: 1 // n).batch(1), workers=workers)
    with pytest.raises(ZeroDivisionError):
        list(failing)
    assert failing.stats().batches == 2


def test_an_epoch_ends_with_its_last_batch() -> None:
    loader = hr.Loader(numbers(10).batch(4), workers=1)
    sizes = [len(list(itertools.islice(loader, len(loader)))) for _ in range(3)]
    assert sizes == [3, 3, 3]
    assert loader.epoch == 3
    for batch in loader:
        if batch[-1] == 9:
            break
    assert (loader.epoch, loader.state_dict()["window"]) == (4, [0, 0])


def test_ranks_end_an_epoch_in_the_same_state() -> None:
    data = numbers(10).batch(2)
    for split in ("records", "batches"):
        loaders = [hr.Loader(data, rank=r, world_size=2, split=split) for r in range(2)]
        for loader in loaders:
            list(loader)
        assert loaders[0].state_dict() == loaders[1].state_dict()
        assert loaders[0].state_dict()["epoch"] == 1


def test_a_loader_closes_at_the_end_of_a_with_block() -> None:
    with hr.Loader(numbers(100).batch(2), workers=2) as loader:
        iterator = iter(loader)
        next(iterator)
    assert list(iterator) == []


def test_time_between_epochs_is_not_the_consumers() -> None:
    import time

    loader = hr.Loader(numbers(4).batch(2))
    list(loader)
    before = loader.stats().wall
    began = time.perf_counter()
    while time.perf_counter() - began < 0.05:
        pass
    list(loader)
    assert loader.stats().wall < before + 0.05


def test_descriptions_that_are_shortened_still_tell_bucketings_apart() -> None:
    rows = hr.Ragged.from_rows([[1]] * 5)
    one = hr.from_arrays(rows).bucket(batch_size=2, boundaries=[1, 2, 3, 4, 5, 6, 7, 8, 9, 100])
    other = hr.from_arrays(rows).bucket(batch_size=2, boundaries=[1, 2, 3, 4, 5, 6, 7, 8, 50, 100])
    with pytest.raises(hr.StateError, match="another description: step 1 was bucket"):
        hr.Loader(other).load_state_dict(hr.Loader(one).state_dict())


def test_a_loop_that_was_replaced_says_so() -> None:
    loader = hr.Loader(numbers(10).batch(2), workers=1)
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert next(second).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="has been iterated anew since, which ended this loop"):
        next(first)
    with pytest.raises(RuntimeError, match="make two Loaders"):
        list(zip(loader, loader, strict=True))


def test_loaders_show_what_they_read_and_where_they_are() -> None:
    loader = hr.Loader(numbers(10).batch(4))
    next(iter(loader))
    assert repr(loader) == "Loader(arrays() → batch(4), workers=0, at batch 1 of epoch 0)"
