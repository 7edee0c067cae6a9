"""The command line of `python -m headrace.nmt`: one flag for each setting of `HParams`."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from headrace.nmt.cli.run import Parser, nearest
from headrace.nmt.cli.standard import STANDARD, standard
from headrace.nmt.hparams import FIELDS, HParamError, check_value, field_kind, may_be_none, read_json

__all__ = ["add_flags", "nearest", "parse_flags"]

_ALIASES = {  # what the tutorial's text, or an older version of its program, calls them
    "model_dir": "out_dir",
    "learning_rate_warmup_steps": "warmup_steps",
    "learning_rate_warmup_factor": "warmup_factor",
    "learning_rate_decay_scheme": "decay_scheme",
}
_WITHOUT_EFFECT = {  # flags of the original that need nothing done
    "colocate_gradients_with_ops": "gradients are computed where their operations are",
    "log_device_placement": "there is nothing to place",
    "max_train": "the original reads it nowhere, either",
    "num_embeddings_partitions": "there are no parameter servers",
    "num_inter_threads": "operations run one after another; --num_intra_threads is for each of them",
    "override_loaded_hparams": "flags always beat what was saved",
    "scope": "the original reads it nowhere, either",
    "time_major": "tensors have time first",
}
_DERIVED = re.compile(  # what the original writes into its files of settings beside them
    r"(src|tgt)_(vocab_size|vocab_file|embed_file)|num_(encoder_|decoder_)?residual_layers|num_(enc|dec)_emb_partitions"
    r"|epoch_step|(avg_)?best_\w+"
)
_UNSET = object()
_log = logging.getLogger("headrace")


def parse_flags(argv: Sequence[str]) -> dict[str, Any]:
    """Reads flags as the tutorial writes them: `--name=value` or `--name value`; a bare boolean flag means true.

    Args:
        argv: The command line without the program's name.

    Returns:
        The settings that were given, by name, those of a `--hparams_path` file included; a flag on the command line
        beats the file. `HParams().replace(**given)` turns them into settings.

    Raises:
        HParamError: A flag is unknown (the nearest name is suggested), or its value cannot be read.

    Flags of the original that have no effect here are left out, with a logged warning.

    Example:
        >>> parse_flags(["--attention=scaled_luong", "--num_units=128", "--residual"])
        {'num_units': 128, 'residual': True, 'attention': 'scaled_luong'}
    """
    values, unknown = _parser().parse_known_args(list(argv))
    if unknown:
        raise HParamError(f"expected flags such as --src=de, got {unknown[0]!r}")
    given = {name: value for name, value in vars(values).items() if value is not _UNSET}
    path = given.pop("hparams_path", None)
    from_file = {} if path is None else _present(_settings_of(path))
    from_file = {name: value for name, value in from_file.items() if name in FIELDS or not _DERIVED.fullmatch(name)}
    for name, value in from_file.items():
        if name not in FIELDS and name not in _WITHOUT_EFFECT:
            names = (*FIELDS, *_ALIASES, *_WITHOUT_EFFECT, "hparams_path", "bpe_delimiter")
            raise HParamError(f"{path}: unknown flag --{name}; {nearest(name, names)}")
        if name in FIELDS:
            try:
                check_value(name, value)
            except HParamError as error:
                raise HParamError(f"{path}: {error}") from None
    return _with_effect(from_file) | _with_effect(_present(given))


def _settings_of(path: str) -> dict[str, Any]:
    """Reads a file of settings, or returns prepared ones."""
    prepared = standard(path)
    if prepared is None and not Path(path).exists():
        raise HParamError(
            f"cannot read settings from {path}: there is no such file, and the prepared settings are called "
            f"{', '.join(STANDARD)}"
        )
    return read_json(Path(path)) if prepared is None else prepared


def _present(given: dict[str, Any]) -> dict[str, Any]:
    """Gives what older versions of the original, or the files that it writes, call otherwise its present name."""
    given = {_ALIASES.get(name, name): value for name, value in given.items()}
    delimiter = given.pop("bpe_delimiter", None)
    if delimiter not in (None, "", "none"):
        if delimiter != "@@":
            raise HParamError(f"bpe_delimiter may be @@, which is subword_option=bpe, got {delimiter!r}")
        given["subword_option"] = "bpe"
    if given.get("decay_scheme") == "luong":
        given["decay_scheme"] = "luong5"
    if isinstance(given.get("metrics"), list):
        given["metrics"] = ",".join(map(str, given["metrics"]))
    return given


def _with_effect(given: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what has no effect, and says so."""
    for name in given:
        if name in _WITHOUT_EFFECT:
            _log.warning("--%s has no effect: %s", name, _WITHOUT_EFFECT[name])
    return {name: value for name, value in given.items() if name not in _WITHOUT_EFFECT}


def _parser() -> Parser:
    parser = Parser(
        "",
        "Trains a translation model, or translates with one (--inference_input_file).",
        argument_default=_UNSET,
    )
    names = ", ".join(STANDARD)
    text = f"JSON file of settings, or the name of a prepared one ({names}); flags beside it win"
    parser.add_argument("--hparams_path", metavar="FILE", help=text)
    parser.add_argument("--bpe_delimiter", metavar="STR", help="older name: @@ is subword_option=bpe")
    for name, why in _WITHOUT_EFFECT.items():
        parser.add_argument(f"--{name}", nargs="?", const="true", metavar="VALUE", help=f"no effect: {why}")
    add_flags(parser, FIELDS)
    return parser


def add_flags(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Adds a flag for each of these settings."""
    for name in names:
        flag = FIELDS[name]
        options = [f"--{name}", *(f"--{alias}" for alias, target in _ALIASES.items() if target == name)]
        text = f"{flag.metadata['help']} (default: {_shown(flag.default)})".replace("%", "%%")
        if field_kind(name) is bool:
            parser.add_argument(
                *options, dest=name, nargs="?", const=True, type=_boolean, metavar="true|false", help=text
            )
        else:
            metavar = field_kind(name).__name__.upper()
            parser.add_argument(*options, dest=name, type=_reader(name), metavar=metavar, help=text)


def _shown(default: object) -> str:
    return str(default).lower() if default is None or isinstance(default, bool) else str(default) or '""'


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")


def _reader(name: str) -> Callable[[str], Any]:
    kind = field_kind(name)

    def read(text: str) -> Any:
        if may_be_none(name) and text.lower() in ("none", ""):
            return None
        try:
            return kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}") from None

    return read
