"""`python -m headrace.nmt serve MODEL`: a server that translates, with a page to type into."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.nmt.cli.run import Parser, run_command

if TYPE_CHECKING:
    from headrace.nmt.serving.server import Server

__all__ = ["main", "serve"]

_SEARCH = (  # settings of the search, for requests that say nothing else, and of the process
    *("beam_width", "length_penalty_weight", "coverage_penalty_weight", "num_translations_per_input"),
    *("replace_unk", "unk_dictionary", "src_max_len_infer", "tgt_max_len_infer", "infer_batch_size"),
    "num_intra_threads",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run_command("headrace.nmt.serve", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> None:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before PyTorch is loaded, as in training
    from headrace.nmt.infer import Translator  # here, so that a missing PyTorch is reported as any other error
    from headrace.nmt.serving.server import Server
    from headrace.nmt.serving.service import Limits, Service
    from headrace.nmt.speed.runtime import prepare_process

    flags = _parser().parse_args(argv)
    settings = {name: getattr(flags, name) for name in _SEARCH if hasattr(flags, name)}  # others as the model has them
    prepare_process(settings.get("num_intra_threads", 0))
    limits = Limits(
        beam_width=flags.max_beam_width,
        sentences=flags.max_sentences,
        words=flags.max_words,
        body=flags.max_body,
        waiting=flags.max_waiting,
        seconds=flags.time_limit,
        connections=flags.max_connections,
    )
    translator = Translator.load(flags.model, **settings)
    service = Service(translator, limits, lowercase=flags.lowercase, tokenize=flags.tokenize)
    with Server(service, flags.host, flags.port, flags.log_requests) as server, _logging():
        hparams = translator.hparams
        _say(f"translating {hparams.src} to {hparams.tgt} at {server.url} until Ctrl-C")
        serve(server, _say)


def serve(server: Server, say: Callable[[str], None]) -> None:
    """Serves until the process is asked to end (SIGTERM, Ctrl-C), then answers what is in hand.

    Only the main thread can be asked. A second time ends at once.

    Args:
        server: The server.
        say: Told when it ends.
    """
    asked = threading.Event()
    with _signals(asked):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        asked.wait()
    say("stopping: answering what is in hand")
    finished = server.drain(server.service.limits.seconds + 5.0)
    say("stopped" if finished else "stopped; some requests took too long to be answered")


@contextlib.contextmanager
def _signals(asked: threading.Event) -> Iterator[None]:
    """Remembers to be asked to end; what signals did before, they do again when it has been asked for."""
    before: dict[int, Any] = {}

    def note(number: int, frame: object) -> None:
        asked.set()

    for asking in (signal.SIGINT, signal.SIGTERM):
        before[asking] = signal.signal(asking, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """Shows the log on standard error, unless somebody does already."""
    log = logging.getLogger("headrace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    own = not log.handlers
    if own:
        log.addHandler(handler)
    try:
        yield
    finally:
        if own:
            log.removeHandler(handler)


def _say(text: str) -> None:
    sys.stdout.write(f"# {text}\n")
    sys.stdout.flush()


def _parser() -> Parser:
    from headrace.nmt.cli.flags import add_flags
    from headrace.nmt.serving.service import Limits

    most = Limits()
    parser = Parser(
        "serve",
        "Serves translations by HTTP, and a page to type into.",
        argument_default=argparse.SUPPRESS,  # what is not given is not among the flags
    )
    parser.add_argument(
        "model", nargs="+", metavar="MODEL", help="an out_dir, or a checkpoint; several translate as one"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, this machine)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0: any free one (default: %(default)s)")
    parser.add_argument(
        "--lowercase", action="store_true", default=False, help="read small letters, as the training files have"
    )
    parser.add_argument(
        "--tokenize",
        action="store_true",
        default=False,
        help="put blanks round punctuation, as the training files have, and undo it",
    )
    for name, kind, default, what in (
        ("max_beam_width", int, most.beam_width, "beam that a request may ask for"),
        ("max_sentences", int, most.sentences, "sentences of a request"),
        ("max_words", int, most.words, "words of a sentence, as the model reads them"),
        ("max_body", int, most.body, "bytes of a request"),
        ("max_waiting", int, most.waiting, "sentences that wait; what comes beyond is turned away with 503"),
        ("max_connections", int, most.connections, "connections at a time"),
        ("time_limit", float, most.seconds, "seconds that a request may take"),
    ):
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{what} (default: %(default)s)")
    parser.add_argument("--log_requests", action="store_true", default=False, help="log a line for each request")
    add_flags(parser, _SEARCH)
    return parser


if __name__ == "__main__":
    sys.exit(main())
