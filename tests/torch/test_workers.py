"""Worker processes and threads: what they are told, how they fail, what is left of them."""

import gc
import multiprocessing
import os
import pathlib
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import headrace.torch as ht
from headrace.errors import NotPicklableError
from tests.torch.data import (
    DiesOnce,
    Failing,
    Numbers,
    PathError,
    Remembering,
    Sharded,
    Stream,
    plain,
    same,
)


class Who(Numbers):
    def __getitem__(self, i: int) -> Any:
        info, theirs = ht.get_worker_info(), torch.utils.data.get_worker_info()
        return info.id, info.num_workers, info.dataset is self, theirs is info, i


def test_workers_know_who_they_are() -> None:
    loader = ht.DataLoader(Who(6), batch_size=None, num_workers=2, collate_fn=same)
    assert list(loader) == [(i % 2, 2, True, True, i) for i in range(6)]
    assert ht.get_worker_info() is None


def test_threads_know_who_they_are() -> None:
    loader = ht.DataLoader(Who(6), batch_size=None, num_workers=2, collate_fn=same, mode="threads")
    rows = list(loader)
    assert {row[0] for row in rows} <= {0, 1}
    assert [row[4] for row in rows] == list(range(6))
    assert all(row[1] == 2 and row[2] for row in rows)
    assert ht.get_worker_info() is None


class Frozen(Numbers):
    def __getitem__(self, i: int) -> Any:
        info = ht.get_worker_info()
        try:
            info.id = 7
        except AttributeError as error:
            return type(error).__name__, "num_workers=1" in repr(info)


def test_what_workers_know_cant_be_changed() -> None:
    assert list(ht.DataLoader(Frozen(1), batch_size=None, num_workers=1)) == [["FrozenInstanceError", True]]


# errors --------------------------------------------------------------------------------------------------------------


def outcome(loader: Any) -> list[Any]:
    batches = iter(loader)
    got: list[Any] = []
    while True:
        try:
            got.append(plain(next(batches)))
        except StopIteration:
            return got
        except Exception as error:
            got.append(error)


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 2}, {"num_workers": 2, "mode": "threads"}, {"mode": "auto"}])
def test_one_bad_sample_costs_one_batch(arguments: Any) -> None:
    got = outcome(ht.DataLoader(Failing(ValueError("boom"), 11), batch_size=2, **arguments))
    error = got[1]
    assert type(error) is ValueError
    got[1] = None
    assert got == [[0, 1], None, [4, 5], [6, 7], [8, 9], [10]]
    notes = [*getattr(error, "__notes__", ()), str(error)]
    assert any("index 3" in note for note in notes)


def test_errors_of_processes_keep_their_classes_and_attributes() -> None:
    error: Any = outcome(ht.DataLoader(Failing(FileNotFoundError(2, "gone", "a.jpg")), num_workers=1))[3]
    assert type(error) is FileNotFoundError
    assert (error.errno, error.filename) == (2, "a.jpg")
    text = str(error)
    assert "Caught FileNotFoundError in DataLoader worker process 0, in reading the sample of index 3." in text
    assert "Original Traceback (most recent call last)" in text
    assert "__getitem__" in text
    error = outcome(ht.DataLoader(Failing(OSError(24, "no more")), num_workers=1))[3]
    assert error.errno == 24
    assert not str(error).endswith(": None")
    error = outcome(ht.DataLoader(Failing(KeyError("k")), num_workers=1))[3]
    assert type(error) is KeyError
    assert "\n" in str(error)
    strange: Any = outcome(ht.DataLoader(Failing(PathError(5, "a.jpg")), num_workers=1))[3]
    assert type(strange) is RuntimeError
    assert vars(strange)["code"] == 5
    assert type(strange.__cause__) is PathError


class Stopping(Numbers):
    def __getitem__(self, i: int) -> Any:
        if i == 3:
            raise StopIteration
        return i


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("size", [None, 2])
def test_stop_iteration_doesnt_end_the_epoch(workers: int, size: int | None) -> None:
    got = outcome(ht.DataLoader(Stopping(6), batch_size=size, num_workers=workers))
    assert len(got) == (6 if size is None else 3)
    error = got[3 if size is None else 1]
    assert type(error) is RuntimeError
    assert "raised StopIteration for index 3" in str(error)


