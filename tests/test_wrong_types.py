"""Every argument of every public function, given what it can't be: the error is one of ours, never one from inside.

An error is ours if it is a `HeadraceError` or an `OSError`, or was raised by a `raise` of headrace's own.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import pathlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr

PACKAGE = pathlib.Path(hr.__file__).parent
WRONG = [5, -1, 1.5, True, None, "abc", b"abc", "", [], [object()], {}, {"a": object()}, object(), (1, "a"), np.eye(2)]
Case = tuple[Callable[..., Any], dict[str, Any]]


class FakeMatrix:
    """What `Sparse.from_scipy` needs of SciPy's matrices."""

    data, indices, indptr, shape = np.ones(1), np.zeros(1, np.int32), np.array([0, 1]), (1, 2)

    def tocsr(self) -> FakeMatrix:
        return self


def first(data: hr.Batches) -> Any:
    return next(iter(hr.Loader(data)), None)


def cases(folder: pathlib.Path) -> dict[str, Case]:
    """A call of each public function that works: name, function, arguments."""
    text, ctf, cbf, records = (folder / name for name in ("a.txt", "a.ctf", "a.cbf", "a.tfrecord"))
    text.write_text("a b\nc\n")
    ctf.write_text("|x 1:1 |y 2\n|x 3:1 |y 1\n")
    message = hr.encode_example({"a": [1, 2]})
    with hr.TFRecordWriter(records) as writer:
        writer.write(message)
    columns = {"x": np.eye(2, dtype=np.float32)}
    hr.write_cbf(cbf, columns)
    (folder / "pictures" / "cat").mkdir(parents=True)
    (folder / "pictures" / "cat" / "1.png").write_bytes(b"\x89PNG")
    numbers = hr.from_arrays(np.arange(20))
    rows = hr.from_arrays(hr.Ragged.from_rows([[1], [2, 2], [3]]))
    texts, vocab = hr.read_text(text), hr.Vocab(["<unk>", "a", "b"])
    batches, loader = numbers.batch(4), hr.Loader(numbers.batch(4))
    ragged, sparse = hr.Ragged.from_rows([[1], [2, 2]]), hr.Sparse.from_rows([([0], [1.0])], width=2)
    streams = {"x": hr.sparse(5), "y": hr.dense(1)}

    def run(made: Callable[..., Any]) -> Callable[..., Any]:
        def call(**given: Any) -> Any:
            data = made(**given)
            return first(data.batch(1) if isinstance(data, hr.Dataset) else data)

        return functools.wraps(made)(call)

    def writer_of(method: str) -> Callable[..., Any]:
        def call(**given: Any) -> None:
            with hr.TFRecordWriter(folder / "written") as writer:
                getattr(writer, method)(**given)

        return call

    def add(x: Any, rng: Any = None) -> Any:
        return x

    def positive(x: Any) -> Any:
        return x > 0

    numbered = range(3)
    return {
        "Bytes.from_rows": (hr.Bytes.from_rows, {"rows": [b"a"]}),
        "Strings.from_rows": (hr.Strings.from_rows, {"rows": ["a"]}),
        "Strings[]": (hr.Strings.from_rows(["a"]).__getitem__, {"row": 0}),
        "Strings.bytes_at": (hr.Strings.from_rows(["a"]).bytes_at, {"row": 0}),
        "Ragged.from_rows": (hr.Ragged.from_rows, {"rows": [[1]], "dtype": "int64"}),
        "Ragged.checked": (hr.Ragged.checked, {"values": np.arange(2), "offsets": np.array([0, 2])}),
        "Ragged[]": (ragged.__getitem__, {"row": 0}),
        "Ragged.take": (ragged.take, {"index": np.array([0])}),
        "Sparse.from_rows": (hr.Sparse.from_rows, {"rows": [([0], [1.0])], "width": 2, "dtype": "float32"}),
        "Sparse.checked": (
            hr.Sparse.checked,
            {"values": np.ones(1), "indices": np.zeros(1, np.int32), "offsets": np.array([0, 1]), "width": 2},
        ),
        "Sparse.from_scipy": (hr.Sparse.from_scipy, {"matrix": FakeMatrix()}),
        "Sparse[]": (sparse.__getitem__, {"row": 0}),
        "Sparse.take": (sparse.take, {"index": np.array([0])}),
        "CtfStream": (hr.CtfStream, {"dim": 1, "sparse": False, "alias": "a", "defines_size": False, "sequence": None}),
        "dense": (hr.dense, {"dim": 1, "alias": "a", "defines_size": False, "sequence": None}),
        "sparse": (hr.sparse, {"dim": 1, "alias": "a", "defines_size": False, "sequence": None}),
        "FixedLen": (hr.FixedLen, {"shape": 1, "dtype": "int64", "default": [1]}),
        "FixedLenSequence": (
            hr.FixedLenSequence,
            {"shape": 1, "dtype": "int64", "allow_missing": True, "default": [1]},
        ),
        "VarLen": (hr.VarLen, {"dtype": "int64"}),
        "SparseFeature": (
            hr.SparseFeature,
            {"index_key": "i", "value_key": "v", "dtype": "int64", "size": 3, "already_sorted": True},
        ),
        "RaggedFeature": (
            hr.RaggedFeature,
            {"dtype": "int64", "value_key": "v", "partitions": [("row_splits", "a")], "row_splits_dtype": "int64"},
        ),
        "Dataset.shuffle": (run(numbers.shuffle), {"seed": 1, "window": 3}),
        "Dataset.repeat": (run(numbers.repeat), {"count": 2}),
        "Dataset.take": (run(numbers.take), {"count": 2}),
        "Dataset.skip": (run(numbers.skip), {"count": 2}),
        "Dataset.slice": (run(numbers.slice), {"start": 1, "stop": 9, "step": 2}),
        "Dataset.shard": (run(numbers.shard), {"count": 2, "index": 1}),
        "Dataset.concat": (lambda other: numbers.concat(other), {"other": numbers}),
        "Dataset.filter_length": (run(rows.filter_length), {"min": 1, "max": 3, "columns": ""}),
        "Dataset.filter": (run(numbers.filter), {"fn": positive, "batched": False, "block": 4}),
        "Dataset.map": (run(numbers.map), {"fn": add, "rng": False, "seed": 1}),
        "Dataset.tokens": (
            run(texts.tokens),
            {"vocab": vocab, "max_length": 3, "bos": "a", "eos": "b", "separators": None},
        ),
        "Dataset.parse_example": (
            lambda features: first(hr.from_dataset([message]).parse_example(features).batch(1)),
            {"features": {"a": hr.VarLen("int64")}},
        ),
        "Dataset.parse_sequence_example": (
            hr.from_dataset([message]).parse_sequence_example,
            {"context": {"a": hr.VarLen("int64")}, "sequences": {"b": hr.VarLen("int64")}},
        ),
        "Dataset.decode_image": (
            texts.decode_image,
            {
                "column": "",
                "channels": 3,
                "size": 2,
                "fit": "crop",
                "ratio": 1,
                "interpolation": "nearest",
                "dtype": "uint8",
            },
        ),
        "Dataset[]": (numbers.__getitem__, {"position": 0}),
        "Dataset.batch": (run(numbers.batch), {"size": 2, "drop_remainder": False, "ragged": ()}),
        "Dataset.bucket": (
            run(rows.bucket),
            {
                "batch_size": 2,
                "max_tokens": None,
                "width": None,
                "num_buckets": 3,
                "boundaries": [2],
                "by": "",
                "window": 4,
                "drop_remainder": False,
                "ragged": "",
            },
        ),
        "Dataset.pack": (
            run(rows.pack),
            {
                "length": 4,
                "batch_size": 2,
                "strategy": "concat",
                "columns": "",
                "overlong": "raise",
                "window": 4,
                "drop_remainder": False,
                "value": 0,
            },
        ),
        "Batches.pad": (
            run(rows.batch(2).pad),
            {"value": 0, "columns": "", "side": "left", "multiple_of": 2, "width": 4, "lengths": False},
        ),
        "Batches.map": (run(batches.map), {"fn": add}),
        "Batches.fill": (rows.bucket(2).fill, {"epoch": 0, "windows": 1}),
        "Loader": (
            hr.Loader,
            {
                "data": batches,
                "workers": 0,
                "rank": 0,
                "world_size": 1,
                "split": "batches",
                "uneven": "drop",
                "to": "numpy",
                "prefetch": 2,
                "max_bytes": 9,
                "timeout": 3.0,
                "mode": "inline",
            },
        ),
        "Loader.set_epoch": (loader.set_epoch, {"epoch": 1}),
        "Loader.load_state_dict": (loader.load_state_dict, {"state": loader.state_dict()}),
        "Loader.skip": (loader.skip, {"batches": 1}),
        "Loader.profile": (hr.Loader(batches).profile, {"batches": 2, "step": None, "seconds": 1.0}),
        "Profile.save": (hr.Loader(batches).profile(batches=2).save, {"path": folder / "profile.json"}),
        "Vocab": (hr.Vocab, {"tokens": ["a", "<unk>"], "unk": "a", "special": ["a"], "missing": "prepend"}),
        "Vocab.from_file": (
            hr.Vocab.from_file,
            {"path": folder / "vocab", "unk": "<unk>", "special": ["a"], "missing": "prepend"},
        ),
        "Vocab[]": (vocab.__getitem__, {"token": "a"}),
        "Vocab.tokens": (vocab.tokens, {"ids": [1]}),
        "Vocab.encode": (
            vocab.encode,
            {"texts": ["a b"], "max_length": 3, "bos": 1, "eos": 1, "separators": " "},
        ),
        "Vocab.decode": (vocab.decode, {"ids": [[1]], "eos": "a"}),
        "Vocab.save": (vocab.save, {"path": folder / "vocab"}),
        "build_vocab": (
            hr.build_vocab,
            {
                "files": text,
                "min_count": 1,
                "max_size": 9,
                "specials": ["<unk>"],
                "unk": "<unk>",
                "separators": None,
                "threads": 1,
            },
        ),
        "collate": (hr.collate, {"records": [1, 2], "ragged": (), "where": None, "name": ""}),
        "pad": (hr.pad, {"column": ragged, "value": 0, "side": "left", "width": 3, "multiple_of": 1}),
        "to_arrow": (hr.to_arrow, {"tree": {"x": np.arange(2)}}),
        "concat": (lambda part: hr.concat(part), {"part": numbers}),
        "zip": (lambda part: hr.zip(part, numbers), {"part": numbers}),
        "zip by name": (lambda part, shortest: hr.zip(a=part, shortest=shortest), {"part": numbers, "shortest": True}),
        "mix": (run(hr.mix), {"parts": [numbers, numbers], "weights": [1, 2], "seed": 1, "stop": "all"}),
        "interleave": (run(hr.interleave), {"parts": [numbers], "cycle_length": 1, "block_length": 1}),
        "from_arrays": (run(hr.from_arrays), {"arrays": np.arange(3)}),
        "from_dataset": (run(hr.from_dataset), {"items": numbered, "lengths": [1, 1, 1]}),
        "from_iterable": (run(hr.from_iterable), {"items": numbered}),
        "read_text": (hr.read_text, {"files": text, "index": "memory", "separators": " ", "check_utf8": True}),
        "read_files": (hr.read_files, {"files": text}),
        "read_image_folder": (hr.read_image_folder, {"folder": folder / "pictures", "classes": ["cat"]}),
        "read_ctf": (
            hr.read_ctf,
            {
                "files": ctf,
                "streams": streams,
                "skip_ids": False,
                "max_errors": 0,
                "dtype": "float32",
                "require_all": False,
                "strict": False,
                "index": "memory",
                "keep_in_memory": False,
                "cache": None,
            },
        ),
        "read_cbf": (hr.read_cbf, {"files": cbf, "rename": {"x": "y"}, "sequence": True, "keep_in_memory": False}),
        "read_tfrecord": (
            hr.read_tfrecord,
            {
                "files": records,
                "compression": "auto",
                "verify": True,
                "recover": "skip",
                "index": "memory",
                "stream": False,
            },
        ),
        "TFRecordWriter": (hr.TFRecordWriter, {"path": folder / "w", "compression": "", "shard_size": 9}),
        "TFRecordWriter.write": (writer_of("write"), {"record": b"a"}),
        "TFRecordWriter.write_many": (writer_of("write_many"), {"records": [b"a"]}),
        "write_ctf": (
            hr.write_ctf,
            {
                "path": folder / "w.ctf",
                "data": columns,
                "streams": ["x"],
                "ids": None,
                "first_id": None,
                "append": False,
            },
        ),
        "write_cbf": (
            hr.write_cbf,
            {
                "path": folder / "w.cbf",
                "data": columns,
                "streams": ["x"],
                "chunk_size": 99,
                "dtype": "float32",
            },
        ),
        "infer_ctf": (hr.infer_ctf, {"file": ctf, "max_bytes": 99, "skip_ids": False}),
        "infer_example": (hr.infer_example, {"files": records, "records": 9, "compression": ""}),
        "infer_sequence_example": (hr.infer_sequence_example, {"files": records, "records": 9, "compression": ""}),
        "encode_example": (hr.encode_example, {"features": {"a": 1}}),
        "encode_examples": (hr.encode_examples, {"columns": {"a": np.arange(3)}}),
        "encode_sequence_example": (hr.encode_sequence_example, {"context": {"a": 1}, "sequences": {"b": [[1]]}}),
        "decode_image": (hr.decode_image, {"data": b"\x89PNG"}),
        "record_rng": (hr.record_rng, {"seed": 1, "epoch": 0, "record": 1, "stream": 0}),
        "shuffle_quality": (
            hr.shuffle_quality,
            {"data": numbers, "epoch": 0, "batch_size": 4, "batches": 3},
        ),
        "Stop": (hr.Stop, {"after": 1, "how": "break", "workers": 0, "world_size": 1, "back": 1}),
        "verify": (
            hr.verify,
            {
                "data": batches,
                "events": 2,
                "seed": 0,
                "workers": (0,),
                "ranks": (1,),
                "mode": "threads",
                "max_batches": 3,
            },
        ),
        "assert_resumable": (
            hr.assert_resumable,
            {"data": batches, "epochs": 1, "workers": (0,), "positions": [1], "max_batches": 3},
        ),
    }


