"""Several processes or programs translate one file."""

import dataclasses
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace as hr
from headrace.nmt.__main__ import main
from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import HParams
from headrace.nmt.infer import Translator, translate_file
from headrace.nmt.model import Seq2Seq
from headrace.nmt.train import train
from headrace.nmt.translating import parts, processes
from headrace.nmt.translating.parts import PartError
from tests.nmt.conftest import Toy
from tests.nmt.test_main import flags

SENTENCES = ["a b", "", "c a b a", "b", "a a a", "c b", "c"]
Job = Callable[..., Translator]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "POLL", 0.01)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Makes a translator for a job; the model is the same each time, or has another seed."""
    (tmp_path / "in.txt").write_text("\n".join(SENTENCES) + "\n")

    def make(jobid: int | None, seed: int = 1, **settings: Any) -> Translator:
        hparams = HParams().replace(num_units=6, init_weight=1.0, attention="luong", num_workers=3, worker_timeout=1)
        vocab = hr.Vocab(["<unk>", "<s>", "</s>", "a", "b", "c"])
        model = Seq2Seq(hparams, len(vocab), len(vocab), torch.Generator().manual_seed(seed))
        return Translator(model.eval(), Vocabs(vocab, vocab), hparams.replace(jobid=jobid, **settings))

    return make


def run(translator: Translator, folder: Path) -> list[str]:
    return translate_file(translator, folder / "in.txt", folder / "out.txt")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_programs_put_together_what_one_would_write(job: Job, tmp_path: Path) -> None:
    expected = run(job(None, num_workers=1), tmp_path)
    (tmp_path / "out.txt").unlink()
    for jobid in (2, 1, 0):
        found = run(job(jobid), tmp_path)
        assert found == (expected if jobid == 0 else expected[3 * jobid : 3 * jobid + 3])
    assert (tmp_path / "out.txt").read_text().splitlines() == expected
    assert names(tmp_path) == ["in.txt", "out.txt"]


def test_job_0_waits_for_one_that_works(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(job(None, num_workers=1), tmp_path)
    go, nbest = threading.Event(), Translator.nbest

    def slow(self: Translator, *args: Any, **options: Any) -> Any:
        if self.hparams.jobid == 1:
            assert go.wait(60)
        return nbest(self, *args, **options)

    monkeypatch.setattr(Translator, "nbest", slow)
    found: list[list[str]] = []
    late = threading.Thread(target=lambda: run(job(1), tmp_path))
    first = threading.Thread(target=lambda: found.append(run(job(0, worker_timeout=4), tmp_path)))
    run(job(2), tmp_path)
    late.start()
    first.start()
    first.join(5.0)  # longer than the time after which it would give up one that gives no sign of life
    assert first.is_alive()
    go.set()
    first.join(60)
    late.join(60)
    assert found == [expected]


def test_only_a_line_feed_ends_a_line(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words may hold other marks, such as those of a source word that `replace_unk` copies."""
    nbest = Translator.nbest

    def marked(self: Translator, sentences: Sequence[str], n: int = 1, **options: Any) -> Any:
        found = nbest(self, sentences, n, **options)
        return [[dataclasses.replace(one, text="a\rb\x85c") for one in hypotheses] for hypotheses in found]

    monkeypatch.setattr(Translator, "nbest", marked)
    for jobid in (1, 2, 0):
        found = run(job(jobid), tmp_path)
    assert found == ["a\rb\x85c"] * 7


@pytest.mark.parametrize("other", ["settings", "model", "input", "cut"])
def test_parts_of_another_run_are_not_taken(job: Job, tmp_path: Path, other: str) -> None:
    translators = [job(jobid) for jobid in range(3)]
    run(translators[2], tmp_path)
    if other == "settings":
        run(job(1, beam_width=2), tmp_path)
    elif other == "model":
        run(job(1, seed=2), tmp_path)
    elif other == "input":
        (tmp_path / "in.txt").write_text("a\n" * 7)
        run(translators[1], tmp_path)
        (tmp_path / "in.txt").write_text("\n".join(SENTENCES) + "\n")
    else:
        (tmp_path / "out.txt_done_1").write_text("a\nb\n")  # as the original's
    with pytest.raises(PartError, match=r"job 1 of 3 has given no sign of life for 1 seconds: it left out.txt_d"):
        run(translators[0], tmp_path)
    assert not (tmp_path / "out.txt").exists()
    run(translators[1], tmp_path)
    translators[0].translate = pytest.fail  # type: ignore[method-assign, assignment]  # what is done is kept
    assert len(run(translators[0], tmp_path)) == 7


