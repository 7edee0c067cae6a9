"""Several models that translate as one."""

from pathlib import Path

import pytest
import torch

from headrace.nmt.infer import Translator
from headrace.nmt.model import Batch
from headrace.nmt.saved.checkpoint import CheckpointError
from headrace.nmt.text.special import EOS, SOS
from headrace.nmt.train import train
from headrace.nmt.translating.decode import translate
from headrace.nmt.translating.ensemble import Ensemble
from tests.nmt.conftest import MakeBatch, MakeModel, Toy


def test_probabilities_are_means(make_batch: MakeBatch, make_model: MakeModel) -> None:
    models = [make_model(seed, attention="luong") for seed in range(3)]
    batch = make_batch([3, 5], [4, 2])
    expected = torch.stack([model(batch).softmax(dim=2) for model in models]).mean(dim=0)
    torch.testing.assert_close(Ensemble(models)(batch).exp(), expected)


@pytest.mark.parametrize("width", [0, 1, 4])
def test_copies_translate_as_the_model_alone(make_batch: MakeBatch, make_model: MakeModel, width: int) -> None:
    model, batch = make_model(attention="scaled_luong", seed=2), make_batch([4, 6, 1], [1] * 3)
    hparams = model.hparams.replace(beam_width=width, length_penalty_weight=0.5)
    alone = translate(model, batch.src_BS, batch.src_len_B, hparams)
    together = translate(Ensemble([model] * 3), batch.src_BS, batch.src_len_B, hparams)
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("width", [0, 3])
def test_models_of_different_kinds(make_batch: MakeBatch, make_model: MakeModel, width: int) -> None:
    """What the search says of a translation is what scoring says of it."""
    kinds = [{"attention": "luong"}, {}, {"attention": "bahdanau", "encoder_type": "bi", "unit_type": "gru"}]
    ensemble = Ensemble([make_model(seed, **kind) for seed, kind in enumerate(kinds)])
    batch = make_batch([3, 5], [1, 1])
    found = translate(ensemble, batch.src_BS, batch.src_len_B, ensemble.hparams.replace(beam_width=width))
    assert found.alignments_BKTS is not None
    for row in range(2):
        ids = found.ids_BKT[row, 0].tolist()
        ids = ids[: ids.index(EOS) + 1] if EOS in ids else ids
        ids = ids[: 2 * int(batch.src_len_B[row])]  # where it was cut, no eos was chosen
        tgt = torch.tensor([[SOS, *ids]])
        one = Batch(batch.src_BS[row : row + 1], batch.src_len_B[row : row + 1], tgt, torch.tensor([len(ids)]))
        with torch.no_grad():
            total = ensemble(one).gather(2, one.tgt_out_TB[:, :, None]).sum()
        torch.testing.assert_close(found.log_probs_BK[row, 0], total)
        words, n = len(found.words(row)), int(batch.src_len_B[row])
        sums = found.alignments_BKTS[row, 0, :words, :n].sum(dim=1)
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_other_vocabularies_are_refused(make_model: MakeModel, toy: Toy) -> None:
    with pytest.raises(ValueError, match=r"write the same words, got vocabularies of the sizes \[\]"):
        Ensemble([])
    first, second = (train(toy(out_dir=f"{toy().out_dir}{n}", random_seed=n), quiet=True) for n in range(2))
    folders = [f"{toy().out_dir}{n}" for n in range(2)]
    found = Translator.load(folders, beam_width=2)
    assert found.hparams.search == "beam_search"
    assert len(found.others) == 1
    (a,), (b,), (both,) = (t.score(["w1 w2"], ["W1 W2"]) for t in (first.translator, second.translator, found))
    assert min(a, b) - 1e-4 <= both <= max(a, b) + 3
    vocab = Path(f"{toy().vocab_prefix}.en")
    vocab.write_text(vocab.read_text() + "more\n")
    train(toy(out_dir=f"{toy().out_dir}2"), quiet=True)
    with pytest.raises(CheckpointError, match=r"have not the same target words \(15 and 16\)"):
        Translator.load([*folders, f"{toy().out_dir}2"])
    with pytest.raises(CheckpointError, match="got none"):
        Translator.load([])
