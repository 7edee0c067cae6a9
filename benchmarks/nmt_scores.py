"""Trains translation models and says how good they get: `python -m benchmarks.nmt_scores DATA [NAME …] [--seeds 1 2]`.

DATA is a folder with a tokenised corpus: `train`, `val` and `test` with the endings `.de` and `.en` (others: `--src`,
`--tgt`), and vocabularies `vocab.de` and `vocab.en`. Each configuration is trained once for each seed, one after the
other, in processes of their own. Runs are kept in `--out` and taken up where they are, so that hours of work can be
stopped at any time; a run that is finished is only reported.

The table has the tutorial's BLEU (`multi-bleu.perl`: on the tokens as they are) on val and test, of the last step and
of the mean of the last checkpoints, whose translations are those of the search that the configuration names. Seconds a
step and minutes are those of training, without evaluations.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.nmt.saved import checkpoint

_RECIPE = {
    "attention": "scaled_luong",
    "num_layers": 2,
    "num_units": 128,
    "dropout": 0.2,
    "optimizer": "sgd",
    "learning_rate": 1.0,
    "decay_scheme": "luong234",
    "batch_size": 128,
    "num_train_steps": 3000,
}
CONFIGURATIONS: dict[str, dict[str, object]] = {
    "recipe": {**_RECIPE, "steps_per_stats": 10, "steps_per_external_eval": 1000, "avg_ckpts": "true"},
    "transformer": {"hparams_path": "multi30k_transformer"},
}
"""What can be trained, by name. Checkpoints are close together, so that the mean is of the last few hundred steps."""


def train(data: Path, name: str, seed: int, out_dir: Path, flags: argparse.Namespace) -> None:
    """Trains a configuration, or goes on with it; its log is appended to `log` in `out_dir`."""
    settings = {
        **{
            "src": flags.src,
            "tgt": flags.tgt,
            "out_dir": out_dir,
            "random_seed": seed,
            "num_intra_threads": flags.threads,
        },
        **{f"{ours}_prefix": data / file for ours, file in (("train", "train"), ("dev", "val"), ("test", "test"))},
        **CONFIGURATIONS[name],
    }
    if "hparams_path" not in settings:  # the others learn their own words
        settings["vocab_prefix"] = data / "vocab"
    out_dir.mkdir(parents=True, exist_ok=True)
    with (out_dir / "log").open("a") as log:
        command = [sys.executable, "-m", "headrace.nmt", *(f"--{key}={value}" for key, value in settings.items())]
        subprocess.run(command, stdout=log, check=True)


def row(name: str, seed: int, out_dir: Path) -> dict[str, float | str]:
    """Reads from the last checkpoint and the log how good a model became, and how long that took."""
    saved = checkpoint.latest(out_dir, print)
    if saved is None:
        raise SystemExit(f"no checkpoint in {out_dir}")
    last = {curve: points[-1][1] for curve, points in saved.progress["curves"].items()}
    log = (out_dir / "log").read_text()
    times = [float(found) for found in re.findall(r"^  step .* step-time ([\d.]+)s", log, re.MULTILINE)]
    found: dict[str, float | str] = {"configuration": f"{name}, seed {seed}", "steps": float(saved.step)}
    for curve in ("dev_bleu", "test_bleu", "dev_avg_bleu", "test_avg_bleu", "dev_ppl", "test_ppl"):
        if curve in last:
            found[curve.replace("_", " ")] = last[curve]
    return {**found, "s/step": statistics.median(times), "minutes": statistics.fmean(times) * saved.step / 60}


def table(rows: list[dict[str, float | str]]) -> str:
    """Returns the rows as a table of Markdown, with the mean of several."""
    if len(rows) > 1:
        numbers = [key for key, value in rows[0].items() if isinstance(value, float)]
        rows = [
            *rows,
            {"configuration": "mean"} | {key: statistics.fmean(float(r[key]) for r in rows) for key in numbers},
        ]
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
    lines += [
        "| " + " | ".join(value if isinstance(value, str) else f"{value:.4g}" for value in each.values()) + " |"
        for each in rows
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Parses the command line, trains what isn't trained yet, and prints a table for each configuration."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nmt_scores", description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder with the corpus")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CONFIGURATIONS)}; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="a model for each (default: 1 2)")
    parser.add_argument("--src", default="de", help="language to translate from (default: de)")
    parser.add_argument("--tgt", default="en", help="language to translate to (default: en)")
    parser.add_argument("--threads", type=int, default=0, help="threads of a run (default: as many as there are cores)")
    parser.add_argument("--out", type=Path, default=Path("build/scores"), help="where runs are kept")
    flags = parser.parse_args(argv)
    if unknown := set(flags.names) - set(CONFIGURATIONS):
        parser.error(f"no configuration {min(unknown)!r}; there are {', '.join(CONFIGURATIONS)}")
    for name in flags.names or CONFIGURATIONS:
        rows = []
        for seed in flags.seeds:
            out_dir = flags.out / f"{name}-{seed}"
            train(flags.data, name, seed, out_dir, flags)
            rows.append(row(name, seed, out_dir))
        print(f"\n{table(rows)}")


if __name__ == "__main__":
    main()
