"""Random numbers belong to samples: the same ones for any workers, and none are taken from the consumer."""

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import headrace.torch as ht
from headrace.torch import twisters
from headrace.torch.held import digest, held_generators, seed_held
from tests.torch.data import (
    Holding,
    InitialSeeds,
    Noisy,
    Numbers,
    Seldom,
    SeldomNormal,
    SeldomTorch,
    Stream,
    same,
)

MODES: list[dict[str, Any]] = [
    {},
    {"num_workers": 1},
    {"num_workers": 3},
    {"num_workers": 2, "multiprocessing_context": "spawn"},
    {"num_workers": 2, "mode": "threads"},
    {"num_workers": 2, "mode": "inline"},
    {"num_workers": 2, "in_order": False},
    {"num_workers": 2, "persistent_workers": True},
    {"mode": "auto"},
]


def epochs(dataset: Any, count: int = 2, **arguments: Any) -> list[list[Any]]:
    torch.manual_seed(0)
    loader = ht.DataLoader(dataset, batch_size=4, collate_fn=same, **arguments)
    return [sorted(itertools.chain(*loader)) for _ in range(count)]


@pytest.mark.parametrize("arguments", MODES, ids=str)
@pytest.mark.parametrize("kind", [Noisy, Holding, Seldom, SeldomTorch])
def test_samples_dont_depend_on_workers(kind: Any, arguments: dict[str, Any]) -> None:
    if kind in (Seldom, SeldomTorch) and arguments.get("mode") == "threads":
        pytest.skip("threads find out with the first batch alone what draws (docs/torch.md)")
    first, second = epochs(kind(50))
    assert first != second
    got = epochs(kind(50), **arguments)
    assert got[0] == first
    assert got[1] != first
    if not arguments.get("persistent_workers"):  # these keep their base seed, as in torch
        assert got[1] == second


def test_initial_seeds_dont_depend_on_the_number_of_workers() -> None:
    one, three = (epochs(InitialSeeds(400), num_workers=workers) for workers in (1, 3))
    # The first pieces are seeded one by one: whoever does them finds out what draws.
    assert [epoch[200:] for epoch in one] == [epoch[200:] for epoch in three]


def test_every_sample_has_its_own_numbers() -> None:
    for workers in (0, 2):
        samples = list(itertools.chain(*epochs(Noisy(50), num_workers=workers)))
        for column in range(1, 4):
            assert len({sample[column] for sample in samples}) == 100
        held = list(itertools.chain(*epochs(Holding(50), num_workers=workers)))
        assert len({sample[1] for sample in held}) == len({sample[2] for sample in held}) == 100


@pytest.mark.parametrize("dataset", [Noisy(9), Seldom(50), Numbers(9), Stream(9)], ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("mode", ["inline", "threads"])
def test_the_consumers_generators_are_left_alone(dataset: Any, mode: str) -> None:
    if isinstance(dataset, Seldom) and mode == "threads":
        pytest.skip("threads find out with the first batch alone what draws (docs/torch.md)")

    def draws() -> tuple[float, ...]:
        return random.random(), random.gauss(), float(np.random.randn()), float(torch.rand(()))

    def seed() -> None:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)

    seed()
    loader = ht.DataLoader(dataset, batch_size=2, num_workers=1, mode=mode)  # type: ignore[arg-type]
    batches = iter(loader)  # takes its base seed
    got = []
    for _ in batches:
        got.append(draws())
    seed()
    torch.empty((), dtype=torch.int64).random_()
    assert got == [draws() for _ in got]


def test_the_numbers_drawn_are_torchs() -> None:
    for given, shuffle in ((False, False), (False, True), (True, True)):
        states = []
        for kind in (torch.utils.data.DataLoader, ht.DataLoader):
            torch.manual_seed(5)
            generator = torch.Generator().manual_seed(6) if given else None
            loader: Any = kind(Numbers(8), shuffle=shuffle, generator=generator)
            order = [list(map(int, loader)) for _ in range(2)]
            states.append((order, torch.rand(()), generator and generator.get_state().tolist()))
        assert states[0] == states[1]


def test_who_seeds_in_worker_init_fn_is_heeded() -> None:
    loader = ht.DataLoader(Initial(4), num_workers=2, batch_size=2, worker_init_fn=seed_with_12345)
    assert [batch.tolist() for batch in loader] == [[12345, 12345]] * 2


class Initial(Numbers):
    def __getitem__(self, i: int) -> int:
        return torch.initial_seed()


def seed_with_12345(worker: int) -> None:
    torch.manual_seed(12345)


