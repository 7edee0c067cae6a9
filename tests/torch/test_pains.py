"""What users of torch's DataLoader suffer from, shown on both loaders: there it is, here it isn't.

Nothing is timed; benchmarks do that.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import data as torch_data

import headrace.torch as ht
from tests.processes import is_running
from tests.torch.data import Failing, Holding, Noisy, Numbers, PathError, Stream, same

Theirs: Any = torch_data.DataLoader
Ours: Any = ht.DataLoader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def in_a_process(code: str, loader: str, seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Runs a program of its own with `DataLoader` of a module; None if it doesn't end in time."""
    program = f"from {loader} import DataLoader\n" + textwrap.dedent(code)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=pathlib.Path(__file__).parents[2],
    )
    try:
        out, error = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Texts(Numbers):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.rows = [f"row number {i}" for i in range(n)]

    def __getitem__(self, i: int) -> int:
        return len(self.rows[i])


def test_memory_of_workers_that_read_python_objects() -> None:
    """Reading an object counts its references, which copies its page from the parent's memory."""

    def growth(kind: Any) -> int:
        loader = kind(Texts(300_000), batch_size=2000, num_workers=1, collate_fn=sum, shuffle=True)
        batches = iter(loader)
        next(batches)
        pid = batches._workers[0].pid

        def private() -> int:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

        before = private()
        for number, _ in enumerate(batches):
            if number == 140:
                return private() - before
        raise AssertionError

    theirs, ours = growth(Theirs), growth(Ours)
    assert theirs > 3_000  # kB
    assert theirs > 3 * ours


def test_generators_in_the_dataset_repeat_themselves() -> None:
    def distinct(kind: Any) -> int:
        loader = kind(Holding(8), batch_size=None, num_workers=2, collate_fn=same)
        return len({row[1] for _ in range(2) for row in loader})

    assert distinct(Theirs) == 4
    assert distinct(Ours) == 16


def test_augmented_samples_depend_on_the_number_of_workers() -> None:
    def samples(kind: Any, workers: int) -> Any:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        return list(kind(Noisy(6), batch_size=None, num_workers=workers, collate_fn=same))

    theirs, ours = ([samples(kind, workers) for workers in (0, 1, 2)] for kind in (Theirs, Ours))
    assert theirs[0] != theirs[1] != theirs[2]
    assert ours[0] == ours[1] == ours[2]


def test_a_result_that_cant_be_sent_hangs() -> None:
    code = """
        import threading
        class Locks(list):
            def __getitem__(self, i):
                return threading.Lock()
        if __name__ == "__main__":
            list(DataLoader(Locks([1]), num_workers=1, collate_fn=lambda batch: batch))
    """
    assert in_a_process(code, "torch.utils.data", 5) is None
    ended = in_a_process(code, "headrace.torch", 60)
    assert ended is not None
    assert "cannot pickle" in ended.stderr


def test_a_lock_that_a_thread_holds_while_forking_hangs() -> None:
    code = """
        import threading, time
        lock = threading.Lock()
        def hold():
            while True:
                with lock:
                    time.sleep(1)
        threading.Thread(target=hold, daemon=True).start()
        time.sleep(0.1)
        class Guarded(list):
            def __getitem__(self, i):
                with lock:
                    return i
        if __name__ == "__main__":
            print(list(DataLoader(Guarded([0, 0]), batch_size=None, num_workers=1)), flush=True)
    """
    if sys.version_info < (3, 14):  # from where on torch doesn't fork either
        assert in_a_process(code, "torch.utils.data", 5) is None
    ended = in_a_process(code, "headrace.torch", 60)
    assert ended is not None
    assert "can't be sent" in ended.stderr  # it is said which lock, and what to do


def test_a_stream_comes_once_for_each_worker() -> None:
    def count(kind: Any) -> int:
        return len(list(kind(Stream(6), batch_size=None, num_workers=2)))

    assert count(Theirs) == 12
    assert count(Ours) == 6


def test_batches_of_a_stream_depend_on_the_number_of_workers() -> None:
    def sizes(kind: Any) -> list[list[int]]:
        return [[len(b) for b in kind(Stream(20), batch_size=8, num_workers=n)] for n in (1, 3)]

    theirs, ours = sizes(Theirs), sizes(Ours)
    assert theirs[0] != theirs[1]
    assert ours[0] == ours[1] == [8, 8, 4]


class Straggling(Numbers):
    """The first sample waits, and says then how many others were made meanwhile."""

    def __init__(self, folder: str) -> None:
        super().__init__(64)
        self.folder = folder

    def __getitem__(self, i: int) -> int:
        if i == 0:
            time.sleep(2.5)
            return len(os.listdir(self.folder))
        pathlib.Path(self.folder, str(i)).touch()
        return i


def test_one_slow_sample_holds_up_the_workers(tmp_path: pathlib.Path) -> None:
    def made_meanwhile(kind: Any) -> int:
        folder = tmp_path / kind.__module__
        folder.mkdir()
        return int(next(iter(kind(Straggling(str(folder)), num_workers=2))))

    assert made_meanwhile(Theirs) <= 3
    assert made_meanwhile(Ours) >= 8


class Pids(Numbers):
    def __getitem__(self, i: int) -> int:
        return os.getpid()


