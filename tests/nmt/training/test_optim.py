"""Learning rates, clipping and the two update rules."""

import math

import pytest
import torch
from torch.nn import Parameter

from headrace.nmt.hparams import HParams
from headrace.nmt.training import optim
from headrace.nmt.training.optim import Optimizer, learning_rate


@pytest.mark.parametrize(
    ("scheme", "steps", "expected"),
    [
        ("", 12000, {0: 1.0, 11999: 1.0}),
        ("luong234", 12000, {8999: 1.0, 9000: 0.5, 9999: 0.5, 10000: 0.25, 11000: 0.125, 11999: 0.125}),
        ("luong234", 3000, {2249: 1.0, 2250: 0.5, 2500: 0.25, 2999: 0.125}),
        ("luong5", 12000, {7199: 1.0, 7200: 0.5, 8400: 0.25, 11999: 0.5**4}),
        ("luong10", 340000, {186999: 1.0, 187000: 0.5, 204000: 0.25, 339999: 0.5**9}),
        ("luong10", 3, {0: 1.0, 1: 1.0, 2: 0.5}),  # shorter than its halvings
    ],
)
def test_decay(scheme: str, steps: int, expected: dict[int, float]) -> None:
    hparams = HParams(decay_scheme=scheme, num_train_steps=steps)
    assert {step: learning_rate(hparams, step) for step in expected} == expected


def test_warmup_rises_from_a_hundredth() -> None:
    hparams = HParams(warmup_steps=100, learning_rate=2.0)
    rates = [learning_rate(hparams, step) for step in (0, 50, 99, 100, 101)]
    assert rates == pytest.approx([0.02, 0.2, 2.0 * 0.01**0.01, 2.0, 2.0])


def test_sgd_without_clipping() -> None:
    weight = Parameter(torch.tensor([1.0, 2.0]))
    weight.grad = torch.tensor([0.5, -1.0])
    norm = Optimizer([weight], HParams(learning_rate=0.1)).step(0)
    assert norm == pytest.approx(math.sqrt(1.25))
    torch.testing.assert_close(weight.detach(), torch.tensor([0.95, 2.1]))
    assert weight.grad is None


def test_the_norm_is_that_of_all_weights_and_of_each_occurrence_of_a_word() -> None:
    weight, embedding = Parameter(torch.tensor([0.0])), Parameter(torch.zeros(4, 1))
    weight.grad = torch.tensor([6.0])
    index = torch.tensor([[2, 0, 2]])
    embedding.grad = torch.sparse_coo_tensor(index, torch.tensor([[4.0], [2.0], [5.0]]), (4, 1), check_invariants=True)
    norm = Optimizer([weight, embedding], HParams(max_gradient_norm=4.5)).step(0)
    assert norm == pytest.approx(9.0)  # 36 + 16 + 4 + 25
    torch.testing.assert_close(weight.detach(), torch.tensor([-3.0]))
    torch.testing.assert_close(embedding.detach()[:, 0], torch.tensor([-1.0, 0.0, -4.5, 0.0]))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_norm_that_is_not_finite_changes_nothing(optimizer: str) -> None:
    weight = Parameter(torch.tensor([1.0]))
    weight.grad = torch.tensor([math.inf])
    assert Optimizer([weight], HParams(optimizer=optimizer)).step(0) == math.inf
    assert weight.item() == 1.0


def test_adam_is_tensorflows() -> None:
    hparams = HParams(optimizer="adam", learning_rate=0.01)
    weight = Parameter(torch.tensor([1.0]))
    optimizer = Optimizer([weight], hparams)
    value, mean, square = 1.0, 0.0, 0.0
    for step, gradient in enumerate([0.3, -0.2, 0.1]):
        weight.grad = torch.tensor([gradient])
        optimizer.step(step)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        rate = 0.01 * math.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
        value -= rate * mean / (math.sqrt(square) + 1e-8)
        assert weight.item() == pytest.approx(value, rel=1e-5)


def test_adam_goes_on_from_its_state() -> None:
    hparams = HParams(optimizer="adam", learning_rate=0.01)
    weights = [Parameter(torch.tensor([1.0])) for _ in range(2)]
    first, second = (Optimizer([w], hparams) for w in weights)
    saved = second.state_dict()
    for step in range(4):
        if step == 2:
            second = Optimizer([weights[1]], hparams)
            second.load_state_dict(saved)
        for weight, optimizer in zip(weights, (first, second), strict=True):
            weight.grad = torch.tensor([0.5 - step])
            optimizer.step(step)
        saved = second.state_dict()
    assert weights[0].item() == weights[1].item()
    with pytest.raises(ValueError, match="the saved optimiser does not fit optimizer=sgd"):
        Optimizer(weights, HParams()).load_state_dict(saved)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_scaled_gradients_make_the_same_update(name: str) -> None:
    found = []
    for dtype in ("float32", "float16"):
        weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        optimizer = Optimizer([weight], HParams(optimizer=name, max_gradient_norm=1.0, compute_dtype=dtype))
        for step in range(3):
            weight.grad = torch.tensor([0.5, 2.0 * step]) * optimizer.scale
            norm = optimizer.step(step)
        found.append((norm, weight.tolist()))
    assert found[0] == found[1]


def test_the_scale_of_float16_finds_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optim, "GOOD_STEPS", 3)
    weight = torch.nn.Parameter(torch.tensor([3.0]))
    hparams = HParams(compute_dtype="float16")
    optimizer = Optimizer([weight], hparams)

    def step(gradient: float) -> tuple[float, bool]:
        weight.grad = torch.tensor([gradient])
        optimizer.step(0)
        return optimizer.scale, optimizer.lowered

    assert step(math.inf) == (32768.0, True)
    assert step(math.nan) == (16384.0, True)
    assert weight.tolist() == [3.0]
    assert [step(0.0) for _ in range(4)] == [(16384.0, False)] * 2 + [(32768.0, False)] * 2
    again = Optimizer([weight], hparams)
    again.load_state_dict(optimizer.state_dict())
    assert again.state_dict() == optimizer.state_dict() == {"moments": [], "scale": [32768.0, 1]}
    optimizer.scale = 1.0
    assert step(math.inf) == (1.0, False)  # nothing is left to try
