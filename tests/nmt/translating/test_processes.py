"""Worker processes of translation."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nmt.servers import until
from tests.processes import descendants, is_running

PROGRAM = """
import sys
from headrace.nmt.hparams import HParams
from headrace.nmt.data import Vocabs
from headrace.nmt.infer import Translator
from headrace.nmt.model import Seq2Seq
from headrace.nmt.translating.processes import translate_by_workers
import headrace as hr

if __name__ == "__main__":
    vocab = hr.Vocab(["<unk>", "<s>", "</s>", *map(str, range(50))])
    hparams = HParams(num_units=256, num_layers=2, infer_batch_size=1, tgt_max_len_infer=400)
    translator = Translator(Seq2Seq(hparams, len(vocab), len(vocab)).eval(), Vocabs(vocab, vocab), hparams)
    print("begins", flush=True)
    translate_by_workers(translator, ["1 2 3 " * 60] * 500, 1, 2)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_none_stays(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, tmp_path / "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        try:
            assert program.stdout.readline() == b"begins\n"
            until(lambda: len(descendants(program.pid)) >= 3, 120.0)  # the workers and multiprocessing's own helper
            started = descendants(program.pid)
            program.send_signal(number)
            program.wait(120)
            until(lambda: not any(map(is_running, started)), 120.0)
        finally:
            program.kill()
        told = program.stderr.read().decode()
    if number == signal.SIGINT:
        assert told.count("Traceback") == 1  # the program's own, which nobody caught
