"""headrace: feeds training data to models.

Exact, resumable at any record, elastic, fast without the interpreter lock, and able to say what bounds the run.

    import headrace as hr

    pairs = hr.zip(src=hr.read_text("train.de"), tgt=hr.read_text("train.en"))
    data = pairs.shuffle(seed=1).tokens({"src": de, "tgt": en}).bucket(max_tokens=4096).pad()
    for batch in hr.Loader(data, workers=2):
        step(batch["src"], batch["tgt"])
"""

from headrace import _native
from headrace.batch import Bytes, Ragged, Sparse, Strings, collate, pad, to_arrow, to_torch
from headrace.dataset import (
    Batches,
    Dataset,
    concat,
    from_arrays,
    from_dataset,
    from_iterable,
    interleave,
    mix,
    read_cbf,
    read_ctf,
    read_files,
    read_image_folder,
    read_text,
    read_tfrecord,
)
from headrace.dataset import zip_ as zip
from headrace.engine import Stats
from headrace.errors import (
    DataChangedError,
    DataError,
    HeadraceError,
    NotPicklableError,
    PlanError,
    StateError,
    StuckError,
    VerificationError,
    WorkerDiedError,
    WorkerError,
)
from headrace.formats.cbf_writer import write_cbf
from headrace.formats.ctf_infer import InferredCtf, infer_ctf
from headrace.formats.ctf_schema import CtfStream, dense, sparse
from headrace.formats.ctf_writer import write_ctf
from headrace.formats.example_encode import encode_example, encode_examples, encode_sequence_example
from headrace.formats.example_infer import infer_example, infer_sequence_example
from headrace.formats.features import FixedLen, FixedLenSequence, RaggedFeature, SparseFeature, VarLen
from headrace.formats.images import decode_image
from headrace.formats.tfrecord_writer import TFRecordWriter
from headrace.loader import Loader
from headrace.plan import record_rng
from headrace.profile import Profile
from headrace.proof import Stop, Verified, assert_resumable, verify
from headrace.quality import shuffle_quality
from headrace.vocab import Vocab, build_vocab

__version__ = "0.1.0"


def _check_core(found: str) -> None:
    """Refuses a native core of another release than this Python code."""
    if found != __version__:
        raise ImportError(
            f"headrace {__version__} found the native core of headrace {found} in {_native.__file__}: files of two "
            "releases are mixed; install headrace again (from a checkout: `pip install --editable .`)"
        )


_check_core(_native.core_version())

__all__ = [
    "Batches",
    "Bytes",
    "CtfStream",
    "DataChangedError",
    "DataError",
    "Dataset",
    "FixedLen",
    "FixedLenSequence",
    "HeadraceError",
    "InferredCtf",
    "Loader",
    "NotPicklableError",
    "PlanError",
    "Profile",
    "Ragged",
    "RaggedFeature",
    "Sparse",
    "SparseFeature",
    "StateError",
    "Stats",
    "Stop",
    "Strings",
    "StuckError",
    "TFRecordWriter",
    "VarLen",
    "VerificationError",
    "Verified",
    "Vocab",
    "WorkerDiedError",
    "WorkerError",
    "assert_resumable",
    "build_vocab",
    "collate",
    "concat",
    "decode_image",
    "dense",
    "encode_example",
    "encode_examples",
    "encode_sequence_example",
    "from_arrays",
    "from_dataset",
    "from_iterable",
    "infer_ctf",
    "infer_example",
    "infer_sequence_example",
    "interleave",
    "mix",
    "pad",
    "read_cbf",
    "read_ctf",
    "read_files",
    "read_image_folder",
    "read_text",
    "read_tfrecord",
    "record_rng",
    "shuffle_quality",
    "sparse",
    "to_arrow",
    "to_torch",
    "verify",
    "write_cbf",
    "write_ctf",
    "zip",
]
