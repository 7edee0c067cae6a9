"""
The native core of headrace. Private: use the functions of the package instead.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy
import numpy.typing
from numpy.typing import NDArray


def find_buckets(lengths: numpy.typing.NDArray[numpy.int32], boundaries: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.int32]:
    """The bucket of each length: how many boundaries are not above it."""

def group_by_count(buckets: numpy.typing.NDArray[numpy.int32], num_buckets: int, batch_size: int, drop_remainder: bool) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]:
    """Batches of so many records of one bucket: (order, offsets)."""

def group_by_tokens(buckets: numpy.typing.NDArray[numpy.int32], lengths: numpy.typing.NDArray[numpy.int32], num_buckets: int, max_tokens: int, drop_remainder: bool) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]:
    """
    Batches of one bucket with so many tokens after padding: (order, offsets).
    """

def cbf_lengths(file: FileBytes, begins: numpy.typing.NDArray[numpy.uint64], ends: numpy.typing.NDArray[numpy.uint64], sequences: numpy.typing.NDArray[numpy.uint32], samples: numpy.typing.NDArray[numpy.uint32]) -> numpy.typing.NDArray[numpy.uint32]:
    """
    The length of each sequence of the chunks that begin and end there, of so many sequences and samples.
    """

def cbf_locate(file: FileBytes, chunk: tuple[int, int, int, int, int], streams: Sequence[tuple[str, bool, int, int]]) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]:
    """
    (position of each sequence, its samples), stream after stream, of a chunk (number, begin, end, sequences, samples); streams are (name, sparse, bytes of a value, dim).
    """

def cbf_gather(file: FileBytes, stream: tuple[str, bool, int, int], positions: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """
    (bytes of values, offsets; indices, entries, bad_rows, bad_bytes of a sparse stream) of sequences.
    """

def form_chunks(begins: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], ends: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], limit: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Where chunks of at most `limit` bytes begin, and last the number of records.
    """

class CntkSweep:
    """One sweep in CNTK's shuffled order, made window by window."""

    def __init__(self, chunks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], samples: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], window: int, in_samples: bool, seed: int) -> None: ...

    @property
    def records(self) -> int: ...

    @property
    def position(self) -> int: ...

    def next(self, count: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """
        (record numbers, places of their chunks in the shuffled order). Not for two threads at once.
        """

def index_ctf(file: FileBytes, skip_ids: bool = False, main: str = '', threads: int = 0) -> tuple[bool, int, Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]:
    """
    (ids, first_line, begins, ends, keys, samples): where sequences are. Tables that can be told from others are empty.
    """

def count_line_feeds(file: FileBytes, begin: int, end: int) -> int:
    """Line feeds in the bytes [begin, end) of a file."""

class CtfProblems:
    """The mistakes that one call of CtfReader.parse found."""

    def __len__(self) -> int: ...

    def times(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        How many mistakes each stands for: of many alike in a row, only the first are kept.
        """

    def explain(self, i: int) -> str:
        """What was expected, what came, where, and what to do."""

    def place(self, i: int) -> tuple[int, int, int, int, int, str]:
        """(row, number of the stream or -1, byte, line and column from 1, kind)."""

class CtfReader:
    """The sequences of an indexed file in CNTK's text format."""

    def __init__(self, file: FileBytes, begins: numpy.typing.NDArray[numpy.uint64], ends: numpy.typing.NDArray[numpy.uint64], ids: bool, keys: numpy.typing.NDArray[numpy.uint64], first_line: int, streams: Sequence[tuple[str, bool, int]], main: int, double: bool, require_all: bool) -> None:
        """
        Streams are (name in the file, sparse, dim); `main` is the number of the one that defines sizes, or -1.
        """

    @property
    def records(self) -> int: ...

    def parse(self, records: numpy.typing.NDArray[numpy.int64]) -> tuple[list[tuple[numpy.typing.NDArray[Any], ...]], numpy.typing.NDArray[numpy.bool_], numpy.typing.NDArray[numpy.int64], CtfProblems, list[tuple[str, int, str]]]:
        """
        (columns, rows to leave out or none, the row of each problem, problems, (kind, count, message of the first) of warnings). A dense column is (values, offsets), a sparse one (values, indices, entry offsets, offsets).
        """

def ctf_lines(columns: list[tuple[str, numpy.typing.NDArray[Any], int, numpy.typing.NDArray[numpy.int64], tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int64]] | None]], ids: numpy.typing.NDArray[numpy.uint64] | None, begin: int, end: int, first: int) -> numpy.typing.NDArray[numpy.uint8]:
    """
    Rows [begin, end) as lines of CNTK's text format, of columns (alias, values, dim, offsets, (indices, entries) of sparse ones); row 0 is called `first` in messages.
    """