@functools.cache
def raises(path: str) -> set[int]:
    """The lines of a file that belong to `raise` statements."""
    found: set[int] = set()
    for node in ast.walk(ast.parse("".join(linecache.getlines(path)))):
        if isinstance(node, ast.Raise):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def is_ours(error: BaseException) -> bool:
    if isinstance(error, (hr.HeadraceError, OSError)):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    return pathlib.Path(last.filename).is_relative_to(PACKAGE) and last.lineno in raises(last.filename)


def mistakes(name: str, make: Callable[..., Any], arguments: dict[str, Any]) -> Iterator[str]:
    for argument in arguments:
        for wrong in WRONG:
            try:
                make(**{**arguments, argument: wrong})
            except Exception as error:
                if not is_ours(error):
                    yield f"{name}({argument}={wrong!r:.20}): {type(error).__name__}: {error!s:.150}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pathlib.Path, dict[str, Case]]]:
    folder = tmp_path_factory.mktemp("wrong")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)  # "abc" may be a file to write
        yield folder, cases(folder)


def test_wrong_arguments_are_refused_by_headrace_itself(made: tuple[pathlib.Path, dict[str, Case]]) -> None:
    found = [line for name, (call, arguments) in made[1].items() for line in mistakes(name, call, arguments)]
    assert found == []


