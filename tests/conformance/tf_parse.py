"""Runs TensorFlow's conformance cases of record files, Examples, and slim's decoders and providers."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace import tf1 as tf
from headrace.tf1 import slim
from tests.conformance.tf_values import encode, error_of, value_of

decoders = slim.tfexample_decoder


def _default(given: Any, dtype: str) -> Any:
    if given is None or isinstance(given, dict):
        return value_of(given)
    return value_of({"dtype": dtype, "data": given})


def _feature(spec: dict[str, Any]) -> Any:
    kind, dtype = spec["type"], tf.as_dtype(spec["dtype"])
    if kind == "VarLen":
        return tf.VarLenFeature(dtype)
    if kind == "Sparse":
        return tf.SparseFeature(
            spec["index_key"], spec["value_key"], dtype, spec["size"], spec.get("already_sorted", False)
        )
    if kind == "Ragged":
        parts = []
        for part in spec.get("partitions", ()):
            make = getattr(tf.RaggedFeature, part["type"])
            parts.append(make(part["key"] if "key" in part else part["length"]))
        splits = tf.as_dtype(spec.get("row_splits_dtype", "int32"))
        return tf.RaggedFeature(dtype, spec.get("value_key"), parts, splits)
    default = _default(spec.get("default"), spec["dtype"])
    if kind == "FixedLen":
        return tf.FixedLenFeature(spec.get("shape"), dtype, default)
    return tf.FixedLenSequenceFeature(spec.get("shape"), dtype, spec.get("allow_missing", False), default)


def features_of(specs: Any) -> dict[str, Any]:
    return {key: _feature(spec) for key, spec in (specs or {}).items()}


def _texts(given: Any) -> Any:
    if isinstance(given, str):
        return base64.b64decode(given)
    texts = np.empty(len(given), object)
    texts[:] = [base64.b64decode(text) for text in given]
    return texts


def parse(case: dict[str, Any]) -> Any:
    p = case["params"]
    texts = _texts(p["serialized"])
    single = texts if isinstance(texts, bytes) else texts[0] if len(texts) == 1 else texts
    try:
        if p["mode"] == "single":
            out: Any = tf.parse_single_example(tf.constant(single), features_of(p["features"]))
        elif p["mode"] == "batch":
            out = tf.parse_example(tf.constant(texts, tf.string), features_of(p["features"]))
        else:
            context, sequence = features_of(p.get("context")), features_of(p.get("sequence"))
            if p["mode"] == "sequence_single":
                parts: Any = tf.parse_single_sequence_example(tf.constant(single), context, sequence)
            else:
                parts = tf.parse_sequence_example(tf.constant(texts, tf.string), context, sequence)
            out = dict(zip(("context", "sequence", "lengths"), parts, strict=False))
    except Exception as error:
        return {**error_of(error), "when": "build"}
    with tf.Session() as sess:
        try:
            return {"value": encode(sess.run(out))}
        except Exception as error:
            return {**error_of(error), "when": "run"}


def records(case: dict[str, Any]) -> Any:
    p = case["params"]
    files = p.get("files") or [p["file"]]
    packed = p.get("compression", "")
    options = tf.python_io.TFRecordOptions(packed)
    result: dict[str, Any] = {"TFRecordDataset": [], "TFRecordReader": [], "tf_record_iterator": []}
    iterator = tf.data.TFRecordDataset(files, packed).make_initializable_iterator()
    names = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    step, read = iterator.get_next(), tf.TFRecordReader(options=options).read(names)
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        tf.train.start_queue_runners(sess)
        _rows(result["TFRecordDataset"], lambda: {"record": sess.run(step)}, 5)

        def keyed() -> Any:
            key, value = sess.run(read)
            return {"key": key, "record": value}

        _rows(result["TFRecordReader"], keyed, 3)
    for name in files:
        found = tf.python_io.tf_record_iterator(name, options)
        out: list[Any] = []
        _rows(out, lambda found=found: {"record": next(found)}, 1)  # type: ignore[misc]
        last = name == files[-1] or "error" in out[-1]
        result["tf_record_iterator"] += out if last else out[:-1]
        if last:
            break
    return result


def _rows(out: list[Any], step: Callable[[], dict[str, bytes]], errors: int) -> None:
    """Steps until the end, or as many errors."""
    while errors:
        try:
            out.append({key: value.decode("latin-1") for key, value in step().items()})
        except (tf.errors.OutOfRangeError, StopIteration) as end:
            out.append({"end": type(end).__name__})
            return
        except Exception as error:
            out.append(error_of(error))
            errors -= 1


def _handler(spec: dict[str, Any]) -> Any:
    options = dict(spec)
    kind = getattr(decoders, options.pop("handler"))
    if kind is decoders.BackupHandler:
        return kind(_handler(options["primary"]), _handler(options["backup"]))
    if kind is decoders.LookupTensor:
        table = tf.contrib.lookup.index_table_from_tensor(options.pop("vocab"), default_value=options.pop("oov", -1))
        return kind(options.pop("tensor_key"), table, **options)
    if kind is decoders.ItemHandlerCallback:
        how = options.get("func", "sum")
        return kind(options["keys"], lambda tensors: _callback(how, [tensors[k] for k in options["keys"]]))
    if "dtype" in options:
        options["dtype"] = tf.as_dtype(options["dtype"])
    return kind(**options)


def _callback(how: str, tensors: list[Any]) -> Any:
    dense = [tf.sparse_tensor_to_dense(t) if isinstance(t, tf.SparseTensor) else t for t in tensors]
    total = dense[0]
    for tensor in dense[1:]:
        total = total * tensor if how in ("mul", "product") else total + tensor
    return total


def _decoder(p: dict[str, Any]) -> Any:
    handlers = {name: _handler(spec) for name, spec in p["items"].items()}
    if "context" in p or "sequence" in p:
        context, sequence = features_of(p.get("context")), features_of(p.get("sequence"))
        return decoders.TFSequenceExampleDecoder(context, sequence, handlers)
    return decoders.TFExampleDecoder(features_of(p["features"]), handlers)


def slim_decode(case: dict[str, Any]) -> Any:
    p = case["params"]
    try:
        decoder = _decoder(p)
        items = p.get("get") or decoder.list_items()
        out = dict(zip(items, decoder.decode(tf.constant(_texts(p["serialized"])), items), strict=True))
    except Exception as error:
        return {**error_of(error), "when": "build"}
    with tf.Session() as sess:
        try:
            sess.run(tf.tables_initializer())
            values = sess.run(out)
        except Exception as error:
            return {**error_of(error), "when": "run"}
    digest = case["expect"].get("digest")
    if digest is None:
        return {"value": encode(values)}
    exact = any(item.get("dct_method") == "INTEGER_ACCURATE" for item in p["items"].values())
    near = {name: _near(values[name], wanted, 2 if exact else 8) for name, wanted in digest.items()}
    return {"value": case["expect"]["value"], "digest": near}


def _near(picture: Any, wanted: dict[str, Any], within: int) -> Any:
    """The digest itself, if the picture is like it: TensorFlow's decoder rounds in its own way."""
    flat = picture.reshape(-1)[: len(wanted["data"])].astype(int)
    same_form = list(picture.shape) == wanted["shape"] and picture.dtype.name == wanted["dtype"]
    if same_form and np.abs(flat - wanted["data"]).max() <= within:
        return wanted
    return {"shape": list(picture.shape), "dtype": picture.dtype.name, "data": flat.tolist()}


def slim_provider(case: dict[str, Any]) -> Any:
    from tests.conformance.tf_queues import run_steps

    p = case["params"]
    try:
        data = slim.dataset.Dataset(p["data_sources"], tf.TFRecordReader, _decoder(p), p.get("num_samples"), {})
        provider = slim.dataset_data_provider.DatasetDataProvider(data, **p.get("provider", {}))
        out: Any = provider.get(p["get"])
        if "batch" in p:
            out = tf.train.batch(out, **p["batch"])
        if "prefetch_queue" in p:
            parts = out if isinstance(out, list) else [out]
            out = slim.prefetch_queue.prefetch_queue(parts, **p["prefetch_queue"]).dequeue()
    except Exception as error:
        return {"build": error_of(error)}
    result = run_steps(out, {}, {"coordinator": True, "timeout_ms": 5000, **p})
    if p.get("unordered"):
        result["steps"].sort(key=str)
        want = sorted(case["expect"]["steps"], key=str)
        if result["steps"] == want:
            result["steps"] = case["expect"]["steps"]
    return {"list_items": sorted(provider.list_items()), "num_samples": provider.num_samples(), **result}
