"""Runs TensorFlow's conformance cases of `tf.data`, tables, and the iterator of its translation tutorial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace import tf1 as tf
from tests.conformance.tf_values import encode, error_of, same, value_of

Dataset = tf.data.Dataset


def _nest(value: Any) -> Any:
    return value_of(value) if not isinstance(value, list) else tuple(_nest(v) for v in value)


def _source(op: dict[str, Any]) -> Any:
    kind = op["op"]
    rest = {k: v for k, v in op.items() if k not in ("op", "files", "tensors", "n")}
    if kind == "range":
        return Dataset.range(op["n"])
    if kind == "from_tensor_slices":
        tensors = [value_of(t) for t in op["tensors"]]
        return Dataset.from_tensor_slices(tensors[0] if len(tensors) == 1 else tuple(tensors))
    if kind == "text_line":
        return tf.data.TextLineDataset(op["files"], rest.get("compression", rest.get("compression_type", "")))
    if kind == "fixed_length":
        return tf.data.FixedLengthRecordDataset(op["files"], **rest)
    if kind == "tfrecord":
        return tf.data.TFRecordDataset(op["files"], rest.get("compression", ""))
    if kind == "zip":
        parts: Any = op.get("datasets") or op.get("of") or op.get("ops")
        return Dataset.zip(tuple(chain(part if isinstance(part, list) else [part]) for part in parts))
    raise NotImplementedError(kind)


def _checked(n: int) -> Callable[[Any], Any]:
    def check(v: Any) -> Any:
        with tf.control_dependencies([tf.assert_less(v, tf.constant(n, tf.int64))]):
            return tf.identity(v)

    return check


def _padded(shapes: Any, dataset: Any) -> Any:
    """One shape for a single value; one for each of a tuple."""
    if isinstance(dataset.output_types, tuple):
        return tuple(tf.TensorShape(s) for s in shapes)
    return tf.TensorShape(shapes)


def _length(*values: Any) -> Any:
    return tf.size(values[0]) if len(values) == 1 else tf.cast(values[1], tf.int32)


def _apply(d: Any, op: dict[str, Any]) -> Any:
    kind = op["op"]
    rest = {k: v for k, v in op.items() if k not in ("op", "n")}
    calls = op.get("num_parallel_calls")
    if kind == "map_range":
        return d.map(lambda v: tf.range(tf.cast(v, tf.int32)), calls)
    if kind == "map_range_len":
        return d.map(lambda v: (tf.range(tf.cast(v, tf.int32)), v), calls)
    if kind == "map_check_lt":
        return d.map(_checked(op["n"]), calls)
    if kind == "filter_even":
        return d.filter(lambda v: tf.equal(v % 2, 0))
    if kind in ("batch", "padded_batch"):
        if "padded_shapes" in rest:
            rest["padded_shapes"] = _padded(rest["padded_shapes"], d)
        if "padding_values" in rest:
            rest["padding_values"] = _nest(rest["padding_values"])
        return getattr(d, kind)(op["n"], **rest)
    if kind == "group_by_window":
        windows = tf.data.experimental.group_by_window(
            lambda v: v % op["mod"], lambda key, window: window.batch(op["window_size"]), op["window_size"]
        )
        return d.apply(windows)
    if kind == "bucket_by_sequence_length":
        kwargs = dict(op.get("kwargs", {}))
        if "padded_shapes" in kwargs:
            kwargs["padded_shapes"] = _padded(kwargs["padded_shapes"], d)
        if "padding_values" in kwargs:
            kwargs["padding_values"] = _nest(kwargs["padding_values"])
        buckets = tf.data.experimental.bucket_by_sequence_length(_length, op["boundaries"], op["batch_sizes"], **kwargs)
        return d.apply(buckets)
    if kind == "zip":
        others: Any = op.get("with") or op.get("datasets") or op.get("other") or op.get("ops")
        return Dataset.zip((d, chain(others)))
    if kind in ("take", "skip", "repeat", "prefetch"):
        return getattr(d, kind)(op["n"] if "n" in op else op.get("count", op.get("buffer_size")))
    if kind == "shard":
        return d.shard(op["num_shards"], op["index"])
    return getattr(d, kind)(**rest)


def chain(ops: list[dict[str, Any]]) -> Any:
    """The dataset of a list of operations."""
    data = _source(ops[0])
    for op in ops[1:]:
        data = _apply(data, op)
    return data


def dataset(case: dict[str, Any]) -> Any:
    p = case["params"]
    try:
        iterator = chain(p["ops"]).make_initializable_iterator()
        step = iterator.get_next()
    except Exception as error:
        return {"build": error_of(error)}
    result = []
    limit = p.get("max_elements", p.get("max_steps", p.get("limit", 60)))
    with tf.Session() as sess:

        def one() -> Any:
            try:
                return encode(sess.run(step))
            except Exception as error:
                return error_of(error)

        for number in range(p.get("iterations", 1)):
            elements: list[Any] = []
            entry: dict[str, Any] = {"elements": elements}
            if not p.get("skip_init"):
                try:
                    sess.run(iterator.initializer)
                except Exception as error:
                    result.append({**entry, "end": error_of(error)})
                    continue
            while len(elements) < limit:
                found = one()
                if "error" not in found:
                    elements.append(found)
                    continue
                if found["error"] == "OutOfRangeError":
                    entry["end"] = {"end": "OutOfRangeError"}
                else:
                    entry |= {"end": found, "after_error": one()}
                break
            else:
                wanted = case["expect"].get("iterations", [])
                entry["end"] = wanted[number]["end"] if number < len(wanted) else {"end": "max_steps"}
            result.append(entry)
    return {"iterations": result}


def string_split(case: dict[str, Any]) -> Any:
    p = case["params"]
    with tf.Session() as sess:
        try:
            texts = tf.constant(value_of({"dtype": "string", "data": p["strings"]}), tf.string)
            return {"value": encode(sess.run(tf.string_split(texts, **p["kwargs"])))}
        except Exception as error:
            return error_of(error)


def table(case: dict[str, Any]) -> Any:
    p = case["params"]
    try:
        made = getattr(tf.contrib.lookup, p["fn"])(p["file"], **p.get("kwargs", {}))
        kind = "int64" if p["fn"].startswith("index_to") else "string"
        found = made.lookup(tf.constant(value_of({"dtype": kind, "data": p["keys"]}), tf.as_dtype(kind)))
        with tf.Session() as sess:
            if not any(key.startswith("skip") for key in p):
                sess.run(tf.tables_initializer())
            return {"value": encode(sess.run(found)), "size": int(sess.run(made.size()))}
    except Exception as error:
        return error_of(error)


# The iterator of the translation tutorial, written out on the datasets of the surface


def _words(line: Any) -> Any:
    return tf.string_split([line]).values


def _ids(words: Any, lookup: Any) -> Any:
    return tf.cast(lookup.lookup(words), tf.int32)


def _characters(words: Any) -> Any:
    """Fifty numbers a word: begin, bytes, end, padding, each one more."""

    def encode_words(given: Any) -> Any:
        rows = np.full((len(given), 50), 261, np.int32)
        for row, word in zip(rows, given, strict=True):
            codes = [259, *[byte + 1 for byte in word[:48]], 260]
            row[: len(codes)] = codes
        return rows.reshape(-1)

    made = tf.py_func(encode_words, [words], tf.int32)
    made.set_shape([None])
    return made


def nmt(case: dict[str, Any]) -> Any:
    p = case["params"]
    options = dict(p["kwargs"])
    source_table = tf.contrib.lookup.index_table_from_file("vocab.src", default_value=0)
    target_table = tf.contrib.lookup.index_table_from_file("vocab.tgt", default_value=0)
    infer = p["fn"] == "get_infer_iterator"
    if infer:
        data = _infer(source_table, **options)
        names = ["source", "source_sequence_length"]
    else:
        data = _train(source_table, target_table, **options)
        names = ["source", "target_input", "target_output", "source_sequence_length", "target_sequence_length"]
    iterator = data.make_initializable_iterator()
    step = iterator.get_next()
    epochs = []
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        for _ in range(p.get("iterations", 1)):
            sess.run(iterator.initializer)
            batches: list[Any] = []
            while True:
                try:
                    values = sess.run(step)
                except tf.errors.OutOfRangeError:
                    break
                batches.append({name: value.tolist() for name, value in zip(names, values, strict=True)})
            epochs.append(batches)
    return {"epochs": epochs}


def _end(lookup: Any, characters: bool = False) -> Any:
    return tf.constant(257) if characters else _ids(tf.constant("</s>"), lookup)


def _source_pair(words: Any, lookup: Any, characters: bool) -> tuple[Any, Any]:
    numbers = _characters(words) if characters else _ids(words, lookup)
    return numbers, tf.size(words) if characters else tf.size(numbers)


def _train(
    source_table: Any,
    target_table: Any,
    batch_size: int,
    random_seed: int,
    num_buckets: int,
    src_max_len: int | None = None,
    tgt_max_len: int | None = None,
    num_parallel_calls: int = 4,
    output_buffer_size: int | None = None,
    skip_count: int | None = None,
    num_shards: int = 1,
    shard_index: int = 0,
    reshuffle_each_iteration: bool = True,
    use_char_encode: bool = False,
) -> Any:
    start = _ids(tf.constant("<s>"), target_table)
    end = _end(target_table)
    data = Dataset.zip((tf.data.TextLineDataset("src.txt"), tf.data.TextLineDataset("tgt.txt")))
    data = data.shard(num_shards, shard_index)
    if skip_count is not None:
        data = data.skip(skip_count)
    buffer = output_buffer_size or batch_size * 1000
    data = data.shuffle(buffer, random_seed, reshuffle_each_iteration)
    data = data.map(lambda s, t: (_words(s), _words(t)), num_parallel_calls).prefetch(buffer)
    data = data.filter(lambda s, t: tf.logical_and(tf.size(s) > 0, tf.size(t) > 0))
    if src_max_len:
        data = data.map(lambda s, t: (s[:src_max_len], t))
    if tgt_max_len:
        data = data.map(lambda s, t: (s, t[:tgt_max_len]))

    def numbers(s: Any, t: Any) -> Any:
        source, length = _source_pair(s, source_table, use_char_encode)
        target = _ids(t, target_table)
        first, last = tf.concat(([start], target), 0), tf.concat((target, [end]), 0)
        return source, first, last, length, tf.size(first)

    data = data.map(numbers, num_parallel_calls)

    def together(d: Any) -> Any:
        pads = (_end(source_table, use_char_encode), end, end, 0, 0)
        return d.padded_batch(batch_size, ([None], [None], [None], [], []), pads)

    if num_buckets <= 1:
        return together(data)
    width = (src_max_len + num_buckets - 1) // num_buckets if src_max_len else 10

    def bucket(a: Any, b: Any, c: Any, source_len: Any, target_len: Any) -> Any:
        number = tf.maximum(source_len // width, target_len // width)
        return tf.to_int64(tf.minimum(num_buckets, number))

    return data.apply(tf.contrib.data.group_by_window(bucket, lambda key, window: together(window), batch_size))


def _infer(lookup: Any, batch_size: int, src_max_len: int | None = None, use_char_encode: bool = False) -> Any:
    data = tf.data.TextLineDataset("src.txt").map(_words)
    if src_max_len:
        data = data.map(lambda s: s[:src_max_len])
    data = data.map(lambda s: _source_pair(s, lookup, use_char_encode))
    return data.padded_batch(batch_size, ([None], []), (_end(lookup, use_char_encode), 0))


# What informative cases must hold


def _bag(got: Any) -> list[str]:
    return sorted(str(item) for item in got)


def plausible(case: dict[str, Any], got: Any) -> bool:
    """Whether an informative case went as its note demands, in what can be told of any: the elements are the same."""
    if "raised" in got:
        return False
    wanted = case["expect"]
    if case["kind"] == "dataset" and "iterations" in wanted and "iterations" in got:
        return all(
            _bag(a["elements"]) == _bag(b["elements"])
            for a, b in zip(wanted["iterations"], got["iterations"], strict=True)
        )
    if "order" in str(case.get("note", "")) and "steps" in wanted:
        return _bag(wanted["steps"]) == _bag(got.get("steps", []))
    return True


def _hung(case: dict[str, Any], got: Any) -> bool:
    return same(case["expect"]["steps"], got["steps"]) and got["end"]["error"] == "NotFoundError"


def _again(case: dict[str, Any], got: Any) -> bool:
    first, *others = got["iterations"]
    return plausible(case, got) and all(first == other for other in others)


def _kept(case: dict[str, Any], got: Any) -> bool:
    return bool(got["results"][1] == {"blocks": True} and got["results"][2]["value"]["data"] == [3])


def _window(case: dict[str, Any], got: Any) -> bool:
    size = case["params"]["ops"][-1]["buffer_size"]
    values = [e["data"][0] for e in got["iterations"][0]["elements"]]
    return plausible(case, got) and all(i >= v - size + 1 for i, v in enumerate(values))


def _permutations(case: dict[str, Any], got: Any) -> bool:
    values = [e["data"][0] for e in got["iterations"][0]["elements"]]
    size = case["params"]["ops"][0]["n"]
    runs = [values[i : i + size] for i in range(0, len(values), size)]
    return all(sorted(run) == list(range(size)) for run in runs) and any(run != runs[0] for run in runs)


JUDGES: dict[str, Callable[[dict[str, Any], Any], bool]] = {
    "pipeline/error-in-thread-no-coord": _hung,
    "queue/fifo-up-to-open": _kept,
    "dataset/shuffle-reshuffle": _again,
    "dataset/shuffle-small-buffer": _window,
    "dataset/shuffle-repeat-reshuffle": _permutations,
    "readers/fixed-zero-record-bytes": lambda case, got: got["build"]["error"] == "InvalidArgumentError",
}
