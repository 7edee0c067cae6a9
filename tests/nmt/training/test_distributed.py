"""Several processes that train together do what one does."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.infer import Translator
from headrace.nmt.saved import checkpoint
from headrace.nmt.train import train
from headrace.nmt.training.distributed import Ranks
from tests.nmt.conftest import MakeBatch, MakeModel, Toy
from tests.nmt.test_main import flags

RUNS: dict[str, dict[str, object]] = {
    # By the backward path of fast.py: dropout, clipping, and last batches of 6 and 7 sentences; scores are kept.
    "fast": {"optimizer": "sgd", "learning_rate": 1.0, "dropout": 0.3, "max_gradient_norm": 1.0, "encoder_type": "bi"}
    | {"num_layers": 2, "steps_per_external_eval": 6, "num_train_steps": 13, "avg_ckpts": True, "num_keep_ckpts": 2},
    "adam": {"accumulate": 3, "label_smoothing": 0.1, "batch_size": 7},
    "autograd": {"unit_type": "gru", "attention": "normed_bahdanau", "optimizer": "sgd", "learning_rate": 0.5},
    "transformer": {"architecture": "transformer", "attention": "", "batch_tokens": 40, "accumulate": 2}
    | {"optimizer": "sgd", "learning_rate": 0.1, "dropout": 0.1, "num_units": 16, "tied_embeddings": True},
    "sampled": {"num_sampled_softmax": 5, "optimizer": "sgd", "learning_rate": 0.5},
    "few": {"batch_size": 1, "optimizer": "sgd", "learning_rate": 0.5},  # fewer sentences than ranks
    "drawn": {"random_seed": None, "num_train_steps": 2},  # rank 0 draws the seed
    "cut": {"subword_option": "bpe", "subword_size": 20, "num_train_steps": 2, "vocab_prefix": None},
    "begun": {"num_train_steps": 5, "dropout": 0.3},
}


def start(rank: int, port: int, *arguments: str, size: int = 2) -> subprocess.Popen[str]:
    """Starts a rank as torchrun does, but with nobody to look after it."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return subprocess.Popen(
        [sys.executable, "-u", *arguments],
        env=os.environ | place | {"OMP_NUM_THREADS": "1", "LOCAL_RANK": str(rank)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture
def together(toy: Toy, folder: Path, tmp_path: Path) -> dict[str, HParams]:
    """Trains all runs by two processes under torchrun, once; returns their settings."""
    runs = folder / "runs.json"
    if not runs.exists():
        data = folder / "data"
        data.mkdir()
        for path in tmp_path.iterdir():
            (data / path.name).write_bytes(path.read_bytes())
        prefixes = {f"{name}_prefix": str(data / name) for name in ("train", "dev", "test", "vocab")}
        settings = {name: toy(**prefixes | {"out_dir": str(folder / name)} | run) for name, run in RUNS.items()}
        runs.write_text(json.dumps({name: dataclasses.asdict(hparams) for name, hparams in settings.items()}))
        program = Path(__file__).with_name("ranks.py")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        done = subprocess.run([*command, str(program), str(runs)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
    return {name: HParams().replace(**settings) for name, settings in json.loads(runs.read_text()).items()}


def assert_close(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name], rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "drawn"])
def test_two_ranks_train_as_one_process(together: dict[str, HParams], tmp_path: Path, name: str) -> None:
    hparams = together[name]
    ours = [torch.load(Path(str(hparams.out_dir), f"weights{rank}"), weights_only=True) for rank in (0, 1)]
    assert all(torch.equal(weight, ours[1][part]) for part, weight in ours[0].items())  # not a bit apart
    one = train(hparams.replace(out_dir=str(tmp_path / "one")), quiet=True)
    assert_close(ours[0], one.translator.model.state_dict())
    saved = checkpoint.latest(Path(str(hparams.out_dir)), pytest.fail)
    assert saved is not None
    curves = saved.progress["curves"]
    assert curves.keys() == one.curves.keys()
    for step, value in one.curves["train_ppl"]:
        assert dict(curves["train_ppl"])[step] == pytest.approx(value, rel=1e-4)
    assert one.scores["dev_ppl"] == pytest.approx(curves["dev_ppl"][-1][1], rel=1e-4)


def test_one_rank_writes_the_log_and_the_best_checkpoints(together: dict[str, HParams]) -> None:
    out_dir = Path(str(together["fast"].out_dir))
    assert len(list(out_dir.glob("log_*"))) == 1
    assert Translator.load(out_dir / "best_bleu").translate(["w1"])
    assert (out_dir / "avg_best_bleu").is_dir()


def test_rank_0_draws_the_seed(together: dict[str, HParams]) -> None:
    out_dir = Path(str(together["drawn"].out_dir))
    ours = [torch.load(out_dir / f"weights{rank}", weights_only=True) for rank in (0, 1)]
    assert all(torch.equal(weight, ours[1][part]) for part, weight in ours[0].items())


def test_a_run_goes_on_with_another_number_of_ranks(together: dict[str, HParams], tmp_path: Path) -> None:
    begun = together["begun"].replace(num_train_steps=13)
    whole = train(begun.replace(out_dir=str(tmp_path / "whole")), quiet=True)
    rest = train(begun, quiet=True)
    assert_close(rest.translator.model.state_dict(), whole.translator.model.state_dict())
    assert [step for step, _ in rest.curves["train_ppl"]] == [step for step, _ in whole.curves["train_ppl"]]


def test_a_group_that_the_program_made_is_used_and_stays(toy: Toy, tmp_path: Path) -> None:
    program = """
import sys
import torch
from torch import distributed as dist
from headrace.nmt.cli.flags import parse_flags
from headrace.nmt.hparams import HParams
from headrace.nmt.train import train

dist.init_process_group("gloo")
for steps in (3, 5):  # two runs in one group
    result = train(HParams().replace(**parse_flags(sys.argv[1:])).replace(num_train_steps=steps), quiet=True)
    dist.barrier()
torch.save(result.translator.model.state_dict(), f"{sys.argv[-1].split('=')[1]}/weights{dist.get_rank()}")
"""
    port, hparams = free_port(), toy(dropout=0.0, optimizer="sgd")
    out_dir = tmp_path / "both"
    arguments = "-c", program, *flags(hparams.replace(out_dir=None)), f"--out_dir={out_dir}"
    for code, _, err in map(finish, [start(rank, port, *arguments) for rank in (0, 1)]):
        assert code == 0, err
    one = train(hparams.replace(num_train_steps=5), quiet=True)
    for rank in (0, 1):
        assert_close(torch.load(out_dir / f"weights{rank}", weights_only=True), one.translator.model.state_dict())
    assert len(list(out_dir.glob("log_*"))) <= 2  # rank 0's


# What may go wrong ---------------------------------------------------------------------------------------------------


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def wait_for(stream: IO[str] | None, text: str) -> None:
    assert stream is not None
    assert any(text in line for line in stream), f"{text} never came"


def test_a_rank_that_dies_ends_the_others_with_a_message(toy: Toy) -> None:
    port, arguments = free_port(), ("-m", "headrace.nmt", *flags(toy(num_train_steps=100000)))
    first, second = (start(rank, port, *arguments) for rank in (0, 1))
    wait_for(first.stdout, "step 4 ")
    os.kill(second.pid, signal.SIGKILL)
    code, _, err = finish(first)
    finish(second)
    assert code == 2
    assert "headrace.nmt: rank 0 has lost the other processes (" in err
    assert "the same command goes on from the latest checkpoint" in err


def test_ctrl_c_in_one_rank_stops_all_after_the_same_step(toy: Toy) -> None:
    port, arguments = free_port(), ("-m", "headrace.nmt", *flags(toy(num_train_steps=100000)))
    first, second = (start(rank, port, *arguments) for rank in (0, 1))
    wait_for(first.stdout, "step 4 ")
    os.kill(second.pid, signal.SIGINT)
    for code, _, err in (finish(first), finish(second)):
        assert code == 130, err
        assert "stopped; the same command goes on from the checkpoint of step" in err


def test_ranks_with_other_settings_are_refused(toy: Toy) -> None:
    port, hparams = free_port(), toy()
    both = [start(r, port, "-m", "headrace.nmt", *flags(hparams), f"--dropout=0.{r}") for r in (0, 1)]
    for code, _, err in map(finish, both):
        assert code == 2
        assert "settings, dropout: rank 0 has 0.0, rank 1 has 0.1: start all with the same flags" in err


def test_an_error_of_rank_0_while_the_others_wait_ends_all(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "dev.de").write_text("")
    (tmp_path / "dev.en").write_text("")
    port, arguments = free_port(), ("-m", "headrace.nmt", *flags(toy()))
    first, second = (start(rank, port, *arguments) for rank in (0, 1))
    code, _, err = finish(first)
    assert code == 2
    assert "has no sentence pair with words on both sides" in err
    code, _, err = finish(second)
    assert code == 2
    assert "rank 1 has lost the other processes (" in err


# One process ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["rnn", "transformer"])
def test_shares_are_every_nth_sentence_with_its_own_dropout(
    make_batch: MakeBatch, make_model: MakeModel, architecture: str
) -> None:
    settings = {"architecture": architecture, "num_heads": 2, "dropout": 0.5}
    settings |= {"attention": "" if architecture == "transformer" else "luong"}
    model = make_model(**settings).train()
    batch = make_batch([3, 5, 2, 4, 1], [2, 4, 4, 1, 3])
    masks = model.draw_masks(batch, torch.Generator().manual_seed(3))
    total, whole = 0.0, model.loss(batch, masks).item() * 5
    for rank, rows in ((0, [0, 3]), (1, [1, 4]), (2, [2])):
        share, own = Ranks(rank, 3).share(model, batch, masks)
        assert torch.equal(share.src_BS, batch.src_BS[rows])
        total += model.loss(share, own).item() * len(rows)
    assert total == pytest.approx(whole, rel=1e-12)
    share, _ = Ranks(6, 7).share(model, batch, masks)
    assert len(share.src_BS) == 0


def test_alone_nothing_is_asked_of_anyone() -> None:
    with Ranks.join() as ranks:
        assert ranks.tell([1]) == [1]
        assert ranks.add_up([], (1.5,)) == [1.5]
        ranks.agree("anything", 3)
        with ranks.first_alone():
            assert ranks.leads
