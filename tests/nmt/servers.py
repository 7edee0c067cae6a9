"""Small models to serve, servers on free ports, and requests to them."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

import headrace as hr
from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import HParams
from headrace.nmt.infer import Translator
from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved import checkpoint
from headrace.nmt.serving.server import Server
from headrace.nmt.serving.service import Limits, Service

SPECIAL = ["<unk>", "<s>", "</s>"]
SOURCE = [*SPECIAL, "die", "mühle", "mahlt", "das", "korn", "am", "bach", "."]
TARGET = [*SPECIAL, "the", "mill", "grinds", "corn", "at", "brook", "<b>", "."]
SENTENCES = ["die mühle mahlt das korn .", "das korn am bach", "die mühle", "bach", "am bach mahlt die mühle korn ."]


def make_translator(**settings: object) -> Translator:
    """Makes a model that nobody trained: its translations mean nothing, but differ from sentence to sentence."""
    given = {"num_units": 8, "num_layers": 1, "attention": "scaled_luong", "init_weight": 1.0} | settings
    hparams = HParams().replace(src="de", tgt="en", **given)
    model = Seq2Seq(hparams, len(SOURCE), len(TARGET), torch.Generator().manual_seed(5)).eval()
    return Translator(model, Vocabs(hr.Vocab(SOURCE), hr.Vocab(TARGET)))


def save_model(translator: Translator, folder: Path) -> Path:
    """Writes a model's checkpoint."""
    weights = translator.model.state_dict()
    subwords = None if translator.subwords is None else translator.subwords.model
    saved = checkpoint.Checkpoint(1, translator.hparams, translator.vocabs, weights, {}, {}, {}, subwords=subwords)
    return checkpoint.save(folder, saved)


@contextlib.contextmanager
def running(
    translator: Translator | None = None, limits: Limits | None = None, **settings: bool
) -> Iterator[tuple[Service, Server]]:
    """Serves while it is entered."""
    service = Service(translator or make_translator(), limits, **settings)
    server = Server(service, port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service, server
    finally:
        assert server.drain(10.0)
        thread.join()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Waits for something, but not for ever."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this did not come about"
        time.sleep(0.001)


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


JSON = {"Content-Type": "application/json"}


def ask(server: Server, document: object = None, path: str = "/translate", method: str | None = None) -> Answer:
    """Makes one request: a document is posted, as JSON unless it is bytes."""
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), int(port), timeout=20)
    with contextlib.closing(connection):
        body = document if document is None or isinstance(document, bytes) else json.dumps(document).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, body, JSON if body else {})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
