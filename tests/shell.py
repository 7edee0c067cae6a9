"""Runs the commands that the pages on translation show, shortened, on small data."""

from __future__ import annotations

import http.client
import importlib
import json
import re
import shlex
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from headrace.nmt.serving.server import Server

# What pages take for granted: corpora by their prefix, with the suffixes of both languages.
CORPORA = {
    "data/train": ("de", "en"),
    "data/val": ("de", "en"),
    "data/test": ("de", "en"),
    "raw/train": ("de", "en"),
    "raw/val": ("de", "en"),
}
DOWNLOADED = {"iwslt15": (("train", "tst2012", "tst2013"), ("en", "vi"))}
READING = ("cat", "head", "ls")


class Shell:
    """Runs commands in this process, one after another, as a terminal would.

    Training takes a hundredth of its steps with few units, so what comes out is no translation; files below /tmp lie in
    the folder of the test, and what would be downloaded is made.

    Args:
        folder: The folder of the test, which is the current one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.serving: list[str] = []  # how the last server was started

    def run(self, snippet: str) -> None:
        """Runs a snippet: a command a line, backslashes at the end of a line join it to the next."""
        for line in snippet.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                self.run_command(shlex.split(line))

    def run_command(self, words: list[str]) -> None:
        """Runs one command; what is not known here cannot be shown."""
        words = [word.replace("/tmp/", f"{self.folder}/tmp/") for word in words]
        match words:
            case ["python", "-m", "headrace.nmt", *arguments]:
                self.translate(arguments)
            case ["python", "-m", "headrace.nmt.download", name, folder]:
                suffixes = DOWNLOADED[name][1]
                for prefix in DOWNLOADED[name][0]:
                    make_corpus(Path(folder, prefix), suffixes)
                make_vocabularies(Path(folder), suffixes)
            case ["python", "-m", module, *arguments] if module.startswith("headrace.nmt."):
                make_missing(arguments)
                self.check(importlib.import_module(module).main(arguments), words)
            case [
                "torchrun",
                _,
                "-m",
                "headrace.nmt",
                *arguments,
            ]:  # tests/nmt/training/test_distributed.py has several processes
                self.translate(arguments)
            case ["headrace", "nmt", "serve", *arguments]:
                self.serving = arguments
                self.serve(lambda server: None)
            case ["headrace", "nmt", "export", model, *arguments]:
                from headrace.nmt import export

                self.make_model(model)
                self.check(export.main([model, *arguments]), words)
            case ["curl", url, *arguments]:
                self.serve(lambda server: ask(server, url, arguments))
            case ["mkdir", "-p", folder] | ["mkdir", folder]:
                Path(folder).mkdir(parents=True, exist_ok=True)
            case [command, *_, path] if command in READING:
                assert Path(path).exists(), f"{shlex.join(words)}: {path} is not there"
            case _:
                raise AssertionError(f"tests/shell.py does not know how to run {shlex.join(words)}")

    def translate(self, arguments: list[str]) -> None:
        """Trains, or translates."""
        from headrace.nmt.__main__ import main

        make_missing(arguments)
        self.check(main([*arguments, *shortened(arguments)]), arguments)

    def serve(self, use: Callable[[Server], None]) -> None:
        """Starts the last server again, on any free port, and ends it when it has been used."""
        from headrace.nmt import serve

        def serve_shortly(server: Server, say: Callable[[str], None]) -> None:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            thread.start()
            try:
                use(server)
            finally:
                assert server.drain(10.0)
                thread.join()

        self.make_model(self.serving[0])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(serve, "serve", serve_shortly)
            self.check(serve.main([*self.serving, "--port=0"]), self.serving)

    def make_model(self, path: str) -> None:
        """Trains the model that a page takes for granted: `model`, or a checkpoint in it."""
        if not Path(path).exists():
            out_dir = Path(path).parts[0]
            files = [f"--{name}_prefix=data/{name}" for name in ("vocab", "train")] + ["--dev_prefix=data/val"]
            self.translate(["--src=de", "--tgt=en", *files, f"--out_dir={out_dir}", "--attention=scaled_luong"])

    @staticmethod
    def check(code: int, words: Sequence[str]) -> None:
        assert code == 0, f"{shlex.join(words)} ended with {code}"


def shortened(arguments: list[str]) -> list[str]:
    """Returns flags that make a command of training short: they come last, and so count."""
    from headrace.nmt.__main__ import resolve
    from headrace.nmt.cli.flags import parse_flags

    given = parse_flags(arguments)
    if given.get("inference_input_file"):
        return ["--num_units=8"] if "num_units" in given else []
    hparams = resolve(given)
    few = {"num_train_steps": 20, "warmup_steps": 2, "start_decay_step": 2, "decay_steps": 2}
    few |= {"steps_per_stats": 10, "steps_per_external_eval": 10, "ffn_units": 8, "num_sampled_softmax": 10}
    short = {name: getattr(hparams, name) for name in few}
    short = {name: min(few[name], max(1, value // 100)) for name, value in short.items() if value}
    if not Path(str(hparams.out_dir), "hparams").exists():
        short |= {"num_units": 8} | ({"num_heads": 2} if hparams.architecture == "transformer" else {})
    return [f"--{name}={value}" for name, value in short.items()]


def ask(server: Server, url: str, arguments: Sequence[str]) -> None:
    """Sends a server what a command of curl would send it, and looks at what it answers."""
    headers = {"-H": "", "-d": ""}
    for name, value in zip(arguments[::2], arguments[1::2], strict=True):
        assert headers.get(name) == "", f"tests/shell.py does not know curl's {name}"
        headers[name] = value
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60.0)
    try:
        kind, _, value = headers["-H"].partition(": ")
        connection.request("POST", urlsplit(url).path, headers["-d"].encode(), {kind: value})
        answer = connection.getresponse()
        document = json.loads(answer.read())
    finally:
        connection.close()
    assert answer.status == 200, document
    asked = json.loads(headers["-d"])
    found = document["translations"][0]
    assert len(found["hypotheses"]) == asked["nbest"]
    assert found["source"] == asked["text"].split()
    assert ("attention" in found["hypotheses"][0]) == asked["attention"]


def make_missing(arguments: Sequence[str]) -> None:
    """Makes the corpora that a command reads and a page takes for granted, and their vocabularies."""
    for argument in arguments:
        value = argument.partition("=")[2]
        known = [name for name in CORPORA if value == name or value.startswith(f"{name}.")]
        for name in known:
            make_corpus(Path(name), CORPORA[name])
        if value == "data/vocab":
            make_corpus(Path("data/train"), ("de", "en"))
            make_vocabularies(Path("data"), ("de", "en"))
        if argument.startswith(("--inference_output_file=", "--nbest_file=", "--alignment_file=")):
            Path(value).parent.mkdir(parents=True, exist_ok=True)


def make_corpus(prefix: Path, suffixes: Sequence[str]) -> None:
    """Writes a small parallel corpus, if it is not there: a line of some letters, and the same in capitals."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    lines = [" ".join(f"w{number * place % 19}" for place in range(1, 3 + number % 9)) for number in range(1, 200)]
    for suffix, text in zip(suffixes, ("\n".join(lines), "\n".join(lines).upper()), strict=True):
        path = prefix.with_name(f"{prefix.name}.{suffix}")
        if not path.exists():
            path.write_text(f"{text}\n")


def make_vocabularies(folder: Path, suffixes: Sequence[str]) -> None:
    """Writes the vocabularies of such a corpus, if they are not there."""
    for suffix in suffixes:
        path = folder / f"vocab.{suffix}"
        if not path.exists():
            words = sorted(set(re.findall(r"\S+", (folder / f"train.{suffix}").read_text())))
            path.write_text("\n".join(["<unk>", "<s>", "</s>", *words]) + "\n")