def test_seeds_of_workers_are_torchs() -> None:
    torch.manual_seed(2)
    base = int(torch.empty((), dtype=torch.int64).random_().item())
    torch.manual_seed(2)
    loader = ht.DataLoader(Seeds(4), num_workers=2, batch_size=None, worker_init_fn=note_seeds)
    rows = list(loader)
    for worker, row in enumerate(rows[:2]):
        random.seed(base + worker)
        torch.manual_seed(base + worker)
        np.random.seed(torch.utils.data._utils.worker._generate_state(base, worker))  # type: ignore[no-untyped-call]
        assert row[0] == base + worker
        assert row[1:] == [random.random(), float(torch.rand(())), float(np.random.rand())]


class Seeds(Numbers):
    drawn: Any = None

    def __getitem__(self, i: int) -> Any:
        return self.drawn


def note_seeds(worker: int) -> None:
    info = ht.get_worker_info()
    info.dataset.drawn = (info.seed, random.random(), float(torch.rand(())), float(np.random.rand()))


def test_threads_have_generators_of_their_own() -> None:
    class Own(Numbers):
        def __getitem__(self, i: int) -> Any:
            rng = ht.get_worker_info().rng
            return (
                i,
                rng.random_generator.random(),
                float(rng.numpy_generator.random()),
                rng.torch_generator.initial_seed(),
            )

    def rows() -> Any:
        torch.manual_seed(0)
        loader = ht.DataLoader(Own(40), batch_size=4, collate_fn=same, num_workers=3, mode="threads")
        return list(itertools.chain(*loader))

    if not hasattr(torch.utils.data._utils.worker, "_RNG"):
        pytest.skip("this torch knows no generators of workers")
    first = rows()
    assert first[4:] == rows()[4:]
    assert len({row[1] for row in first[4:]}) == 36


def test_threads_that_would_share_generators_arent_used(caplog: pytest.LogCaptureFixture) -> None:
    loader = ht.DataLoader(Noisy(9), num_workers=2, mode="threads")
    for _ in range(2):
        list(loader)
    assert caplog.text.count("draws from the random generators of the process") == 1


def test_reading_of_a_datasets_own_isnt_used_in_the_search() -> None:
    class Rows(list[int]):
        def __getitem__(self, i: Any) -> Any:
            raise RuntimeError("it was read")

    class Table(dict[str, int]):
        def values(self) -> Any:
            raise RuntimeError("it was read")

    assert held_generators(Rows([1]), Table(a=1)) == []


def test_generators_are_found_in_functions() -> None:
    rng = np.random.default_rng(1)

    class Flip:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(2)

        def __call__(self, x: Any) -> Any:
            return x * self.rng.random()

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("it was asked")

    flip = Flip()
    for held in (lambda x: x * rng.random(), functools.partial(max, rng), flip, flip.__call__, {"a": [(flip,)]}):
        assert len(held_generators(held)) == 1
    assert held_generators(random, np.random.Generator, max, 3, None, "text") == []


def test_generators_are_found_where_they_are_held() -> None:
    dataset = ht.Subset(Holding(), [1, 2])
    found = held_generators(dataset)
    assert len(found) == 2
    before = [digest(generator) for generator in found]
    seed_held(found, before, 0, 5)
    once = [digest(generator) for generator in found]
    seed_held(found, before, 0, 5)
    assert once == [digest(generator) for generator in found] != before


@pytest.mark.parametrize(
    "held", [np.random.RandomState(1), torch.Generator(), random.Random(1), np.random.default_rng()]
)
def test_generators_of_all_kinds_are_seeded(held: Any) -> None:
    origin = digest(held)
    seen = set()
    for key in range(3):
        seed_held([held], [origin], 0, key)
        seen.add(digest(held))
    assert len(seen) == 3


def normals() -> tuple[float, float]:
    return random.gauss(0, 1), float(np.random.randn())


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("draw", [random.random, np.random.rand, normals, lambda: torch.randn(1).item()])
def test_states_are_put_back(draw: Callable[[], Any], quick: bool) -> None:
    generators = twisters.ProcessGenerators()
    assert generators.quick
    generators.quick = quick
    for draws in (1, 1, 312, 624, 700):  # one normal number leaves another for later, which the second time is drawn
        saved = generators.save()
        assert generators.are_as(saved)
        first = [draw() for _ in range(draws)]
        assert not generators.are_as(saved)
        last = generators.save()
        generators.put_back(saved)
        assert generators.are_as(saved)
        assert first == [draw() for _ in range(draws)]
        assert generators.are_as(last)


@pytest.mark.parametrize("seed", [random.seed, np.random.seed, torch.manual_seed, lambda n: np.random.seed([n, 1])])
def test_fresh_seeds_are_told_apart(seed: Callable[[int], Any]) -> None:
    generators = twisters.ProcessGenerators()
    seed(1)
    first = generators.save()
    seed(2)
    assert not generators.are_as(first)
    second = generators.save()
    generators.put_back(first)
    generators.put_back(second)
    assert generators.are_as(second)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind", [Seldom, SeldomNormal, SeldomTorch])
