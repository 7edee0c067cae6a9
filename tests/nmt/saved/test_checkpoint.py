import errno
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace as hr
from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import HParams
from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.checkpoint import Checkpoint, CheckpointError


def make(step: int = 10, words: tuple[str, ...] = ("ä", "b"), **settings: Any) -> Checkpoint:
    hparams = HParams().replace(num_units=4, **settings)
    vocab = hr.Vocab(["<unk>", "<s>", "</s>", *words])
    model = Seq2Seq(hparams, len(vocab), len(vocab), torch.Generator().manual_seed(1))
    loader = {"epoch": 3, "pipeline": ["x"]}
    return Checkpoint(step, hparams, Vocabs(vocab, vocab), model.state_dict(), {"moments": []}, loader, {"curves": {}})


@pytest.mark.parametrize("settings", [{}, {"share_vocab": True}, {"encoder_type": "bi", "attention": "luong"}])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, settings: dict[str, Any]) -> None:
    saved = make(random_seed=7, **settings)
    path = checkpoint.save(tmp_path, saved)
    assert path.name == "translate.ckpt-10"
    found = checkpoint.load(path)
    assert (found.step, found.hparams, found.vocabs) == (saved.step, saved.hparams, saved.vocabs)
    assert (found.loader, found.progress, found.optimizer) == (saved.loader, saved.progress, saved.optimizer)
    for name, weight in found.model().state_dict().items():
        assert torch.equal(weight, saved.weights[name])
    assert HParams.load(tmp_path / "hparams") == saved.hparams


def test_files_of_one_translation_are_not_kept(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, make(inference_input_file="a", inference_output_file="b"))
    assert checkpoint.load(path).hparams.inference_input_file is None


def test_the_latest_is_found_by_number_and_older_ones_are_deleted(tmp_path: Path) -> None:
    for step in (5, 90, 100, 7):
        checkpoint.save(tmp_path, make(step))
    (tmp_path / "translate.ckpt-200.bak").write_bytes(b"")
    (tmp_path / ".translate.ckpt-101.77.tmp").write_bytes(b"half")
    checkpoint.prune(tmp_path, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "hparams",
        "translate.ckpt-100",
        "translate.ckpt-200.bak",
        "translate.ckpt-90",
    ]
    latest = checkpoint.latest(tmp_path, pytest.fail)
    assert latest is not None
    assert latest.step == 100


