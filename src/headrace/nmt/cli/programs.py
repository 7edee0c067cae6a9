"""The programs of the translation system by name: what `headrace nmt NAME` and `python -m headrace.nmt NAME` run."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

from headrace.nmt.cli.run import run_command
from headrace.nmt.hparams import HParamError

__all__ = ["PROGRAMS", "run_program"]

PROGRAMS = {  # name: module, what it does
    "train": ("__main__", "trains a model, or goes on with one"),
    "translate": ("__main__", "translates a file, or scores translations (--inference_input_file)"),
    "serve": ("serve", "serves translations by HTTP, with a page to type into"),
    "export": ("export", "writes a model as programs that run without headrace, of torch.export or ONNX"),
    "download": ("download", "loads a corpus"),
    "clean": ("clean", "cleans parallel text"),
    "vocab": ("vocab", "makes vocabularies of training text"),
}


def run_program(argv: Sequence[str]) -> int:
    """Runs a program; returns its exit code.

    Args:
        argv: Its name and arguments. Without a name, flags are those of training and translating, as the tutorial
            writes them; without anything, or with `--help`, the programs are listed.
    """
    if not argv or argv[0] in ("-h", "--help"):
        sys.stdout.write(_overview())
        return 0 if argv else 2
    name, arguments = (argv[0], argv[1:]) if not argv[0].startswith("-") else ("train", argv)
    if name == "translate" and not any(flag.startswith(("--inference_input_file", "--help", "-h")) for flag in argv):
        return run_command("headrace.nmt", lambda: _refuse("translating needs --inference_input_file"))
    if name not in PROGRAMS:
        near = difflib.get_close_matches(name, PROGRAMS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PROGRAMS)}"
        return run_command("headrace.nmt", lambda: _refuse(f"unknown program {name!r}; {hint}"))
    if PROGRAMS[name][0] == "__main__" and arguments and not arguments[0].startswith("-"):
        return run_command("headrace.nmt", lambda: _refuse(f"expected flags such as --src=de, got {arguments[0]!r}"))
    module = importlib.import_module(f"headrace.nmt.{PROGRAMS[name][0]}")
    code: int = module.main(arguments)
    return code


def _refuse(message: str) -> None:
    raise HParamError(message)


def _overview() -> str:
    lines = [f"  {name:10} {about}" for name, (_, about) in PROGRAMS.items()]
    return "\n".join(
        [
            "usage: headrace nmt PROGRAM …   or   python -m headrace.nmt PROGRAM …",
            "",
            *lines,
            "",
            "PROGRAM --help says more. Flags without a program are those of train and translate.",
            "",
            "Examples:",
            "    headrace nmt --src=de --tgt=en --vocab_prefix=data/vocab --train_prefix=data/train --out_dir=model",
            "    headrace nmt serve model",
            "",
        ]
    )