class ExampleParser:
    """Takes features out of Examples and SequenceExamples."""

    def __init__(self, features: Sequence[tuple[bytes, int, bool, int, int, bool, object, str]]) -> None: ...

    def parse(self, data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64]) -> tuple[list[tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.int64] | None, numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]], int, str]:
        """
        ([(values, ends of strings or None, offsets, steps)], row with a fault or -1, what is wrong).
        """

def survey_examples(data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64]) -> tuple[list[tuple[bytes, bool, list[int], int, int, int]], int, str]:
    """
    ([(key, in lists, kinds, messages with it, least and most values)], row with a fault or -1, what is wrong).
    """

def encode_examples(count: int, columns: Sequence[tuple[bytes, int, bool, numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.int64] | None, numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64] | None]]) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]:
    """
    (bytes of messages, offsets) of columns (key, kind, in lists, values, offsets of strings, offsets, steps).
    """

def pack_first_fit(lengths: numpy.typing.NDArray[numpy.int32], capacity: int) -> numpy.typing.NDArray[numpy.int64]:
    """The bin of each piece: the first one that has room for it."""

def pack_best_fit(lengths: numpy.typing.NDArray[numpy.int32], capacity: int) -> numpy.typing.NDArray[numpy.int64]:
    """The bin of each piece: the one that it leaves the least room in."""

def absorb(hash: int, word: int) -> int:
    """
    Mixes a 64-bit word into a 64-bit hash: how keys of permutations are made.
    """

def permute(seed: int, epoch: int, stream: int, n: int, positions: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.int64]:
    """
    The values, at some positions, of the permutation of [0, n) that seed, epoch and stream select.
    """

def permute_windows(seed: int, epochs: int | numpy.typing.NDArray[numpy.int64], window: int, n: int, positions: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.int64]:
    """
    The same, with each window of [0, n) permuted in itself, its number being the stream.
    """

def mix_locate(pattern: numpy.typing.NDArray[numpy.int32], rank: numpy.typing.NDArray[numpy.int64], counts: numpy.typing.NDArray[numpy.int64], seed: int, epochs: int | numpy.typing.NDArray[numpy.int64], cell: int, n: int, positions: numpy.typing.NDArray[numpy.int64]) -> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int64]]:
    """The plan and the record that stand at each position of a mixture."""

def check_positions(positions: numpy.typing.NDArray[numpy.int64], n: int) -> None:
    """Raises IndexError if a position is outside [0, n)."""

def pad_ragged(values: numpy.typing.NDArray[Any], offsets: numpy.typing.NDArray[numpy.int64], width: int, value: object = 0, left: bool = False) -> numpy.typing.NDArray[Any]:
    """
    Rows of unequal length as one dense array: rows x width x the shape of an item.
    """

def gather_rows(array: numpy.typing.NDArray[Any], index: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[Any]:
    """array[index] for a C-contiguous array of any type."""

def gather_ragged(values: numpy.typing.NDArray[Any], offsets: numpy.typing.NDArray[numpy.int64], index: numpy.typing.NDArray[numpy.int64]) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.int64]]:
    """(values, offsets) of the rows `index`."""

def resize_picture(picture: numpy.typing.NDArray[numpy.uint8], out: numpy.typing.NDArray[numpy.uint8], left: float, top: float, right: float, bottom: float, cubic: bool) -> None:
    """
    Part of a picture (height, width, channels) in the size of `out`, as Pillow makes it.
    """

class Snapshot:
    """What nested lists, tuples and dicts held when it was taken."""

    def holds(self) -> bool:
        """
        Whether all of them hold the very same objects still, and arrays the same bytes.
        """

    def __len__(self) -> int: ...

def snapshot_of(root: object, array: type, number: type) -> Snapshot | None:
    """
    Takes a snapshot of a container; None if something in it could change unseen.
    """

