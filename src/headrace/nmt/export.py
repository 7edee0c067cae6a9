"""`headrace nmt export MODEL FOLDER`: a model as two programs that run without headrace, of torch.export or ONNX.

`encoder` reads source sentences: `encoder(src, src_len)` gives the memory and the state that decoding starts from, and
`step(words, memory, state)` goes one word on: it gives the logits of the next word, the attention, and the next state.
Batch and lengths are free. Which words to take, the caller decides: `exporting/exported.py` shows it.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace as hr
from headrace.nmt.cli.run import Parser, run_command

if TYPE_CHECKING:
    from headrace.nmt.infer import Translator

__all__ = ["ExportError", "export", "main"]

FORMAT, VERSION = "headrace.nmt.export", 1
KINDS = {"torch": "pt2", "onnx": "onnx"}  # how the files end


class ExportError(hr.HeadraceError):
    """A model cannot be exported, or an exported one not be read; the message says why."""


def export(translator: Translator, folder: str | Path, kind: str = "torch") -> None:
    """Writes a model's programs, vocabularies and settings into a folder.

    Args:
        translator: The model.
        folder: Where the files go; those of an earlier export are replaced.
        kind: torch or onnx.

    Raises:
        ExportError: It cannot be exported, or what writes ONNX is not installed.
        OSError: A file cannot be written.
    """
    from headrace.nmt.exporting.modules import Encode, Step, example, flat_names
    from headrace.nmt.text.files import make_folder, replacing

    hparams = translator.hparams
    if kind not in KINDS:
        raise ExportError(f"expected one of the kinds {', '.join(KINDS)}, got {kind!r}")
    if hparams.language_model:
        raise ExportError("a language model reads no source sentences, so there is no encoder to export")
    if translator.others:
        raise ExportError("several models translate as one in headrace alone: export each of them")
    if kind == "onnx":
        try:
            import onnx  # noqa: F401
            import onnxscript  # noqa: F401
        except ImportError as error:
            raise ExportError(f"writing ONNX needs {error.name}: pip install 'headrace[onnx]'") from error
    folder, end = Path(folder), KINDS[kind]
    make_folder(folder)
    (folder / "settings.json").unlink(missing_ok=True)  # written last: with it, all files are there
    model = copy.deepcopy(translator.model).eval()
    encode, step = Encode(model), Step(model)
    names = flat_names(encode)
    for name, module in (("encoder", encode), ("step", step)):
        arguments, shapes = example(encode, step if name == "step" else None)
        inputs = ["src", "src_len"] if name == "encoder" else ["words", *names]
        outputs = names if name == "encoder" else step.outputs(names)
        with replacing(folder / f"{name}.{end}") as temporary:
            _write(module, arguments, shapes, kind, temporary, (inputs, outputs))
    for side, vocab in zip(("src", "tgt"), translator.vocabs, strict=True):
        vocab.save(folder / f"vocab.{side}")
    if translator.subwords is not None:
        with replacing(folder / "subwords") as temporary:
            temporary.write_bytes(translator.subwords.model)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "encoder": f"encoder.{end}",
        "step": f"step.{end}",
        "source": hparams.src,
        "target": hparams.tgt,
        "memory": [name for name in names if name.startswith("memory")],
        "state": [name for name in names if name.startswith("state")],
        "attention": hparams.looks_back,
        "unk": 0,
        "sos": 1,
        "eos": 2,
        "src_max_len": hparams.src_max_len_infer,
        "tgt_max_len": hparams.tgt_max_len_infer,
        "subword_option": hparams.subword_option,
        "subwords": None if translator.subwords is None else "subwords",
    }
    with replacing(folder / "settings.json") as temporary:
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _write(module: Any, arguments: Any, shapes: Any, kind: str, path: Path, names: tuple[list[str], list[str]]) -> None:
    import torch

    with torch.no_grad(), _quiet():
        try:
            # Strict: what traces by running takes len(tensor) for a number that never changes.
            program = torch.export.export(module, arguments, dynamic_shapes=shapes, strict=True)
            if kind == "torch":
                signature = program.graph_signature
                used = {*signature.inputs_to_parameters.values(), *signature.inputs_to_buffers.values()}
                for name in [name for name in program.state_dict if name not in used]:
                    del program.state_dict[name]  # the encoder has no need of the decoder's weights
                content = io.BytesIO()  # of a file it would insist on how its name ends
                torch.export.save(program, content)
                path.write_bytes(content.getbuffer())
            else:
                inputs, outputs = names
                found = torch.onnx.export(program, dynamo=True, input_names=inputs, output_names=outputs, verbose=False)
                assert found is not None
                path.write_bytes(found.model_proto.SerializeToString())
        except Exception as error:  # whatever a compiler of PyTorch raises at a model that it cannot trace
            reason = str(error).strip().split("\n")[0]
            raise ExportError(
                f"PyTorch {torch.__version__} cannot export this model ({type(error).__name__}: {reason}); what the "
                "documentation says of it was tried with 2.13"
            ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps to itself what the compilers say of their own insides."""
    log = logging.getLogger("torch")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run_command("headrace.nmt.export", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> None:
    from headrace.nmt.infer import Translator  # here, so that a missing PyTorch is reported as any other error

    parser = Parser(
        "export",
        "Writes a model as an encoder and a decoder step that run without headrace, its vocabularies, and "
        "settings.json, which says how they go together.",
    )
    parser.add_argument("model", metavar="MODEL", help="an out_dir, or a checkpoint")
    parser.add_argument("folder", metavar="FOLDER", help="where the files go")
    parser.add_argument("--kind", choices=KINDS, default="torch", help="of program (default: %(default)s)")
    flags = parser.parse_args(argv)
    export(Translator.load(flags.model), flags.folder, flags.kind)
    sizes = sum(path.stat().st_size for path in Path(flags.folder).iterdir())
    sys.stdout.write(f"# {flags.model} exported to {flags.folder} ({flags.kind}, {sizes / 1e6:,.1f} MB)\n")


if __name__ == "__main__":
    sys.exit(main())