def stop(batch: Any) -> Any:
    raise StopIteration


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1}, {"num_workers": 1, "mode": "threads"}])
@pytest.mark.parametrize("dataset", [Numbers(2), Stream(2)])
def test_stop_iteration_of_collate_doesnt_either(dataset: Any, arguments: Any) -> None:
    got = outcome(ht.DataLoader(dataset, collate_fn=stop, **arguments))
    assert len(got) == 2
    assert all("StopIteration" in f"{error}" and isinstance(error, RuntimeError) for error in got)


class Locked(Numbers):
    def __getitem__(self, i: int) -> Any:
        return threading.Lock()


def test_what_cant_be_sent_is_an_error() -> None:
    (error,) = outcome(ht.DataLoader(Locked(1), num_workers=1, collate_fn=same, timeout=30))
    assert type(error) is TypeError
    assert "cannot pickle" in str(error)


def test_what_cant_be_sent_there_is_named() -> None:
    dataset: Any = Numbers(3)
    dataset.transform = {"lock": threading.Lock()}
    thread = threading.Thread(target=time.sleep, args=(30,), daemon=True)
    thread.start()
    with pytest.raises(NotPicklableError, match=r"dataset.transform\['lock'\] \(lock\) can't be sent"):
        iter(ht.DataLoader(dataset, num_workers=1))


def count_up(worker: int) -> None:
    with ht.get_worker_info().dataset.count.get_lock():
        ht.get_worker_info().dataset.count.value += 1


def test_values_of_multiprocessing_are_shared() -> None:
    if threading.active_count() > 1:
        pytest.skip("another test's thread is still there, with which forking isn't safe")
    dataset: Any = Numbers(4)
    dataset.count = multiprocessing.get_context("fork").Value("i", 0)
    loader = ht.DataLoader(dataset, num_workers=2, worker_init_fn=count_up)
    for epoch in range(2):
        assert len(list(loader)) == 4
        assert dataset.count.value == 2 * (epoch + 1)


def test_lambdas_and_local_classes_are_sent() -> None:
    class Local(Numbers):
        def __getitem__(self, i: int) -> Any:
            return 2 * i

    loader = ht.DataLoader(Local(4), num_workers=1, batch_size=2, collate_fn=lambda batch: sum(batch),
                           multiprocessing_context="spawn")  # fmt: skip
    assert list(loader) == [2, 10]


class Sleepy(Numbers):
    def __getitem__(self, i: int) -> Any:
        time.sleep(5 if i == 1 else 0)
        return i


def test_a_timeout_is_torchs() -> None:
    batches = iter(ht.DataLoader(Sleepy(2), num_workers=1, timeout=1))
    next(batches)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        next(batches)


class Exits(Numbers):
    def __getitem__(self, i: int) -> Any:
        if i == 2:
            os._exit(3)
        return i


def test_a_sample_that_kills_every_worker_is_an_error() -> None:
    got = outcome(ht.DataLoader(Exits(5), num_workers=1))
    error = got[2]
    assert type(error) is RuntimeError
    assert "DataLoader worker (pid(s) " in str(error)
    assert "exited unexpectedly" in str(error)
    assert "at record 2" in str(error)
    assert [row for row in got if row is not error] == [[0], [1], [3], [4]]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_is_replaced(tmp_path: pathlib.Path, workers: int) -> None:
    def epoch(**arguments: Any) -> Any:
        torch.manual_seed(1)
        mark = str(tmp_path / ("mark" if arguments else "none"))
        if not arguments:
            pathlib.Path(mark).touch()
        return list(ht.DataLoader(DiesOnce(20, mark), batch_size=2, collate_fn=same, **arguments))

    assert epoch(num_workers=workers) == epoch()
    assert (tmp_path / "mark").exists()


class DyingStream(Stream):
    def __init__(self, n: int, mark: str) -> None:
        super().__init__(n)
        self.mark = mark

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.n):
            if i == 7 and not os.path.exists(self.mark):
                pathlib.Path(self.mark).touch()
                os._exit(1)
            yield i