class FileBytes:
    """The bytes of a file, mapped read-only, or of an array in memory."""

    @staticmethod
    def open(path: str) -> FileBytes: ...

    @staticmethod
    def from_descriptor(descriptor: int, name: str) -> FileBytes: ...

    @staticmethod
    def from_memory(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], name: str) -> FileBytes: ...

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def mtime_ns(self) -> int: ...

    @property
    def inode(self) -> int: ...

    def sample(self) -> int:
        """A hash of the size and of pieces spread over the bytes."""

    def array(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
        """
        The bytes as a read-only array that keeps them mapped. Call check_unchanged before looking at it.
        """

    def check_unchanged(self) -> None:
        """
        Raises DataChangedError when the file is not what it was when it was opened.
        """

    def index_lines(self, separators: str | None = None, threads: int = 0) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]:
        """(starts uint64, one more than lines; tokens a line uint32)."""

    def find_invalid_utf8(self) -> int | None:
        """The offset of the first byte that is not UTF-8, or None."""

class Vocabulary:
    """Words to ids and back."""

    @staticmethod
    def from_file(file: FileBytes) -> Vocabulary: ...

    @staticmethod
    def from_words(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], name: str) -> Vocabulary: ...

    def __len__(self) -> int: ...

    def find(self, word: bytes) -> int:
        """The id, or -1."""

    def words(self) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """(bytes of all words, offsets)."""

    def encode(self, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], unknown: int, max_length: int | None = None, bos: int | None = None, eos: int | None = None, separators: str | None = None) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """(ids of the texts' tokens, offsets)."""

    def decode(self, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], unknown: int, eos: int | None = None) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """(words joined by blanks, offsets)."""

class TokenCounter:
    """Counts the tokens of files."""

    def __init__(self) -> None: ...

    def count(self, file: FileBytes, separators: str | None = None, threads: int = 0) -> None: ...

    def ranked(self, min_count: int = 1) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """(bytes of the tokens, offsets, counts), the most frequent first."""

class TextReader:
    """The lines of several indexed files as one list of records."""

    def __init__(self, files: Sequence[FileBytes], starts: Sequence[object], sidecars: Sequence[FileBytes | None]) -> None: ...

    @property
    def records(self) -> int: ...

    def locate(self, record: int) -> tuple[int, int]:
        """(number of the file, number of the line in it), both from 0."""

    def read(self, records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """(bytes of the lines, offsets)."""

    def encode(self, records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], vocabulary: Vocabulary, unknown: int, max_length: int | None = None, bos: int | None = None, eos: int | None = None, separators: str | None = None) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """(ids of the lines' tokens, offsets)."""

def hash64(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
    """A fast 64-bit hash, for checksums."""

def crc32c(data: bytes) -> int:
    """CRC-32C of bytes, not masked."""

def is_record_header(data: bytes) -> bool:
    """Whether bytes begin as a TFRecord file does."""

def frame_records(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """Records as a TFRecord file holds them."""

def index_records(file: FileBytes, recover: bool = False) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], tuple[str, int, str], list[tuple[int, int, str]]]:
    """
    (offsets of records, lengths of their data, fault (kind, offset, text), lost [(begin, end, text)]).
    """

def recover_after(piece: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int, end: int, last: bool, longest: int) -> tuple[bool, int, int]:
    """
    (whether the next record was found, where it or what is needed of the piece begins, bytes of it needed).
    """

def scan_records(piece: numpy.typing.NDArray[numpy.uint8], base: int, last: bool, verify: bool, longest: int) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64], tuple[str, int, str], int]:
    """
    (offsets of the records' data in the piece and, last, where what is not whole begins; lengths; fault; bytes that the record there needs).
    """

class RecordReader:
    """The records of several indexed TFRecord files as one list."""

    def __init__(self, files: Sequence[FileBytes], offsets: Sequence[object], lengths: Sequence[object], sidecars: Sequence[FileBytes | None]) -> None: ...

    @property
    def records(self) -> int: ...

    def locate(self, record: int) -> tuple[int, int]:
        """(number of the file, number of the record in it), both from 0."""

    def read(self, records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], verify: bool = True) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """(bytes of the records, offsets)."""

def core_version() -> str:
    """
    The release that the native core was built for; the package refuses to be imported with another one.
    """
