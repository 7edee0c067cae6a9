"""Names, arguments, attributes and errors are torch's."""

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import data as torch_data

import headrace.torch as ht
from tests.torch.data import Numbers, Stream


def _utils(module: Any) -> Any:
    return module._utils


def test_every_name_of_torch_is_there() -> None:
    assert set(torch_data.__all__) <= set(ht.__all__)
    for name in torch_data.__all__:
        assert getattr(ht, name) is getattr(torch_data, name) or name in (
            "DataLoader",
            "RandomSampler",
            "get_worker_info",
        )
    assert issubclass(ht.DataLoader, torch_data.DataLoader)
    assert issubclass(ht.RandomSampler, torch_data.RandomSampler)


def test_modules_behind_the_surface_are_torchs() -> None:
    from headrace.torch._utils.collate import default_collate  # type: ignore[import-untyped]
    from headrace.torch.distributed import DistributedSampler  # type: ignore[import-untyped]

    assert default_collate is torch_data.default_collate
    assert DistributedSampler is torch_data.DistributedSampler
    assert _utils(ht).MP_STATUS_CHECK_INTERVAL == _utils(torch_data).MP_STATUS_CHECK_INTERVAL
    with pytest.raises(AttributeError):
        _ = vars(ht)["__getattr__"]("no_such_name")


def test_arguments_are_torchs_and_more() -> None:
    mine = inspect.signature(ht.DataLoader.__init__).parameters
    theirs = inspect.signature(torch_data.DataLoader.__init__).parameters
    assert list(mine)[: len(theirs)] == list(theirs)
    assert all(mine[name].default == theirs[name].default for name in theirs)
    assert all(mine[name].kind == theirs[name].kind for name in theirs)


def test_a_loader_can_be_subscripted() -> None:
    assert ht.DataLoader[int] is not None


def test_private_attributes_that_trainers_use() -> None:
    loader = ht.DataLoader(Numbers(4), batch_size=2)
    assert loader._auto_collation
    assert loader._index_sampler is loader.batch_sampler
    assert loader._dataset_kind == ht._DatasetKind.Map
    assert loader._iterator is None
    assert loader.multiprocessing_context is None
    # Lightning makes a loader anew from the attributes named like arguments.
    names = inspect.signature(type(loader).__init__).parameters
    known = vars(loader).keys() | {"self", "shuffle", "multiprocessing_context"}
    assert names.keys() <= known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "fast"}, r"mode is 'auto', 'inline', 'threads' or 'processes', got 'fast'"),
        ({"mode": "threads"}, r"mode='threads' needs num_workers > 0"),
        ({"rank": 2, "world_size": 2}, r"rank is within 0 … world_size−1, got rank 2 of 2"),
        ({"uneven": "ignore"}, r"uneven is 'pad', 'drop' or 'short', got 'ignore'"),
        ({"on_error": "ignore"}, r"on_error is 'raise' or 'skip', got 'ignore'"),
        ({"batch_size": 0}, r"batch_size should be a positive integer value, but got batch_size=0"),
        ({"num_workers": -1}, r"num_workers option should be non-negative"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ht.DataLoader(Numbers(4), **arguments)


def test_two_ways_to_divide_among_ranks_are_refused() -> None:
    sampler: Any = ht.DistributedSampler(Numbers(4), 2, 0)
    with pytest.raises(ValueError, match="use one of them"):
        ht.DataLoader(Numbers(4), sampler=sampler, rank=0, world_size=2)


def test_asserts_at_iteration_are_torchs() -> None:
    with pytest.raises(AssertionError, match="requires timeout == 0"):
        iter(ht.DataLoader(Numbers(4), timeout=1))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(ht.DataLoader(Numbers(4), num_workers=1, prefetch_factor=0))


def test_iterators_have_torchs_ways() -> None:
    loader = ht.DataLoader(Numbers(4), batch_size=2)
    batches = iter(loader)
    assert iter(batches) is batches
    assert len(batches) == 2
    with pytest.raises(NotImplementedError, match="cannot be pickled") as caught:
        pickle.dumps(batches)
    assert caught.value.args == ("{} cannot be pickled", "_SingleProcessDataLoaderIter")
    assert len(list(batches)) == 2
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)


