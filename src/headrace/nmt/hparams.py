"""The settings of a translation model: the tutorial's own flags, with their meanings, defaults and checks."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.nmt.checks import HParamError, check_ranges, check_together

__all__ = ["HParamError", "HParams"]


def _flag(default: Any, text: str, choices: tuple[str, ...] = (), *, of: str = "run") -> Any:
    """Declares one flag: its default, one line of help, the values that it takes, and what it is a property of.

    Of the `model`, which keeps it for ever; of the training `data`, so that another value begins a new epoch; of the
    `command`, which is not saved; of the `place`, which may differ among programs that share work; or of the `run`.
    """
    return field(default=default, metadata={"help": text, "choices": choices, "of": of})


@dataclass(frozen=True)
class HParams:
    """Every setting of a run, checked when it is made.

    Settings that may be None mean "derive it": `encoder_layers`, `decoder_layers`, `search` and the other
    properties give what was derived.

    Raises:
        HParamError: A value is outside of what its flag takes, or two flags contradict each other.

    Example:
        >>> hparams = HParams(num_units=128, attention="scaled_luong", encoder_type="bi")
        >>> hparams.decoder_layers, hparams.memory_depth
        (2, 256)
        >>> hparams.replace(beam_width=10).search
        'beam_search'
    """

    # Network
    architecture: str = _flag(
        "rnn",
        "recurrent networks, or a Transformer, which needs no further attention",
        ("rnn", "transformer"),
        of="model",
    )
    num_units: int = _flag(32, "width of the LSTM states and of the word embeddings", of="model")
    num_layers: int = _flag(2, "layers of encoder and decoder, where the next two do not say otherwise")
    num_encoder_layers: int | None = _flag(
        None, "layers of the encoder (bi: half of them in each direction)", of="model"
    )
    num_decoder_layers: int | None = _flag(None, "layers of the decoder", of="model")
    encoder_type: str = _flag(
        "uni",
        "uni reads left to right, bi both ways, gnmt both ways in its bottom layer",
        ("uni", "bi", "gnmt"),
        of="model",
    )
    residual: bool = _flag(False, "add each layer's input to its output, but not at the bottom", of="model")
    unit_type: str = _flag(
        "lstm", "kind of recurrent cell", ("lstm", "gru", "cudnn_gru", "layer_norm_lstm", "nas"), of="model"
    )
    forget_bias: float = _flag(1.0, "added to the forget gate: a new model remembers by default", of="model")

    num_heads: int = _flag(4, "transformer: heads of an attention, which share num_units", of="model")
    ffn_units: int | None = _flag(
        None, "transformer: width of the feed-forward layers; none: four times num_units", of="model"
    )
    tied_embeddings: bool = _flag(False, "predict words with the vectors of the target embedding", of="model")

    # Attention
    attention: str = _flag(
        "",
        "how the decoder looks at the source; empty: not",
        ("", "luong", "scaled_luong", "bahdanau", "normed_bahdanau"),
        of="model",
    )
    attention_architecture: str = _flag(
        "standard",
        "standard attends with the top layer, gnmt with the bottom one, and gnmt_v2 feeds it to those above at once",
        ("standard", "gnmt", "gnmt_v2"),
        of="model",
    )
    output_attention: bool = _flag(True, "predict words from the attention vector, not from the top state", of="model")
    pass_hidden_state: bool = _flag(
        True, "start the decoder from the encoder's last state, if they are equally deep", of="model"
    )
    use_char_encode: bool = _flag(False, "the encoder makes a word's vector of its bytes", of="model")
    language_model: bool = _flag(False, "no encoder: learn to continue sentences of the target language", of="model")

    # Optimiser
    optimizer: str = _flag("sgd", "rule of the weight update", ("sgd", "adam"))
    learning_rate: float = _flag(1.0, "step size; about 1.0 for sgd and 0.001 for adam")
    warmup_steps: int = _flag(0, "steps in which the rate rises from a hundredth to its full value")
    warmup_scheme: str = _flag("t2t", "shape of the warm-up; t2t rises exponentially", ("t2t", "linear"))
    warmup_factor: float | None = _flag(
        None, "instead of warmup_scheme: each step of the warm-up multiplies the rate by one over this"
    )
    decay_scheme: str = _flag(
        "",
        "halvings of the rate late in training, or its fall with the root of the steps after the warm-up",
        ("", "luong5", "luong10", "luong234", "inverse_sqrt"),
    )
    start_decay_step: int | None = _flag(None, "instead of decay_scheme: the step from which the rate falls")
    decay_steps: int | None = _flag(None, "instead of decay_scheme: steps from one fall to the next; else 10000")
    decay_factor: float | None = _flag(None, "instead of decay_scheme: what a fall multiplies the rate by; else 0.98")
    max_gradient_norm: float = _flag(5.0, "gradients are scaled down to this global norm")
    num_train_steps: int = _flag(12000, "weight updates of the whole training")
    batch_size: int = _flag(128, "sentence pairs of one update", of="data")
    batch_tokens: int = _flag(
        0, "instead of batch_size in training: words of a padded side of a batch; 0: batch_size", of="data"
    )
    accumulate: int = _flag(1, "batches whose gradients make one update")
    label_smoothing: float = _flag(0.0, "training: share of the probability that goes to all words alike")
    num_sampled_softmax: int = _flag(0, "training: predict among so many words that are drawn; 0: among all")

    # First weights and regularisation
    init_op: str = _flag("uniform", "distribution of new weights", ("uniform", "glorot_normal", "glorot_uniform"))
    init_weight: float = _flag(0.1, "uniform: new weights lie within plus or minus this")
    dropout: float = _flag(0.2, "share of each layer's input that is zeroed in training")
    random_seed: int | None = _flag(None, "seed of weights, order and dropout; none: drawn anew and logged", of="data")

    # Data
    src: str | None = _flag(None, "suffix of the source files: de reads PREFIX.de", of="data")
    tgt: str | None = _flag(None, "suffix of the target files", of="data")
    train_prefix: str | None = _flag(None, "training files without their suffix; may be a glob", of="data")
    dev_prefix: str | None = _flag(None, "development files, which choose the best checkpoint")
    test_prefix: str | None = _flag(None, "test files, which are only reported")
    vocab_prefix: str | None = _flag(None, "vocabulary files: one word a line, the most frequent first")
    embed_prefix: str | None = _flag(
        None, "word vectors in the text form of GloVe or word2vec, without suffix", of="model"
    )
    out_dir: str | None = _flag(None, "folder of checkpoints, logs and outputs (also --model_dir)", of="place")
    sos: str = _flag("<s>", "word that starts a sentence", of="data")
    eos: str = _flag("</s>", "word that ends a sentence", of="data")
    share_vocab: bool = _flag(False, "one vocabulary and one embedding for both languages", of="model")
    check_special_token: bool = _flag(True, "put <unk>, sos and eos before a vocabulary that lacks them")
    subword_option: str = _flag("", "how subwords are joined for writing and scoring", ("", "bpe", "spm"))
    subword_size: int = _flag(
        0, "learn so many subwords from the training files, which hold words; 0: as they are", of="model"
    )
    subword_dropout: float = _flag(
        0.0, "bpe, training: joins passed over, so words are cut in many ways; 0.1 does well", of="data"
    )
    source_reverse: bool = _flag(False, "the encoder reads each source sentence from its end", of="model")
    src_max_len: int | None = _flag(50, "training: longer source sentences are cut", of="data")
    tgt_max_len: int | None = _flag(50, "training: longer target sentences are cut", of="data")
    src_max_len_infer: int | None = _flag(None, "evaluation and translation: longer sources are cut")
    tgt_max_len_infer: int | None = _flag(None, "longest translation; none: twice its source sentence")
    whole_batch_limit: bool = _flag(
        False, "longest translation: twice the longest source of the batch, as the original has it"
    )
    num_buckets: int = _flag(5, "classes of length; a batch holds sentences of one class", of="data")

    # The run
    metrics: str = _flag("bleu", "comma list of bleu, rouge, accuracy, word_accuracy, sacrebleu, chrf, ter")
    detokenize: bool = _flag(False, "sacrebleu, chrf, ter: of running text, without the blanks of a tokenizer")
    steps_per_stats: int = _flag(100, "steps from one log line to the next; ten times this between saves")
    steps_per_external_eval: int | None = _flag(None, "steps between scorings; none: 50 times steps_per_stats")
    patience: int = _flag(0, "stop after so many measurements of dev in a row that were no better; 0: never")
    patience_metric: str = _flag("", "what has to get better: ppl, or one of metrics; empty: the first of metrics")
    num_keep_ckpts: int = _flag(5, "latest checkpoints kept, beside the best ones")
    avg_ckpts: bool = _flag(False, "also score the mean of the last num_keep_ckpts checkpoints, and keep the best one")
    compute_dtype: str = _flag(
        "float32",
        "inputs of the large matrix products in training; weights stay float32",
        ("float32", "bfloat16", "float16"),
    )
    num_gpus: int = _flag(1, "from 2 on: layers are spread over so many GPUs; else one device is used")
    device: str = _flag("", "where to compute, as cpu or cuda:1; empty: on a GPU, if there is one", of="place")
    num_intra_threads: int = _flag(0, "threads of one operation; 0: as many as there are cores", of="place")

    # Translation
    ckpt: str | None = _flag(
        None,
        "checkpoint to translate with, or several with commas, which do it together; none: the latest of out_dir",
        of="command",
    )
    inference_input_file: str | None = _flag(None, "file to translate; without it the program trains", of="command")
    inference_output_file: str | None = _flag(None, "where the translations go, one a line", of="command")
    score_file: str | None = _flag(
        None, "translations of inference_input_file to score, instead of making some", of="command"
    )
    nbest_file: str | None = _flag(
        None, "where all hypotheses go that the search kept, with their scores", of="command"
    )
    inference_list: str | None = _flag(
        None,
        "comma list of lines, counted from 0: only these are translated, each with a picture of its attention",
        of="command",
    )
    inference_ref_file: str | None = _flag(None, "references that the translations are scored against", of="command")
    num_workers: int = _flag(1, "processes that translate one file together, each a part of it", of="command")
    jobid: int | None = _flag(
        None,
        "which of them this is, where each is a program of its own, and 0 puts their parts together; none: all",
        of="command",
    )
    worker_timeout: int = _flag(
        600, "seconds without a sign of life after which job 0 gives another one up", of="place"
    )
    infer_batch_size: int = _flag(32, "sentences translated at once")
    infer_mode: str | None = _flag(
        None,
        "greedy, sample or beam_search; none: beam_search where beam_width is above 0",
        ("greedy", "sample", "beam_search"),
    )
    replace_unk: bool = _flag(False, "write the source word that was looked at most in the place of <unk>")
    unk_dictionary: str | None = _flag(
        None, "replace_unk: what to write for source words, a line for each: word, tab, translation"
    )
    alignment_file: str | None = _flag(None, "where alignments go, in the format of Pharaoh: 0-0 1-2 …", of="command")
    beam_width: int = _flag(0, "hypotheses kept for a sentence")
    length_penalty_weight: float = _flag(0.0, "how far long hypotheses are favoured; 1.0 does well")
    coverage_penalty_weight: float = _flag(0.0, "how far hypotheses that leave out source words are punished")
    sampling_temperature: float = _flag(0.0, "sample: below 1 likely words are favoured, above 1 unlikely ones")
    sampling_top_k: int = _flag(0, "sample: draw among so many of the likeliest words; 0: among all")
    sampling_top_p: float = _flag(1.0, "sample: draw among the likeliest words that together have this probability")
    num_translations_per_input: int = _flag(1, "best hypotheses written for a sentence, each on its own line")

    def __post_init__(self) -> None:
        _check_types_and_choices(self)
        if self.language_model:  # there is but one language, and nothing to start from
            for name, value in (("share_vocab", True), ("pass_hidden_state", False), ("src", self.tgt)):
                object.__setattr__(self, name, value)
        check_ranges(self)
        check_together(self)

    @property
    def encoder_layers(self) -> int:
        """Encoder layers, counting both directions."""
        return self.num_layers if self.num_encoder_layers is None else self.num_encoder_layers

    @property
    def decoder_layers(self) -> int:
        """Decoder layers."""
        return self.num_layers if self.num_decoder_layers is None else self.num_decoder_layers

    @property
    def memory_depth(self) -> int:
        """Width of one encoder output, which attention reads."""
        return self.num_units * (2 if self.encoder_type == "bi" else 1)

    @property
    def head_width(self) -> int:
        """Width of the vectors that attention compares."""
        return self.num_units // (self.num_heads if self.architecture == "transformer" else 1)

    @property
    def ffn_width(self) -> int:
        """Width of a Transformer's feed-forward layers."""
        return 4 * self.num_units if self.ffn_units is None else self.ffn_units

    @property
    def looks_back(self) -> bool:
        """Whether the decoder looks at the source, so that there are alignments."""
        return bool(self.attention) or (self.architecture == "transformer" and not self.language_model)

    @property
    def encoder_residuals(self) -> int:
        """Layers of an encoder's stack, from the top, that add their input."""
        if not self.residual:
            return 0
        match self.encoder_type:
            case "gnmt":
                return self.encoder_layers - 2
            case "bi":
                return (self.encoder_layers - 1) // 2
        return self.encoder_layers - 1

    @property
    def decoder_residuals(self) -> int:
        """Layers of the decoder, from the top, that add their input: above a gnmt encoder as many as there."""
        if not self.residual:
            return 0
        alike = self.encoder_type == "gnmt" and self.encoder_layers == self.decoder_layers
        return self.encoder_residuals if alike else self.decoder_layers - 1

    @property
    def passes_state(self) -> bool:
        """Whether the decoder starts from the encoder's last state: only where the depths agree."""
        return self.pass_hidden_state and self.encoder_layers == self.decoder_layers

    @property
    def search(self) -> str:
        """How translations are found: greedy, sample or beam_search."""
        return self.infer_mode or ("beam_search" if self.beam_width > 0 else "greedy")

    @property
    def hypotheses(self) -> int:
        """How many translations of a sentence the search has at its end."""
        return self.beam_width if self.search == "beam_search" else self.num_translations_per_input

    @property
    def inference_lines(self) -> tuple[int, ...]:
        """The lines that are asked for, if not all are."""
        return tuple(int(number) for number in (self.inference_list or "").split(",") if number.strip())

    @property
    def external_eval_steps(self) -> int:
        """Steps from one scoring of dev and test to the next."""
        return self.steps_per_external_eval or 50 * self.steps_per_stats

    @property
    def reference_subwords(self) -> str:
        """How references are cut: not at all, where training began with plain text."""
        return "" if self.subword_size else self.subword_option

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics asked for, in order."""
        return tuple(name.strip() for name in self.metrics.split(",") if name.strip())

    @property
    def watched(self) -> str:
        """The metric that `patience` waits for."""
        return self.patience_metric or self.metric_names[0]

    def replace(self, **changes: Any) -> HParams:
        """Returns a copy with some settings changed, checked again."""
        unknown = sorted(set(changes) - set(FIELDS))
        if unknown:
            raise HParamError(f"no setting is called {', '.join(unknown)}; --help lists them all")
        return dataclasses.replace(self, **changes)

    def save(self, path: Path) -> None:
        """Writes all settings as JSON, sorted by name."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=4, sort_keys=True) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> HParams:
        """Reads settings from a JSON file; those that it leaves out keep their defaults."""
        try:
            return cls().replace(**read_json(path))
        except HParamError as error:
            raise HParamError(f"{path}: {error}") from error