def test_no_checkpoint_is_no_error(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path, pytest.fail) is None


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "foreign", "newer"])
def test_a_damaged_checkpoint_is_passed_over_and_said_so(tmp_path: Path, damage: str) -> None:
    checkpoint.save(tmp_path, make(10))
    path = checkpoint.save(tmp_path, make(20))
    content = bytearray(path.read_bytes())
    match damage:
        case "empty":
            content = bytearray()
        case "cut":
            del content[len(content) // 2 :]
        case "flipped":
            place = bytes(content).rindex(make(20).weights["projection_UV"].numpy().tobytes())
            content[place + 3] ^= 1
        case "text":
            content = bytearray(b"no checkpoint at all\n")
        case "foreign":
            torch.save({"model": {}}, path)
            content = bytearray(path.read_bytes())
        case "newer":
            torch.save({"format": checkpoint.FORMAT, "version": 99}, path)
            content = bytearray(path.read_bytes())
    path.write_bytes(content)
    said: list[str] = []
    found = checkpoint.latest(tmp_path, said.append)
    assert found is not None
    assert found.step == 10
    assert len(said) == 1
    assert str(path) in said[0]
    (tmp_path / "translate.ckpt-10").unlink()
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be read; the oldest: .*translate\.ckpt-20"):
        checkpoint.latest(tmp_path, said.append)


def test_a_checkpoint_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, make())
    content = path.read_bytes()
    places = [*range(0, len(content), max(1, len(content) // 150)), *range(len(content) - 30, len(content))]
    for place in places:
        path.write_bytes(content[:place])
        with pytest.raises(CheckpointError, match=rf"is no checkpoint, cut short or damaged \({place:,} bytes\)"):
            checkpoint.load(path)


def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    saved = make()
    path = checkpoint.save(tmp_path, saved)
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), max(1, len(content) // 200)):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            found = checkpoint.load(path)
        except CheckpointError:
            refused += 1
            continue
        assert (found.hparams, found.vocabs, found.loader) == (saved.hparams, saved.vocabs, saved.loader)
        assert all(torch.equal(weight, saved.weights[name]) for name, weight in found.weights.items())
    assert refused > 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": None}, "is not whole .*weights"),
        ({"step": None}, "is not whole .*step"),
        ({"vocabs": 3}, "is not whole"),
        ({"hparams": {"num_wings": 2}}, "has settings that this headrace cannot take: no setting is called num_wings"),
        ({"hparams": {"num_units": -2}}, "has settings that this headrace cannot take: num_units must be at least 1"),
    ],
)
def test_a_checkpoint_without_all_that_belongs_there_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = checkpoint.save(tmp_path, make())
    document = torch.load(path, weights_only=True) | change
    torch.save({name: value for name, value in document.items() if value is not None}, path)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(path)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    path = tmp_path / "translate.ckpt-1"
    torch.save({"format": checkpoint.FORMAT, "x": Trap()}, path)
    with pytest.raises(CheckpointError, match="is no checkpoint, cut short or damaged"):
        checkpoint.load(path)
    assert not (tmp_path / "sprung").exists()


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read the checkpoint .*nowhere: No such file"):
        checkpoint.load(tmp_path / "nowhere")


def test_weights_of_another_size_are_refused_by_name(tmp_path: Path) -> None:
    saved = make()
    saved.weights["projection_UV"] = torch.zeros(4, 9)
    del saved.weights["src_embedding_VU"]
    found = checkpoint.load(checkpoint.save(tmp_path, saved))
    with pytest.raises(
        CheckpointError,
        match=r"projection_UV should be \(4, 5\), is \(4, 9\); src_embedding_VU should be \(5, 4\), is absent",
    ):
        found.model()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_units": 8}, "trained with num_units=4, now num_units=8 is asked for: leave --num_units as it was"),
        (
            {"num_layers": 3},
            "trained with num_encoder_layers=2, num_decoder_layers=2, now num_encoder_layers=3, num_decod",
        ),
        ({"attention": "luong"}, "trained with attention=, now attention=luong"),
        ({"architecture": "transformer"}, "trained with architecture=rnn, now architecture=transformer"),
        ({"unit_type": "gru"}, "trained with unit_type=lstm, now unit_type=gru"),
        ({"encoder_type": "gnmt"}, "trained with encoder_type=uni, now encoder_type=gnmt"),
        ({"share_vocab": True}, "trained with share_vocab=False, now share_vocab=True"),
        ({"tied_embeddings": True}, "trained with tied_embeddings=False, now tied_embeddings=True"),
        (
            {"num_units": 8, "residual": True},
            "trained with num_units=4, residual=False, now num_units=8, residual=True is asked for: leave --num_units, "
            "--residual as it was",
        ),
    ],
)
def test_another_model_is_refused_by_the_flag(changes: dict[str, Any], message: str) -> None:
    saved = make()
    with pytest.raises(CheckpointError, match=message):
        saved.check_shape(saved.hparams.replace(**changes))
    saved.check_shape(saved.hparams.replace(num_train_steps=99, learning_rate=0.5))


def test_words_that_are_cut_in_another_way_are_refused() -> None:
    saved = make(subword_option="bpe")
    spm = saved.hparams.replace(subword_option="spm")
    saved.check_shape(spm)  # a text that comes cut may have been cut by any program
    saved.subwords = b"#version: 0.2\n"
    with pytest.raises(CheckpointError, match="trained with subword_option=bpe, now subword_option=spm is asked for"):
        saved.check_shape(spm)


def test_other_words_are_refused() -> None:
    saved = make()
    with pytest.raises(CheckpointError, match=r"another source vocabulary \(5 words, now 6; word 3 was ä, is a\)"):
        saved.check_vocabs(make(words=("a", "b", "c")).vocabs)
    with pytest.raises(CheckpointError, match=r"another target vocabulary \(5 words, now 5; word 3 was ä, is b\)"):
        saved.check_vocabs(Vocabs(saved.vocabs.src, make(words=("b", "a")).vocabs.tgt))


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checkpoint.save(tmp_path, make())
    before = path.read_bytes()

    def full(self: Path, data: Any) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CheckpointError, match=r"cannot write .*ckpt-10: .*No space left on device; older .* Make room"):
        checkpoint.save(tmp_path, make())
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hparams", "translate.ckpt-10"]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("step", "10"),
        ("vocabs", "ab"),
        ("weights", []),
        ("weights", {"projection_UV": 1.0}),
        ("optimizer", [1]),
        ("loader", None),
        ("progress", 3),
        ("subwords", "ab"),
    ],
)
def test_parts_of_another_type(tmp_path: Path, part: str, value: Any) -> None:
    path = checkpoint.save(tmp_path, make())
    document = torch.load(path)
    document[part] = value
    torch.save(document, path)
    with pytest.raises(CheckpointError, match=r"ckpt-10 is not whole \(TypeError"):
        checkpoint.load(path)


def test_weights_that_are_no_numbers(tmp_path: Path) -> None:
    saved = make()
    saved.weights["projection_UV"][0, 0] = float("nan")
    found = checkpoint.load(checkpoint.save(tmp_path, saved))
    with pytest.raises(CheckpointError, match="projection_UV has values that are no numbers: name another one"):
        found.model()