def test_a_job_that_was_never_started_is_named(job: Job, tmp_path: Path) -> None:
    run(job(1), tmp_path)
    message = (
        "job 2 of 3 has given no sign of life for 1 seconds: it was not started. Run it .* and --jobid=2, and job 0 a"
    )
    with pytest.raises(PartError, match=message):
        run(job(0), tmp_path)


def test_a_job_that_was_killed_is_named(job: Job, tmp_path: Path) -> None:
    run(job(1), tmp_path)
    mark = (tmp_path / "out.txt_done_1").read_text().split("\n")[0]
    (tmp_path / "out.txt_job_2").write_text(f"{mark} 77 5\n")  # its last sign of life
    with pytest.raises(PartError, match=r"job 2 of 3 has given no sign of life for 1 seconds: it died\. Run"):
        run(job(0), tmp_path)


def test_why_a_job_failed_ends_job_0(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise MemoryError("no room for 3 bytes")

    failing, nbest = job(1), Translator.nbest

    def first_then_fails(self: Translator, *args: Any, **options: Any) -> Any:
        with pytest.raises(MemoryError), monkeypatch.context() as patch:
            patch.setattr(Translator, "nbest", fail)
            run(failing, tmp_path)
        return nbest(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "nbest", first_then_fails)
        with pytest.raises(PartError, match="job 1 of 3 failed: no room for 3 bytes; run it and job 0 again"):
            run(job(0, worker_timeout=600), tmp_path)
    run(job(1), tmp_path)
    run(job(2), tmp_path)
    (tmp_path / "out.txt_job_2").write_text("of an earlier try")
    assert len(run(job(0), tmp_path)) == 7


# Processes of one program --------------------------------------------------------------------------------------------


def test_processes_translate_as_one_does(toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hparams = toy(num_train_steps=2)
    train(hparams, quiet=True)
    for count in (1, 2):
        command = [f"--out_dir={hparams.out_dir}", f"--inference_input_file={hparams.test_prefix}.de", "--beam_width=3"]
        command += [f"--inference_output_file={tmp_path}/out{count}", f"--inference_ref_file={hparams.test_prefix}.en"]
        command += [f"--nbest_file={tmp_path}/nbest{count}", f"--alignment_file={tmp_path}/align{count}"]
        assert main([*command, f"--num_workers={count}"]) == 0
    for name in ("out", "nbest", "align"):
        assert (tmp_path / f"{name}1").read_text() == (tmp_path / f"{name}2").read_text() != ""
    one, two = (
        capsys.readouterr().out.replace("out1", "out2").split(f"# 9 sentences translated to {tmp_path}/out2\n")[1:]
    )
    assert one == two


class Dies(Translator):
    """What an operating system short of memory would do to a worker."""

    def nbest(self, *args: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_an_error(job: Job) -> None:
    translator = job(None)
    dies = Dies(translator.model, translator.vocabs, translator.hparams)
    with pytest.raises(PartError, match="one of 2 processes that translate was killed: give fewer --num_workers"):
        processes.translate_by_workers(dies, SENTENCES, 1, 2)


def test_nothing_to_translate_takes_no_process(job: Job) -> None:
    assert processes.translate_by_workers(job(None), [], 1, 2) == []


def test_translators_that_cut_can_be_sent(toy: Toy) -> None:
    result = train(
        toy(num_train_steps=1, subword_option="bpe", subword_size=10, vocab_prefix=None, dev_prefix=None), quiet=True
    )
    sent = pickle.loads(pickle.dumps(result.translator))
    assert sent.translate(["w1 w2"]) == result.translator.translate(["w1 w2"])


def test_programs_under_torchrun_are_jobs(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hparams = toy(num_train_steps=1)
    assert main(flags(hparams)) == 0
    command = [f"--out_dir={hparams.out_dir}", f"--inference_input_file={hparams.test_prefix}.de"]
    command.append(f"--inference_output_file={tmp_path}/text")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "10":
        monkeypatch.setenv("RANK", rank)
        assert main(command) == 0
        assert (tmp_path / "text").exists() == (rank == "0")
    assert len((tmp_path / "text").read_text().splitlines()) == 9