def test_every_argument_is_tried(made: tuple[pathlib.Path, dict[str, Case]]) -> None:
    tried = made[1].keys()
    functions = {name for name in hr.__all__ if inspect.isfunction(getattr(hr, name))}
    assert functions - tried == {"to_torch"}  # gives anything but columns back as it is
    lacking = {
        name: sorted(set(inspect.signature(getattr(hr, name)).parameters) - made[1][name][1].keys())
        for name in sorted((functions | {"Loader", "Vocab", "Stop", "TFRecordWriter"}) & tried)
    }
    assert {name: names for name, names in lacking.items() if names} == {
        "concat": ["parts"],
        "decode_image": ["channels", "dtype", "fit", "interpolation", "ratio", "size"],  # as of Dataset.decode_image
        "zip": ["named", "parts", "shortest"],
    }
    for of in (hr.Dataset, hr.Batches, hr.Loader, hr.Vocab):
        for method, value in inspect.getmembers(of, inspect.isfunction):
            if not method.startswith("_") and len(inspect.signature(value).parameters) > 1:
                assert f"{of.__name__}.{method}" in tried


ANY: Any = hr  # seen as a program without types sees it


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ANY.Vocab(["a"], unk=5), TypeError, "words of a vocabulary are str or bytes, got 5"),
        (lambda: hr.Vocab(["<unk>"])[ANY.pad], TypeError, "words of a vocabulary are str or bytes, got <function"),
        (lambda: ANY.Vocab(5), TypeError, "Vocab: tokens is a list of words, got int 5"),
        (lambda: ANY.from_dataset({"a": 1}), TypeError, r"asks for items by number, .* list\(data.values\(\)\)"),
        (lambda: ANY.read_tfrecord(5), TypeError, "expected a path, a pattern or a list of those, got int 5"),
        (lambda: ANY.Sparse.from_rows([([0], [1])], width="a"), ValueError, "width of Sparse is an integer, got 'a'"),
        (lambda: hr.from_dataset([1, 2])[100], IndexError, "no record 100 in a dataset of 2 records"),
        (lambda: hr.from_dataset([1, 2])[-3], IndexError, "no record -3 in a dataset of 2 records"),
        (lambda: hr.Ragged.from_rows([[1]])[5], IndexError, "no row 5 in Ragged of 1 rows"),
        (lambda: hr.Strings.from_rows(["a"])["a"], TypeError, "rows of Strings are asked for by whole numbers"),
        (lambda: ANY.interleave(5), TypeError, "interleave: parts is a list of datasets, got int 5"),
        (lambda: ANY.Strings.from_rows("abc"), TypeError, "got str 'abc'; for a single one write"),
        (lambda: hr.from_dataset([1]).filter_length(5, 3), hr.PlanError, "max is at least min, .* got min=5, max=3"),
        (lambda: hr.Loader(hr.from_dataset([1]).batch(1), timeout=True), hr.PlanError, "above 0 seconds, got True"),
        (lambda: hr.from_dataset([1]).batch(1, drop_remainder=ANY), hr.PlanError, "batch: drop_remainder is True or"),
    ],
)
def test_messages_say_what_was_expected(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_rows_and_records_count_from_the_end_too() -> None:
    assert hr.from_dataset([1, 2])[-1] == 2
    assert hr.Strings.from_rows(["a", "b"])[-1] == "b"
    assert hr.Ragged.from_rows([[1], [2, 3]]).take(ANY.Ragged.from_rows([[1]])[0]).tolist() == [[2, 3]]
