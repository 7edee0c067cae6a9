"""The tutorial's prepared configurations, by name, and one of a Transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["STANDARD", "standard"]

_COMMON: dict[str, Any] = {
    "batch_size": 128,
    "beam_width": 10,
    "dropout": 0.2,
    "forget_bias": 1.0,
    "infer_batch_size": 32,
    "init_op": "uniform",
    "init_weight": 0.1,
    "learning_rate": 1.0,
    "max_gradient_norm": 5.0,
    "metrics": "bleu",
    "num_buckets": 5,
    "optimizer": "sgd",
    "share_vocab": False,
    "src_max_len": 50,
    "steps_per_stats": 100,
    "tgt_max_len": 50,
    "unit_type": "lstm",
}
_IWSLT15 = {
    **_COMMON,
    "attention": "scaled_luong",
    "attention_architecture": "standard",
    "decay_scheme": "luong234",
    "encoder_type": "bi",
    "num_layers": 2,
    "num_train_steps": 12000,
    "num_units": 512,
}
_WMT16 = {
    **_COMMON,
    "attention": "normed_bahdanau",
    "attention_architecture": "standard",
    "decay_scheme": "luong10",
    "encoder_type": "bi",
    "num_layers": 4,
    "num_train_steps": 340000,
    "num_units": 1024,
    "subword_option": "bpe",
}
_GNMT = {
    **_WMT16,
    "attention_architecture": "gnmt_v2",
    "encoder_type": "gnmt",
    "length_penalty_weight": 1.0,
    "residual": True,
}

_TRANSFORMER = {
    **_COMMON,
    "architecture": "transformer",
    "attention": "",
    "avg_ckpts": True,
    "beam_width": 5,
    "decay_scheme": "inverse_sqrt",
    "dropout": 0.3,
    "ffn_units": 256,
    "init_op": "glorot_uniform",
    "label_smoothing": 0.1,
    "learning_rate": 0.003,
    "length_penalty_weight": 1.0,
    "max_gradient_norm": 25.0,  # of the loss of a sentence, not of a word: seldom reached after the beginning
    "num_heads": 4,
    "num_layers": 4,
    "num_train_steps": 6000,
    "num_units": 128,
    "optimizer": "adam",
    "share_vocab": True,
    "steps_per_external_eval": 1000,
    "steps_per_stats": 25,  # so that the mean is of checkpoints that are 250 steps apart
    "subword_option": "bpe",
    "subword_size": 8000,
    "tied_embeddings": True,
    "warmup_scheme": "linear",
    "warmup_steps": 1500,
}

STANDARD: dict[str, dict[str, Any]] = {
    "iwslt15": _IWSLT15,
    "wmt16": _WMT16,
    "wmt16_gnmt_4_layer": _GNMT,
    "wmt16_gnmt_8_layer": {**_GNMT, "num_layers": 8},
    "multi30k_transformer": _TRANSFORMER,
}
"""Settings by name: 2 layers for IWSLT'15, 4 and 8 for WMT'16, with and without Google's architecture.

Not of the tutorial: a small Transformer for some 30,000 pairs, such as Multi30k, which learns its subwords itself.
"""


def standard(path: str) -> dict[str, Any] | None:
    """Returns a prepared configuration, if a path is the name of one and no file.

    Args:
        path: A name, or the path that the tutorial gives, `nmt/standard_hparams/NAME.json`.

    Example:
        >>> standard("nmt/standard_hparams/iwslt15.json")["num_units"]
        512
        >>> standard("mine.json") is None
        True
    """
    name = Path(path)
    if name.is_file() or (name.name != path and name.parent.name != "standard_hparams"):
        return None
    found = STANDARD.get(name.stem if name.suffix == ".json" else name.name)
    return None if found is None else dict(found)
