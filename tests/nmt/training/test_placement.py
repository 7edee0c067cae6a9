"""Layers over several GPUs: where they go, and that everything meets what is on the same device."""

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.model import Decoder
from headrace.nmt.speed import fast
from headrace.nmt.train import train
from headrace.nmt.training import placement
from headrace.nmt.training.placement import PROCESSOR, Placement, find_gpus, place_layers, spread
from tests.nmt.conftest import MakeBatch, MakeModel, Toy

CPU = torch.device("cpu")
GNMT = {"encoder_type": "gnmt", "attention": "normed_bahdanau", "attention_architecture": "gnmt_v2", "residual": True}
MODELS: list[dict[str, Any]] = [
    {"num_layers": 3, "attention": "scaled_luong"},
    {"num_layers": 4, "encoder_type": "bi", "attention": "bahdanau", "unit_type": "gru"},
    {"num_layers": 4, "num_sampled_softmax": 4, **GNMT},
    {"num_layers": 4, **GNMT, "attention_architecture": "gnmt", "label_smoothing": 0.1},
    {"num_encoder_layers": 2, "num_decoder_layers": 3, "attention": "luong", "output_attention": False},
    {"num_layers": 2, "share_vocab": True, "tied_embeddings": True, "source_reverse": True},
    {"num_layers": 2, "language_model": True, "unit_type": "layer_norm_lstm"},
]


@pytest.mark.parametrize(
    ("settings", "gpus", "encoder", "decoder", "attention", "projection"),
    [
        ({"num_layers": 4}, 0, ((-1,) * 4,), (-1,) * 4, -1, -1),
        ({"num_layers": 4}, 1, ((0,) * 4,), (0,) * 4, 0, 0),
        ({"num_layers": 4}, 3, ((0, 1, 2, 0),), (0, 1, 2, 0), 0, 0),
        ({"num_layers": 2}, 4, ((0, 1),), (0, 1), 1, 2),  # a GPU for the projection alone
        ({"num_layers": 4}, 4, ((0, 1, 2, 3),), (0, 1, 2, 3), 3, 3),
        ({"num_layers": 4, "encoder_type": "bi"}, 8, ((0, 1), (2, 3)), (0, 1, 2, 3), 3, 4),
        ({"num_layers": 4, "encoder_type": "bi"}, 3, ((0, 1), (2, 0)), (0, 1, 2, 0), 0, 0),
        ({"num_layers": 4, **GNMT}, 4, ((0,), (1,), (1, 2, 3)), (0, 1, 2, 3), 0, 3),
        ({"num_layers": 8, **GNMT}, 8, ((0,), (1,), tuple(range(1, 8))), tuple(range(8)), 0, 7),
        ({"num_encoder_layers": 2, "num_decoder_layers": 3, "attention": "luong"}, 2, ((0, 1),), (0, 1, 0), 0, 0),
    ],
)
def test_places_are_those_of_the_original(
    settings: dict[str, Any], gpus: int, encoder: Any, decoder: Any, attention: int, projection: int
) -> None:
    first = 0 if gpus else PROCESSOR
    expected = Placement(first, PROCESSOR, encoder, decoder, attention, projection)
    assert place_layers(HParams().replace(**settings), gpus, 50000, 50001) == expected


