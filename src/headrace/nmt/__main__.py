"""`python -m headrace.nmt`: trains a model, or translates a file with one (`--inference_input_file`).

A first word that is no flag names another program: `python -m headrace.nmt serve MODEL`, see `cli/programs.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.nmt.cli.programs import run_program
from headrace.nmt.cli.run import run_command
from headrace.nmt.text.files import read_lines

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit code: 0, or 2 after one message on standard error."""
    given = sys.argv[1:] if argv is None else argv
    if given and not given[0].startswith("-"):
        return run_program(given)
    return run_command("headrace.nmt", lambda: _run(given))


def _run(argv: Sequence[str]) -> None:
    # Must be set before PyTorch is loaded. On a computer that others use as well, threads that wait busily for one
    # that has no core make a step take many times as long; on a quiet one this costs nothing.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from headrace.nmt.cli.flags import parse_flags  # here, so that a missing PyTorch is reported as any other error

    given = parse_flags(argv)
    if given.get("inference_input_file"):
        _translate(given)
    else:
        from headrace.nmt.train import train

        train(resolve(given))


def resolve(given: dict[str, Any]) -> Any:
    """Completes flags to the settings of a training run: what is not given is as `out_dir` has it, or the default."""
    from headrace.nmt.hparams import HParams
    from headrace.nmt.saved import checkpoint

    out_dir = given.get("out_dir")
    if not out_dir:
        known = HParams()
    elif Path(out_dir, "hparams").is_file():
        known = HParams.load(Path(out_dir, "hparams"))
    else:  # someone took it away, as its error advises when it is damaged
        saved = checkpoint.latest(Path(out_dir), lambda text: None)
        known = saved.hparams if saved else HParams()
    return known.replace(**given)


def _translate(given: dict[str, Any]) -> None:
    from headrace.nmt.hparams import HParamError
    from headrace.nmt.infer import Translator, check_references, score_lines, translate_file
    from headrace.nmt.speed.runtime import prepare_process
    from headrace.nmt.translating.parts import torchrun_job

    given = torchrun_job() | given
    path = given.get("ckpt") or given.get("out_dir") or ""
    paths = [path] if os.path.exists(path) else [part.strip() for part in path.split(",") if part.strip()]
    if not paths:
        raise HParamError("translating needs --out_dir (its latest checkpoint) or --ckpt")
    if not given.get("inference_output_file"):
        raise HParamError("translating needs --inference_output_file, where the translations go")
    prepare_process(given.get("num_intra_threads", 0))
    translator = Translator.load(paths, **given)
    hparams = translator.hparams
    if hparams.score_file:
        from headrace.nmt.judging.scoring import score_file, total

        files = hparams.inference_input_file, hparams.score_file, hparams.inference_output_file
        scores = score_file(translator, *map(str, files))
        found = total(scores)
        sys.stdout.write(
            f"# {len(scores):,} pairs scored, to {files[2]}\n  log-probability {found.log_prob:.2f}, "
            f"of a word {found.per_word:.4f}, perplexity {found.perplexity:.2f}\n"
        )
        return
    references = read_lines(hparams.inference_ref_file) if hparams.inference_ref_file else None
    if references is not None:  # now rather than after an hour of translating
        check_references(len(references), str(hparams.inference_input_file))
        chosen = hparams.inference_lines
        references = [references[number] for number in chosen if number < len(references)] if chosen else references
    lines = translate_file(translator, str(hparams.inference_input_file), str(hparams.inference_output_file))
    count = hparams.num_translations_per_input
    sys.stdout.write(f"# {len(lines) // count:,} sentences translated to {hparams.inference_output_file}\n")
    if references is not None and not hparams.jobid:  # who has all of them
        for line in score_lines(references, lines[::count], hparams):
            sys.stdout.write(f"  {line}\n")


if __name__ == "__main__":
    sys.exit(main())