def test_workers_start_anew_in_each_epoch() -> None:
    def processes(kind: Any) -> int:
        loader = kind(Pids(4), batch_size=None, num_workers=2)
        return len({pid for _ in range(3) for pid in loader})

    assert processes(Theirs) == 6
    assert processes(Ours) == 2


def test_shuffling_makes_a_list_of_all_indices() -> None:
    def peak(kind: Any) -> int:
        sampler = kind(range(500_000))
        gc.collect()
        tracemalloc.start()
        try:
            next(iter(sampler))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(torch_data.RandomSampler) > 12_000_000
    assert peak(ht.RandomSampler) < 4_000_000


def test_kept_batches_keep_descriptors() -> None:
    def descriptors(kind: Any) -> float:
        loader = kind([(np.zeros(4), 1, 2.0)] * 160, batch_size=4, num_workers=1)
        before = len(os.listdir("/proc/self/fd"))
        kept = list(loader)
        return (len(os.listdir("/proc/self/fd")) - before) / len(kept)

    assert descriptors(Theirs) >= 3
    assert descriptors(Ours) < 0.5


def test_an_error_loses_its_attributes_and_the_sample() -> None:
    def error(kind: Any) -> Exception:
        with pytest.raises(RuntimeError) as caught:
            list(kind(Failing(PathError(5, "a.jpg")), num_workers=1))
        return caught.value

    theirs, ours = error(Theirs), error(Ours)
    assert not hasattr(theirs, "code")
    assert "index 3" not in str(theirs)
    assert vars(ours)["code"] == 5
    assert type(ours.__cause__) is PathError
    assert "index 3" in str(ours).partition("Traceback")[0]


class Stopping(Numbers):
    def __getitem__(self, i: int) -> int:
        if i == 3:
            raise StopIteration
        return i


def test_stop_iteration_ends_the_epoch_silently() -> None:
    assert len(list(Theirs(Stopping(10), batch_size=None))) == 3
    with pytest.raises(RuntimeError, match="index 3"):
        list(Ours(Stopping(10), batch_size=None))


def test_little_shared_memory(tmp_path: pathlib.Path) -> None:
    code = """
        import numpy as np
        class Big(list):
            def __getitem__(self, i):
                return np.zeros((1000, 1000), np.float32)
        if __name__ == "__main__":
            print(len(list(DataLoader(Big(range(16)), batch_size=8, num_workers=2))))
    """
    mount = 'mount -t tmpfs -o size=24m tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", mount, "x"]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("only root can make a small /dev/shm")

    def run(loader: str) -> subprocess.CompletedProcess[str]:
        program = f"from {loader} import DataLoader\n" + textwrap.dedent(code)
        return subprocess.run([*command, sys.executable, "-c", program], capture_output=True, text=True, timeout=120)

    assert "shared memory" in run("torch.utils.data").stderr
    assert run("headrace.torch").stdout.split() == ["2"]


def test_the_order_repeats_where_set_epoch_is_forgotten() -> None:
    theirs = Theirs(Numbers(40), batch_size=None, sampler=torch_data.DistributedSampler(Numbers(40), 2, 0))
    ours = Ours(Numbers(40), batch_size=None, shuffle=True, rank=0, world_size=2)
    assert list(theirs) == list(theirs)
    assert list(ours) != list(ours)


class DiesLater(Numbers):
    def __getitem__(self, i: int) -> int:
        if i == 1:
            time.sleep(0.5)
            os._exit(3)
        return i


def test_a_dead_worker_interrupts_other_code() -> None:
    def interrupted(kind: Any) -> bool:
        batches = iter(kind(DiesLater(2), batch_size=None, num_workers=1))
        next(batches)
        try:
            for _ in range(40):
                time.sleep(0.05)
        except RuntimeError:
            return True
        return False

    assert interrupted(Theirs)
    assert not interrupted(Ours)


def test_workers_stay_after_their_trainer_was_killed(tmp_path: pathlib.Path) -> None:
    code = """
        import os, signal, sys, time
        class Pids(list):
            def __getitem__(self, i):
                time.sleep(0.01)
                return os.getpid()
        if __name__ == "__main__":
            pids = set()
            for number, pid in enumerate(DataLoader(
                Pids(range(10**6)), batch_size=None, num_workers=1, multiprocessing_context="forkserver"
            )):
                pids.add(pid)
                if number == 3:
                    print(*pids, flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)
    """

    def survivors(loader: str, seconds: float) -> list[int]:
        script = tmp_path / f"{loader}.py"
        script.write_text(f"from {loader} import DataLoader\n" + textwrap.dedent(code))
        process = subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert pids
        process.wait()
        process.stdout.close()
        deadline = time.monotonic() + seconds
        while (alive := [pid for pid in pids if is_running(pid)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        return alive

    assert survivors("torch.utils.data", 7)  # it looks for its parent every 5 seconds, and takes the forkserver for it
    assert not survivors("headrace.torch", 30)


def test_no_place_to_go_on_from() -> None:
    assert not hasattr(Theirs(Numbers(4)), "state_dict")
    assert hasattr(Ours(Numbers(4)), "state_dict")


def test_iterators_and_threads_are_independent() -> None:
    """Two threads iterate one loader at once, each its own epoch."""
    loader = Ours(Numbers(200), batch_size=4, shuffle=True, num_workers=1)
    got: list[list[int]] = []

    def run() -> None:
        got.append(sorted(number for batch in loader for number in batch.tolist()))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got == [list(range(200))] * 2
