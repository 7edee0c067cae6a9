"""Which settings work: each number in its range, and no two that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace as hr

if TYPE_CHECKING:
    from headrace.nmt.hparams import HParams

__all__ = ["HParamError", "check_ranges", "check_together"]


class HParamError(hr.HeadraceError, ValueError):
    """A setting that cannot work: the message names the flag, what it may be, and what came."""


_AT_LEAST_ONE = (
    *("num_units", "num_layers", "num_encoder_layers", "num_decoder_layers", "batch_size", "num_train_steps"),
    *("src_max_len", "tgt_max_len", "src_max_len_infer", "tgt_max_len_infer", "steps_per_stats"),
    *("steps_per_external_eval", "infer_batch_size", "num_translations_per_input", "num_keep_ckpts"),
    *("decay_steps", "accumulate", "num_workers", "worker_timeout", "num_heads", "ffn_units"),
)
_NOT_NEGATIVE = (
    *("warmup_steps", "num_buckets", "beam_width", "num_intra_threads", "init_weight"),
    *("length_penalty_weight", "coverage_penalty_weight", "sampling_temperature", "sampling_top_k"),
    *("num_sampled_softmax", "batch_tokens", "subword_size", "patience", "num_gpus"),
)
_METRICS = ("bleu", "rouge", "accuracy", "word_accuracy", "sacrebleu", "chrf", "ter")


def check_ranges(hparams: HParams) -> None:
    """Refuses numbers outside of what their flags take."""
    for name in _AT_LEAST_ONE:
        value = getattr(hparams, name)
        if value is not None and value < 1:
            raise HParamError(f"{name} must be at least 1, got {value}")
    for name in _NOT_NEGATIVE:
        value = getattr(hparams, name)
        if not value >= 0:
            raise HParamError(f"{name} must not be negative, got {value}")
    if hparams.accumulate > 10_000:
        raise HParamError(
            f"accumulate keeps its batches until the update: it may be at most 10,000, got {hparams.accumulate:,}"
        )
    for name in ("dropout", "subword_dropout", "label_smoothing"):
        if not 0.0 <= getattr(hparams, name) < 1.0:
            raise HParamError(f"{name} must be at least 0 and below 1, got {getattr(hparams, name)}")
    if hparams.inference_list is not None:
        numbers = [number.strip() for number in hparams.inference_list.split(",") if number.strip()]
        if not all(number.isdecimal() for number in numbers):
            raise HParamError(f"inference_list must be a comma list of line numbers, got {hparams.inference_list!r}")
    if not 0.0 < hparams.sampling_top_p <= 1.0:
        raise HParamError(f"sampling_top_p must be above 0 and at most 1, got {hparams.sampling_top_p}")
    for name in ("learning_rate", "max_gradient_norm"):
        value = getattr(hparams, name)
        if not value > 0:
            raise HParamError(f"{name} must be above 0, got {value}")
    for metric in hparams.metric_names:
        if metric not in _METRICS:
            raise HParamError(f"metrics may name {', '.join(_METRICS)}, got {metric!r}")


_RECURRENT = {"encoder_type": "uni", "unit_type": "lstm", "residual": False, "attention": ""} | {
    "attention_architecture": "standard"
}


def _check_transformer(hparams: HParams) -> None:
    for name, default in _RECURRENT.items():
        value = getattr(hparams, name)
        if value != default:
            raise HParamError(f"{name}={value} is of recurrent networks: leave it out with architecture=transformer")
    if hparams.num_gpus > 1:
        raise HParamError("num_gpus spreads layers of recurrent networks: start several processes by torchrun instead")
    if hparams.num_units % hparams.num_heads or hparams.num_units % 2:
        raise HParamError(
            f"a transformer needs num_units that are even and that num_heads={hparams.num_heads} divides, "
            f"got {hparams.num_units}"
        )


def check_together(hparams: HParams) -> None:
    """Refuses settings that contradict each other."""
    marks = ["<unk>", hparams.sos, hparams.eos]
    if len(set(marks)) < 3 or any(mark.split() != [mark] for mark in marks):
        raise HParamError(f"sos and eos must be two words, without blanks and not <unk>, got {marks[1:]}")
    if hparams.architecture == "transformer":
        _check_transformer(hparams)
    if hparams.tied_embeddings and hparams.embed_prefix:
        raise HParamError(
            "vectors of embed_prefix stay as they are, so that no words can be predicted with them: "
            "leave out tied_embeddings"
        )
    if hparams.encoder_type == "bi" and hparams.encoder_layers % 2:
        raise HParamError(
            "encoder_type=bi needs an even number of encoder layers, half for each direction, "
            f"got {hparams.encoder_layers}: set num_layers or num_encoder_layers"
        )
    if hparams.patience_metric not in ("", "ppl", *hparams.metric_names):
        raise HParamError(
            f"patience_metric must be ppl or one of metrics={hparams.metrics}, got {hparams.patience_metric!r}"
        )
    if hparams.patience and not hparams.metric_names and not hparams.patience_metric:
        raise HParamError("patience waits for a metric: name one with metrics, or give patience_metric=ppl")
    if hparams.subword_size and not hparams.subword_option:
        raise HParamError("subword_size is how many subwords to learn: also say which, with subword_option=bpe or spm")
    if hparams.subword_dropout and not (hparams.subword_size and hparams.subword_option == "bpe"):
        raise HParamError("subword_dropout cuts words anew each time: it needs subword_option=bpe and a subword_size")
    gnmt = hparams.attention_architecture != "standard"
    if hparams.encoder_layers < 2 and (gnmt or hparams.encoder_type == "gnmt"):
        what = f"attention_architecture={hparams.attention_architecture}" if gnmt else "encoder_type=gnmt"
        raise HParamError(f"{what} needs at least 2 encoder layers, got {hparams.encoder_layers}")
    if gnmt and not hparams.attention:
        raise HParamError(
            f"attention_architecture={hparams.attention_architecture} says where attention is used: "
            "it needs attention, for example --attention=normed_bahdanau"
        )
    for name in ("share_vocab", "embed_prefix", "language_model"):
        if hparams.use_char_encode and getattr(hparams, name):
            raise HParamError(f"use_char_encode has no vectors of source words to be used otherwise: leave out {name}")
    if hparams.language_model and hparams.attention:
        raise HParamError(f"a language_model has no source to look at: leave out attention={hparams.attention}")
    if not hparams.looks_back and not hparams.passes_state and not hparams.language_model:
        raise HParamError(
            "without attention the decoder sees the source only through the encoder's last state: "
            f"pass_hidden_state must be true and the depths equal, got pass_hidden_state={hparams.pass_hidden_state} "
            f"with {hparams.encoder_layers} encoder and {hparams.decoder_layers} decoder layers"
        )
    for name in ("replace_unk", "alignment_file"):
        if getattr(hparams, name) and not hparams.looks_back:
            raise HParamError(f"{name} goes by attention, which this model has not")
    if hparams.search == "beam_search" and hparams.beam_width == 0:
        raise HParamError("infer_mode=beam_search needs a beam_width above 0, for example --beam_width=10")
    if hparams.jobid is not None and not 0 <= hparams.jobid < hparams.num_workers:
        raise HParamError(f"jobid must be below num_workers={hparams.num_workers}, got {hparams.jobid}")
    if hparams.unk_dictionary and not hparams.replace_unk:
        raise HParamError("unk_dictionary says what replace_unk writes: add --replace_unk")
    for name in ("inference_list", "alignment_file", "nbest_file", "score_file"):
        if hparams.num_workers > 1 and hparams.jobid is not None and getattr(hparams, name):
            raise HParamError(f"several programs write translations only: leave out {name}, or jobid")
    for name in ("inference_list", "alignment_file", "nbest_file", "inference_ref_file"):
        if hparams.score_file and getattr(hparams, name):
            raise HParamError(f"with score_file nothing is translated: leave out {name}")
    if hparams.search == "sample" and hparams.sampling_temperature == 0:
        raise HParamError("infer_mode=sample needs a sampling_temperature above 0: 1.0 draws as the model says")
    most = hparams.beam_width if hparams.search == "beam_search" else 1
    if hparams.search != "sample" and hparams.num_translations_per_input > most:
        raise HParamError(
            f"num_translations_per_input may be at most {most} with {hparams.search} and "
            f"beam_width={hparams.beam_width}, got {hparams.num_translations_per_input}"
        )
    falls = [name for name in ("start_decay_step", "decay_steps", "decay_factor") if getattr(hparams, name) is not None]
    if falls and hparams.decay_scheme:
        raise HParamError(f"give either decay_scheme={hparams.decay_scheme} or {falls[0]}, not both")
    if hparams.decay_factor is not None and not 0.0 < hparams.decay_factor <= 1.0:
        raise HParamError(f"decay_factor must be above 0 and at most 1, got {hparams.decay_factor}")
    if hparams.warmup_factor is not None and not 0.0 < hparams.warmup_factor <= 1.0:
        raise HParamError(f"warmup_factor must be above 0 and at most 1, got {hparams.warmup_factor}")
    if hparams.decay_scheme == "inverse_sqrt" and hparams.warmup_steps == 0:
        raise HParamError("decay_scheme=inverse_sqrt falls from the end of the warm-up: it needs warmup_steps above 0")
    if hparams.label_smoothing and hparams.num_sampled_softmax:
        raise HParamError("label_smoothing goes to all words: leave out num_sampled_softmax")
    if hparams.warmup_steps > hparams.num_train_steps:
        raise HParamError(
            f"warmup_steps must not exceed num_train_steps={hparams.num_train_steps}, got {hparams.warmup_steps}"
        )