FIELDS: dict[str, dataclasses.Field[Any]] = {f.name: f for f in dataclasses.fields(HParams)}


def flags_of(what: str) -> tuple[str, ...]:
    """Returns the flags that are a property of something: `model`, `data`, `command`, `place` or `run`."""
    return tuple(name for name, flag in FIELDS.items() if flag.metadata["of"] == what)


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object of settings, naming the file in every complaint."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise HParamError(f"cannot read settings from {path}: {error}; mend the file, or leave it out") from error
    if not isinstance(values, dict):
        raise HParamError(f"expected a JSON object of settings in {path}, got a {type(values).__name__}")
    return values


def field_kind(name: str) -> type:
    """Returns the type of a flag's values, leaving out "or none"."""
    annotation = str(FIELDS[name].type).split(" | ")[0]
    return {"int": int, "float": float, "bool": bool, "str": str}[annotation]


def may_be_none(name: str) -> bool:
    """Says whether a flag may be left undecided."""
    return str(FIELDS[name].type).endswith("| None")


def check_value(name: str, value: Any) -> None:
    """Refuses a value that a setting cannot have, whatever the others are."""
    kind, choices = field_kind(name), FIELDS[name].metadata["choices"]
    if value is None and may_be_none(name):
        return
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise HParamError(f"{name} must be of type {kind.__name__}, got {value!r}")
    if choices and value not in choices:
        raise HParamError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    most = 1e30 if kind is float else _MOST
    if isinstance(value, (int, float)) and name != "random_seed" and not abs(value) <= most:  # not a number, too
        raise HParamError(f"{name} must be a number of at most {most:,}, got {value}")


def _check_types_and_choices(hparams: HParams) -> None:
    for name in FIELDS:
        value = getattr(hparams, name)
        check_value(name, value)
        if field_kind(name) is float and type(value) is int:
            object.__setattr__(hparams, name, float(value))


_MOST = 2**31 - 1