def test_a_streams_worker_is_replaced(tmp_path: pathlib.Path) -> None:
    loader = ht.DataLoader(DyingStream(20, str(tmp_path / "mark")), batch_size=3, num_workers=2)
    assert plain(list(loader)) == [[*range(i, min(i + 3, 20))] for i in range(0, 20, 3)]
    assert (tmp_path / "mark").exists()


# skipping ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 2}, {"num_workers": 2, "mode": "threads"}])
@pytest.mark.parametrize("size", [2, 1, None])
def test_bad_samples_can_be_left_out(arguments: Any, size: int | None) -> None:
    loader = ht.DataLoader(Failing(ValueError("boom")), batch_size=size, on_error="skip", **arguments)
    got = plain(list(loader))
    flat = got if size is None else [number for batch in got for number in batch]
    assert flat == [0, 1, 2, 4, 5, 6, 7]
    (skipped,) = loader.skipped
    assert (skipped.index, skipped.error, skipped.epoch) == (3, "ValueError: boom", 0)


def test_too_many_bad_samples_are_an_error() -> None:
    loader = ht.DataLoader(Failing(ValueError("boom")), batch_size=2, on_error="skip", max_errors=1)
    assert len(list(loader)) == 4
    with pytest.raises(RuntimeError, match="2 samples couldn't be read, more than max_errors=1; the last one: index 3"):
        list(loader)


def fail(batch: Any) -> Any:
    if 4 in batch:
        raise ValueError("no fours")
    return batch


def test_batches_that_cant_be_made_are_left_out() -> None:
    loader = ht.DataLoader(Numbers(6), batch_size=2, on_error="skip", collate_fn=fail)
    assert list(loader) == [[0, 1], [2, 3]]
    assert loader.skipped[0].index == [4, 5]


class Bulk(Failing):
    def __getitems__(self, keys: list[int]) -> Any:
        return [self[key] for key in keys]


def test_bulk_reading_falls_back_to_single_samples() -> None:
    loader = ht.DataLoader(Bulk(ValueError("boom")), batch_size=4, on_error="skip")
    assert plain(list(loader)) == [[0, 1, 2], [4, 5, 6, 7]]


# streams -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 3}, {"num_workers": 2, "mode": "threads"}, {"mode": "auto"}])
@pytest.mark.parametrize("drop_last", [False, True])
def test_streams_come_once(arguments: Any, drop_last: bool) -> None:
    loader = ht.DataLoader(Stream(11), batch_size=4, drop_last=drop_last, **arguments)
    wanted = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]][: 2 if drop_last else 3]
    for _ in range(2):
        assert plain(list(loader)) == wanted


def by_number(worker: int) -> None:
    ht.get_worker_info().dataset.n = 3 + worker


def faulthandler_of_no_matter(_: int) -> None:
    gc.collect()


def test_streams_that_their_authors_divide() -> None:
    assert plain(list(ht.DataLoader(Sharded(9), batch_size=2, num_workers=2))) == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    loader = ht.DataLoader(Stream(9), batch_size=2, num_workers=2, worker_init_fn=by_number)
    assert plain(list(loader)) == [[0, 1], [0, 1], [2], [2, 3]]
    loader = ht.DataLoader(Stream(4), batch_size=2, num_workers=2, worker_init_fn=faulthandler_of_no_matter)
    assert plain(list(loader)) == [[0, 1], [2, 3]]
    threads = ht.DataLoader(Sharded(9), batch_size=5, num_workers=2, mode="threads")
    assert plain(list(threads)) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


def test_workers_of_uneven_streams() -> None:
    class Uneven(Stream):
        def __iter__(self) -> Iterator[Any]:
            info = ht.get_worker_info()
            return iter(range(100 * info.id, 100 * info.id + (0, 4, 2)[info.id]))

    loader = ht.DataLoader(Uneven(0), batch_size=None, num_workers=3)
    assert list(loader) == [100, 200, 101, 201, 102, 103]


def test_streams_with_a_state_arent_read_again() -> None:
    loader = ht.DataLoader(Remembering(10), batch_size=2, num_workers=1)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    for workers in (0, 1, 2):
        other = ht.DataLoader(Remembering(10), batch_size=2, num_workers=workers)
        other.load_state_dict(state)
        rows = plain(list(other))
        assert [row[0] for row in rows] == [[4, 5], [6, 7], [8, 9]]
        assert rows[0][1] == [1, 2]  # the first that this copy has read


