"""Steps of few shapes: padding changes neither loss nor gradients, and what was recorded is done again."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved.weights import export_gradients
from headrace.nmt.speed import fast, runtime
from headrace.nmt.speed.graphs import GraphedLoss, round_up_steps
from headrace.nmt.train import Run, train
from headrace.nmt.training.optim import Optimizer
from tests.nmt.conftest import MakeBatch, MakeModel, Toy
from tests.nmt.speed.test_fast import VARIANTS


def gradients(model: Seq2Seq, loss: Tensor) -> Mapping[str, object]:
    model.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return export_gradients(model)


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda s: "-".join(map(str, s.values())) or "none")
def test_padding_counts_nothing(make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]) -> None:
    model = make_model(dropout=0.3, label_smoothing=0.1, **settings).train()
    batch = make_batch([3, 7, 1, 5, 7], [6, 2, 9, 1, 4], tgt_words=11)
    if model.hparams.share_vocab:
        batch = batch._replace(src_BS=batch.src_BS % 11)
    batch = round_up_steps(batch)
    assert batch.src_BS.shape[1] == 8
    assert batch.tgt_BT1.shape[1] == 17
    masks = model.draw_masks(batch, torch.Generator().manual_seed(5))
    expected, found = model.loss(batch, masks), fast.loss(model, batch, masks, padded=True)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    for (name, wanted), got in zip(gradients(model, expected).items(), gradients(model, found).values(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-8, msg=name)


class Recorder:
    """Does as CUDA graphs do: what is done again writes to where results and gradients were in the beginning."""

    def __init__(self) -> None:
        self.shapes = 0
        self.model: Seq2Seq | None = None

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        assert self.model is not None
        weights = list(self.model.parameters())
        value = step()
        places = [weight.grad for weight in weights]
        self.shapes += 1

        def replay() -> Tensor:
            value.copy_(step())
            for place, weight in zip(places, weights, strict=True):
                if place is not None and weight.grad is not None:
                    place.copy_(weight.grad)
                weight.grad = None  # a graph knows nothing of weights
            return value

        return replay


def test_recorded_steps_train_as_others_do(make_batch: MakeBatch, make_model: MakeModel) -> None:
    weights = []
    recorder = Recorder()
    for graphed in (False, True):
        model = make_model(attention="scaled_luong", encoder_type="bi", dropout=0.2).train()
        optimizer, generator = Optimizer(model.parameters(), model.hparams), torch.Generator().manual_seed(1)
        recorder.model = model
        graphs = GraphedLoss(model, recorder)
        for seed, (longest, count) in enumerate(((5, 4), (12, 4), (7, 4), (5, 3))):
            batch = round_up_steps(make_batch([longest, 2, 3, 1][:count], [1, longest, 2, 4][:count], seed))
            masks = model.draw_masks(batch, generator)
            if graphed:
                loss = graphs(batch, masks)
                assert not loss.requires_grad
            else:
                fast.loss(model, batch, masks).backward()  # type: ignore[no-untyped-call]
            optimizer.step(0)
        weights.append(model.state_dict())
    assert recorder.shapes == 3  # of four batches
    for name, wanted in weights[0].items():
        torch.testing.assert_close(weights[1][name], wanted, msg=name)


def test_devices_are_named_or_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert runtime.place("") == runtime.place("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match=r"one of this machine's \(cpu\), got 'cuda'"):
        runtime.place("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert runtime.place("") == torch.device("cuda:1")
    assert runtime.place("cuda:0") == torch.device("cuda:0")
    for wrong in ("cuda:2", "gpu", "cuda:x"):
        with pytest.raises(ValueError, match="cpu, cuda:0, cuda:1"):
            runtime.place(wrong)


def test_a_run_trains_by_graphs_to_what_it_would(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"dropout": 0.0, "batch_size": 16, "num_train_steps": 8}
    expected = train(toy(**settings), quiet=True)
    begin = Run.__init__
    graphs: list[GraphedLoss] = []

    def with_graphs(run: Run, *arguments: Any) -> None:
        begin(run, *arguments)
        run.graphs = GraphedLoss(run.model, lambda step: step)
        graphs.append(run.graphs)

    monkeypatch.setattr(Run, "__init__", with_graphs)
    found = train(toy(**settings, out_dir=str(tmp_path / "graphed")), quiet=True)
    assert graphs[0].recorded
    for (step, wanted), (_, got) in zip(expected.curves["train_ppl"], found.curves["train_ppl"], strict=True):
        assert got == pytest.approx(wanted, rel=1e-4), step