def test_a_rare_draw_leaves_the_consumers_seeds(kind: Any, left: bool) -> None:
    def draws() -> Any:
        return random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(1).item()

    def seed() -> None:
        random.seed(7)
        np.random.seed([7, 8])
        torch.manual_seed(9)
        if left:  # a normal number for later
            normals()

    loader = ht.DataLoader(kind(50), batch_size=4, generator=torch.Generator().manual_seed(1), collate_fn=same)
    seed()
    got = list(itertools.chain(*loader))
    after = draws()
    seed()
    assert after == draws()
    other = ht.DataLoader(
        kind(50), batch_size=4, generator=torch.Generator().manual_seed(1), collate_fn=same, num_workers=1
    )
    assert got == list(itertools.chain(*other))


def test_another_generator_of_numpys() -> None:
    numpys: Any = np.random
    present = numpys.get_bit_generator()
    loader = ht.DataLoader(Seldom(50), batch_size=4, generator=torch.Generator().manual_seed(1))
    list(loader)
    try:
        for bits in (np.random.MT19937(5), np.random.PCG64(5)):
            numpys.set_bit_generator(bits)
            before = str(bits.state)
            list(loader)
            assert str(bits.state) == before
    finally:
        numpys.set_bit_generator(present)


def test_an_interrupt_isnt_lost_with_a_draw() -> None:
    loader = ht.DataLoader(Interrupted(8), batch_size=2)
    batches = iter(loader)
    next(batches)
    random.seed(3)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert random.random() == random.Random(3).random()


class Interrupted(Numbers):
    """Is interrupted after a draw."""

    def __getitem__(self, i: int) -> Any:
        if i == 3:
            random.random()
            raise KeyboardInterrupt
        return i


def test_streams_are_seeded_from_the_first_batch_on() -> None:
    def batches(seed: int, **arguments: Any) -> Any:
        random.seed(seed)
        generator = torch.Generator().manual_seed(1)
        got = list(ht.DataLoader(NoisyStream(9), batch_size=2, generator=generator, collate_fn=same, **arguments))
        assert random.random() == random.Random(seed).random()
        return got

    first = batches(0)
    assert first == batches(5)
    assert first == batches(0, num_workers=1)


class NoisyStream(Stream):
    """Draws for each number, but not when it begins."""

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.n):
            yield i, random.random()


class Slots:
    """Has its generators in slots, one of a name that is the class's own."""

    __slots__ = ("__own", "empty", "rng")

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.__own = random.Random(0)


class MoreSlots(Slots):
    """Has inherited slots and one of its own."""

    __slots__ = ("more",)

    def __init__(self) -> None:
        super().__init__()
        self.more = torch.Generator()


def test_generators_are_found_in_slots() -> None:
    assert len(held_generators(Slots())) == 2
    assert len(held_generators(MoreSlots())) == 3


def test_generators_are_found_far_down_in_lists() -> None:
    rng = np.random.default_rng(0)
    records = [{"a": i, "b": [i]} for i in range(10_000)]
    for holder in ([*range(70), rng], dict(enumerate([*records, rng])), [*records, [rng]], (records, records, [rng])):
        assert held_generators(holder) == [rng]
    many = [random.Random(i) for i in range(6000)]
    assert held_generators({"a": records, "each": many}) == many
    deep: Any = rng
    for _ in range(6):
        deep = [deep]
    assert held_generators(deep) == [rng]


def test_what_isnt_looked_at_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="headrace"):
        held_generators([[i] for i in range(10_000)])
        assert not caplog.text  # they are alike
        held_generators([[[i] for i in range(100)] for j in range(100)])
        assert "looked for in the first 4000 objects" in caplog.text


def in_a_dict() -> Any:
    values: dict[Any, Any] = dict.fromkeys(range(70))
    return {**values, "rng": np.random.default_rng(0)}


@pytest.mark.parametrize("make", [in_a_dict, Slots])
def test_what_is_found_gives_the_same_for_any_workers(make: Callable[[], Any]) -> None:
    assert epochs(Keeper(make(), 8)) == epochs(Keeper(make(), 8), num_workers=2)


class Keeper(Numbers):
    """Draws from what it was given."""

    def __init__(self, held: Any, n: int) -> None:
        super().__init__(n)
        self.held = held

    def __getitem__(self, i: int) -> Any:
        rng = self.held["rng"] if isinstance(self.held, dict) else self.held.rng
        return i, float(rng.random())