def test_lengths_that_were_promised() -> None:
    class Sized(Sharded):
        def __len__(self) -> int:
            return 3

    for workers in (0, 2):
        loader = ht.DataLoader(Sized(5), batch_size=None, num_workers=workers)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="This DataLoader will create")
            assert len(list(loader)) == 5  # nobody has asked for the length
        assert len(loader) == 3
        with pytest.warns(UserWarning, match="was reported to be 3.* samples have been fetched"):
            list(loader)


# life and death ------------------------------------------------------------------------------------------------------


def test_persistent_workers() -> None:
    class Counting(Numbers):
        calls = 0

        def __getitem__(self, i: int) -> Any:
            self.calls += 1
            return self.calls, os.getpid()

    loader = ht.DataLoader(Counting(3), batch_size=None, num_workers=1, persistent_workers=True, collate_fn=same)
    batches = iter(loader)
    next(batches)
    assert iter(loader) is batches  # what was left of that epoch is gone
    assert [calls for calls, _ in batches][-1] >= 4
    before = loader._iterator._workers[0].pid  # type: ignore[union-attr]
    rows = list(loader)
    assert {pid for _, pid in rows} == {before}
    assert rows[0][0] > 4
    fresh = ht.DataLoader(Counting(3), batch_size=None, num_workers=1, collate_fn=same)
    assert [[calls for calls, _ in fresh] for _ in range(2)] == [[1, 2, 3], [1, 2, 3]]
    assert len({pid for _ in range(2) for _, pid in fresh}) == 1  # the process is kept all the same
    for kept in (loader, fresh):
        kept.close()


def test_iterators_live_on_their_own() -> None:
    loader = ht.DataLoader(Numbers(4), batch_size=None, num_workers=1)
    one, two = iter(loader), iter(loader)
    assert [next(one), next(one), next(two), next(two), next(one)] == [0, 1, 0, 1, 2]
    alone = iter(ht.DataLoader(Numbers(3), batch_size=None, num_workers=1))
    gc.collect()
    assert list(alone) == [0, 1, 2]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"num_workers": 1}, {"num_workers": 1, "mode": "threads"}, {"mode": "auto"}, {"device": "cpu"},
     {"num_workers": 1, "persistent_workers": True}],
)  # fmt: skip
@pytest.mark.parametrize("dataset", [Numbers(100), Stream(100), ht.TensorDataset(torch.arange(100))], ids=type)
def test_iterators_go_when_they_are_dropped(dataset: Any, arguments: Any) -> None:
    """Not when the garbage collector comes."""
    gc.collect()
    gc.disable()
    try:
        loader = ht.DataLoader(dataset, batch_size=2, **arguments)
        batches = iter(loader)
        next(batches)
        left = weakref.ref(batches), weakref.ref(loader)
        del batches, loader
        assert [reference() for reference in left] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("mode", ["processes", "threads"])
def test_nothing_is_left(mode: Any) -> None:
    for round in range(4):
        loader = ht.DataLoader(Numbers(1000), num_workers=2, mode=mode)
        batches: Any = iter(loader)
        next(batches)
        if mode == "processes":
            handles = batches._workers
            assert all(handle.is_alive() for handle in handles)
        if round % 2:
            loader.close()
        del batches, loader
        gc.collect()
        if mode == "processes":
            for handle in handles:
                handle.join(10)
                assert not handle.is_alive()
                assert handle.exitcode == 0
        else:
            assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-worker")]


def test_automatic_choice() -> None:
    class Slow(Numbers):
        def __getitem__(self, i: int) -> Any:
            time.sleep(0.001)
            return i

    with ht.DataLoader(Slow(800), batch_size=2, mode="auto") as loader:
        for _ in range(2):
            assert plain(list(loader)) == [[i, i + 1] for i in range(0, 800, 2)]
        assert "inline" in loader.stats().choice
    with ht.DataLoader(ht.TensorDataset(torch.arange(100)), batch_size=2, mode="auto") as columns:
        assert len(list(columns)) == 50