def test_loaders_can_be_copied_and_pickled() -> None:
    loader = ht.DataLoader(Numbers(4), batch_size=2)
    next(iter(loader))
    for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert [batch.tolist() for batch in other] == [[0, 1], [2, 3]]


def test_shuffling_keeps_the_sampler_small() -> None:
    loader = ht.DataLoader(Numbers(4), batch_size=2, shuffle=True)
    assert type(loader.sampler) is ht.RandomSampler
    assert loader.batch_sampler is not None
    assert loader.batch_sampler.sampler is loader.sampler  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="sampler attribute should not be set after DataLoader is initialized"):
        loader.sampler = [1]


def test_pinning_without_an_accelerator_warns() -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    loader = ht.DataLoader(Numbers(2), pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator is found, then device pinned memory won't be used"):
        assert len(list(loader)) == 2
    loader = ht.DataLoader(Numbers(2), pin_memory=True, pin_memory_device="cuda")
    with (
        pytest.warns(UserWarning, match="no accelerator is found"),
        pytest.warns(UserWarning, match="pin_memory_device is deprecated"),
    ):
        iter(loader)


def test_batches_on_a_device() -> None:
    data: Any = [{"x": 1.0, "name": "a"}] * 3
    loader: Any = ht.DataLoader(data, batch_size=2, device="cpu")
    batches = list(loader)
    assert batches[0]["x"].device.type == "cpu"
    assert batches[1]["name"] == ["a"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA's")
def test_batches_on_a_gpu() -> None:
    columns = torch.arange(1000.0).reshape(100, 10)
    for workers in (0, 2):
        loader = ht.DataLoader(ht.TensorDataset(columns), batch_size=7, num_workers=workers, device="cuda")
        got = [batch[0] for batch in loader]
        assert all(part.device.type == "cuda" for part in got)
        assert torch.equal(torch.cat(got).cpu(), columns)


def test_profiles_name_the_iterator() -> None:
    with torch.profiler.profile() as profile:
        list(ht.DataLoader(Numbers(4)))
    assert "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" in {event.name for event in profile.events()}


def test_statistics() -> None:
    with ht.DataLoader(Numbers(10), batch_size=4) as loader:
        list(loader)
        report = loader.stats()
    assert (report.batches, report.records, report.bytes, report.mode) == (3, 10, 80, "inline")


def test_datapipes_are_read_by_torch() -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    loader = ht.DataLoader(IterableWrapper(range(4)), batch_size=2)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="DataPipes"):
        loader.state_dict()


def test_streams_have_a_sampler_without_end() -> None:
    loader = ht.DataLoader(Stream(4), batch_size=2)
    assert next(iter(loader.sampler)) is None
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        ({"num_workers": "auto"}, TypeError, "num_workers is a whole number, from 0, got 'auto'; mode='auto' finds"),
        ({"num_workers": 1.5}, TypeError, "num_workers is a whole number, from 0, got 1.5"),
        ({"world_size": 2}, ValueError, "world_size=2 needs rank"),
        ({"max_errors": 3}, ValueError, "max_errors=3 needs on_error='skip'"),
        ({"max_errors": -1, "on_error": "skip"}, ValueError, "whole number, from 0, got -1"),
    ],
)
def test_arguments_that_a_newcomer_gets_wrong(given: dict[str, Any], kind: type[Exception], expected: str) -> None:
    with pytest.raises(kind, match=expected):
        ht.DataLoader(Numbers(4), **given)


def test_whole_numbers_of_other_types_count_workers() -> None:
    given: dict[str, Any] = {"num_workers": np.int64(0)}
    assert ht.DataLoader(Numbers(4), **given).num_workers == 0


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="device='cuda': PyTorch finds no GPU here"):
        next(iter(ht.DataLoader(Numbers(4), device="cuda")))