class Devices(TorchFunctionMode):
    """Lets tensors be on GPUs by name, while their numbers are on the processor; what meets has to be on the same."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[int, torch.device] = {}  # by address: views, and parameters made of tensors, share it
        self.kept: list[Any] = []  # so that no address is used twice

    def of(self, tensor: torch.Tensor) -> torch.device:
        return self.places.get(tensor.untyped_storage().data_ptr(), CPU)

    def put(self, value: Any, device: torch.device) -> Any:
        for tensor in tree_leaves(value):
            if isinstance(tensor, torch.Tensor):
                address = tensor.untyped_storage().data_ptr()
                if address and self.places.setdefault(address, device) == device:
                    self.kept.append(tensor)
        return value

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__self__", None) is torch.Tensor.device:
            return self.of(args[0])
        if func is torch.Tensor.to and isinstance(args[1], torch.device):
            return args[0] if self.of(args[0]) == args[1] else self.put(args[0].clone(), args[1])
        device = kwargs.pop("device", None)
        found = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        places = {self.of(tensor) for tensor in found if tensor.numel()}
        if func is torch.Tensor.__getitem__:
            places.discard(CPU)  # from where a tensor may be indexed
        assert len(places) < 2, f"{func} of {places}"
        return self.put(func(*args, **kwargs), device or next(iter(places), CPU))


@pytest.mark.parametrize("gpus", [0, 2, 3, 4])
@pytest.mark.parametrize("settings", MODELS, ids=lambda s: "-".join(map(str, s.values())))
def test_a_model_that_is_spread_is_the_same_and_all_that_meets_is_on_one_device(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, Any], gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "_MOST_ROWS", 12)  # the source embedding is larger, but for shared ones
    batch = make_batch([3, 7, 1, 5], [6, 2, 9, 1])
    if settings.get("share_vocab") or settings.get("language_model"):
        batch = batch._replace(src_BS=batch.src_BS % 11)
    one, two = (make_model(dropout=0.3, **settings).train() for _ in range(2))
    names = list(two.state_dict())
    loss = one.loss(batch, one.draw_masks(batch, torch.Generator().manual_seed(5)))
    loss.backward()  # type: ignore[no-untyped-call]

    devices = [torch.device("cuda", number) for number in range(gpus)] or [CPU]
    places = place_layers(two.hparams, gpus, len(two.src_embedding_VU), 11)
    with Devices() as where:
        spread(two, places, devices)
        masks = two.draw_masks(batch, torch.Generator().manual_seed(5))
        spread_loss = fast.loss(two, batch, masks)
    assert isinstance(two.decoder, Decoder)
    every = dict(enumerate(devices)) | {PROCESSOR: CPU}
    for cell, number in zip(two.decoder.stack.cells, places.decoder, strict=True):
        assert {where.of(weight) for weight in cell.parameters()} == {every[number]}
    assert where.of(two.src_embedding_VU) == every[places.src_embedding]
    assert where.of(two.tgt_embedding_VU) == every[places.tgt_embedding]
    assert where.of(spread_loss) == where.of(two.projection_UV)
    if not two.hparams.tied_embeddings:
        assert where.of(spread_loss) == every[places.projection]
    assert len({where.of(weight) for weight in two.parameters()} - {CPU}) >= min(gpus, len(places.decoder))

    spread_loss.backward()  # type: ignore[no-untyped-call]
    assert list(two.state_dict()) == names
    assert spread_loss.item() == loss.item()
    weights = dict(two.named_parameters())
    for name, weight in one.named_parameters():
        ours, theirs = weight.grad, weights[name].grad
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:  # sums may come in another order
            torch.testing.assert_close(ours.to_dense(), theirs.to_dense(), rtol=1e-9, atol=1e-13)


def test_a_run_with_layers_spread_is_the_same(toy: Toy, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for name in ("one", "two"):
        hparams = toy(out_dir=str(tmp_path / name), num_train_steps=4, unit_type="gru")  # that has no faster way
        if name == "two":
            hparams = hparams.replace(num_gpus=2)
            monkeypatch.setattr("headrace.nmt.train.find_gpus", lambda hparams: [torch.device("cpu")] * 2)
        train(hparams, quiet=True)
        runs.append(train(hparams.replace(num_train_steps=7), quiet=True))
    one, two = (run.translator.model.state_dict() for run in runs)
    assert all(torch.equal(weight, two[name]) for name, weight in one.items())
    assert runs[0].curves == runs[1].curves
    assert runs[1].translator.translate(["w1 w2"]) == runs[0].translator.translate(["w1 w2"])


def test_more_gpus_than_there_are_is_an_error(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    message = "num_gpus=4 spreads the layers over 4 GPUs, and this machine has 3: give --num_gpus=1 to train on the pro"
    with pytest.raises(HParamError, match=message):
        train(toy(num_gpus=4), quiet=True)
    assert find_gpus(HParams()) == []
    assert find_gpus(HParams(num_gpus=3)) == [torch.device("cuda", number) for number in range(3)]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(HParamError, match="over 2 GPUs for each of 2 processes, and this machine has 3"):
        find_gpus(HParams(num_gpus=2))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert find_gpus(HParams(num_gpus=2)) == [torch.device("cuda", 2), torch.device("cuda", 3)]


def test_a_transformer_is_not_spread() -> None:
    with pytest.raises(HParamError, match="num_gpus spreads layers of recurrent networks: start several processes"):
        HParams(architecture="transformer", num_gpus=2)
