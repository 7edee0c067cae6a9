"""Runs a folder of TensorFlow's conformance cases through the public surface of `headrace.tf1`.

    python tests/conformance/tf_check.py FOLDER

The folder holds cases at any depth, each a folder with a `case.json`. Prints what fails, and "N passed, N failed".
Cases that are informative (TensorFlow's own quirks and random orders) count as passed if what their note demands holds.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pathlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from headrace import tf1 as tf
from tests.conformance import tf_data, tf_parse, tf_queues
from tests.conformance.tf_values import error_of, same

KINDS = {
    "coordinator": tf_queues.coordinator,
    "dataset": tf_data.dataset,
    "nmt": tf_data.nmt,
    "parse": tf_parse.parse,
    "pipeline": tf_queues.pipeline,
    "queue_ops": tf_queues.queue_ops,
    "records": tf_parse.records,
    "runners_twice": tf_queues.runners_twice,
    "shared_queue": tf_queues.shared_queue,
    "slim_decode": tf_parse.slim_decode,
    "slim_provider": tf_parse.slim_provider,
    "string_split": tf_data.string_split,
    "table": tf_data.table,
}


def cases(folder: str) -> Iterator[dict[str, Any]]:
    """All cases below a folder, by name."""
    for path in sorted(pathlib.Path(folder).rglob("case.json")):
        case: dict[str, Any] = json.loads(path.read_text())
        case["dir"] = path.parent
        yield case


@contextlib.contextmanager
def _inside(folder: pathlib.Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(case: dict[str, Any]) -> Any:
    """What comes of a case."""
    with _inside(case["dir"].resolve()), tf.Graph().as_default(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KINDS[case["kind"]](case)


def passes(case: dict[str, Any], got: Any) -> bool:
    """Whether that is what it should be."""
    if case["id"] in tf_data.JUDGES:
        return bool(tf_data.JUDGES[case["id"]](case, got))
    if any(same(case[key], got) for key in ("expect", "expect_tf115") if key in case):
        return True
    return bool(case.get("informative")) and tf_data.plausible(case, got)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(folder: str) -> int:
    """Runs all cases; the number of those that fail."""
    passed = failed = 0
    for case in cases(folder):
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            got = run(case)
        except Exception as error:
            got = {"raised": error_of(error)}
        if passes(case, got):
            passed += 1
        else:
            failed += 1
            _say(f"FAILED {case['id']} ({case['about']})")
            _say(f"  expected {json.dumps(case['expect'])[:600]}\n  got      {json.dumps(got, default=repr)[:600]}")
    faulthandler.cancel_dump_traceback_later()
    _say(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(1 if main(sys.argv[1]) else 0)
