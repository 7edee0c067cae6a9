"""Runs TensorFlow's conformance cases of queues, pipelines, readers and coordinators."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from headrace import tf1 as tf
from headrace.tf1 import slim
from tests.conformance.tf_parse import features_of
from tests.conformance.tf_values import encode, error_of, value_of

BLOCKED = 300  # milliseconds after which a call is taken for blocked


def _call(work: Callable[[], Any]) -> Any:
    try:
        made = work()
    except tf.errors.DeadlineExceededError:
        return {"blocks": True}
    except Exception as error:
        return error_of(error)
    return {"ok": True} if made is None else {"value": encode(made)}


def _queue(p: dict[str, Any]) -> Any:
    kind = getattr(tf, p["queue"])
    args: dict[str, Any] = {"capacity": p["capacity"], "shapes": p["shapes"]}
    args["types" if kind is tf.PriorityQueue else "dtypes"] = [tf.as_dtype(d) for d in p["dtypes"]]
    args |= {k: p[k] for k in ("min_after_dequeue", "seed", "names", "shared_name") if k in p}
    return kind(**args)


def _components(queue: Any, args: list[Any]) -> Any:
    parts = [
        tf.convert_to_tensor(value_of({"dtype": d.name, "data": a}) if not isinstance(a, dict) else value_of(a), d)
        for a, d in zip(args, queue.dtypes, strict=False)
    ]
    return dict(zip(queue.names, parts, strict=True)) if queue.names else parts


def _queue_op(queue: Any, sess: Any, op: str, args: list[Any], limit: int) -> Any:
    options = tf.RunOptions(timeout_in_ms=limit)
    if op in ("enqueue", "enqueue_many"):
        given = args[0] if isinstance(args[0], list) else [args[0][name] for name in queue.names]
        return sess.run(getattr(queue, op)(_components(queue, given)), options=options)
    return sess.run(getattr(queue, op)(*args), options=options)


def queue_ops(case: dict[str, Any]) -> Any:
    try:
        queue = _queue(case["params"])
    except Exception as error:
        return {"build": error_of(error)}
    results: list[Any] = []
    pending: list[tuple[threading.Thread, list[Any]]] = []
    with tf.Session() as sess:
        graph = sess.graph
        for op, *args in case["params"]["ops"]:
            if op == "wait_pending":
                for thread, _ in pending:
                    thread.join(10)
                results.append([out[0] if out else {"pending": True} for _, out in pending])
                pending = []
            elif op.startswith("bg:"):
                out: list[Any] = []

                def work(op: str = op, args: list[Any] = args, out: list[Any] = out) -> None:
                    with graph.as_default():
                        out.append(_call(lambda: _queue_op(queue, sess, op[3:], args, 10_000)))

                thread = threading.Thread(target=work)
                thread.start()
                thread.join(0.5)
                results.append(out[0] if out else {"pending": True})
                if not out:
                    pending.append((thread, out))
            else:
                results.append(_call(lambda op=op, args=args: _queue_op(queue, sess, op, args, BLOCKED)))  # type: ignore[misc]
    for thread, _ in pending:
        thread.join(10)
    return {"results": results}


def shared_queue(case: dict[str, Any]) -> Any:
    capacities = case["params"]["capacity"]
    a, b = [tf.FIFOQueue(c, [tf.int32], [[]], shared_name="shared", name=f"q{i}") for i, c in enumerate(capacities)]
    enqueue, sizes = a.enqueue([1]), [b.size(), a.size()]
    with tf.Session() as one, tf.Session() as other:
        try:
            one.run(enqueue)
            first: Any = int(one.run(sizes[0]))
        except Exception as error:
            first = error_of(error)
        if isinstance(first, dict) and "error" in case["expect"]:
            return first
        return {"other_op_same_session": first, "same_op_other_session": int(other.run(sizes[1]))}


def runners_twice(case: dict[str, Any]) -> Any:
    """The numbers of threads made by the first call and the second, in the order in which the case has them."""
    p = case["params"]
    number = tf.train.range_input_producer(4, num_epochs=None, shuffle=False).dequeue()
    tf.train.batch([number], 2, num_threads=p.get("num_threads", 3))
    with tf.Session() as sess:
        coord = tf.train.Coordinator() if p.get("coordinator", True) else None
        counts = [len(tf.train.start_queue_runners(sess, coord)) for _ in range(2)]
        if coord is not None:
            coord.request_stop()
            coord.join()
    made = iter(counts)
    return {key: next(made, value) if type(value) is int else value for key, value in case["expect"].items()}


def _tensors(p: dict[str, Any]) -> tuple[list[Any], Any]:
    producer = dict(p["producer"])
    function = getattr(tf.train, producer.pop("fn"))
    if "tensors" in producer:
        producer["tensor_list"] = [value_of(t) for t in producer.pop("tensors")]
    for old, new in (("strings", "string_tensor"), ("rows", "input_tensor")):
        if old in producer:
            producer[new] = value_of(producer.pop(old))
    queue = function(**producer)
    if "reader" not in p:
        return (queue, None) if isinstance(queue, list) else ([queue.dequeue()], None)
    kwargs = dict(p["reader"].get("kwargs", {}))
    options = kwargs.pop("compression", kwargs.get("options"))
    if options is not None:
        kwargs["options"] = tf.python_io.TFRecordOptions(options)
    reader = getattr(tf, p["reader"]["class"])(**kwargs)
    count = p["reader"].get("read_up_to")
    return list(reader.read_up_to(queue, count) if count else reader.read(queue)), reader


def _pipeline(p: dict[str, Any]) -> tuple[Any, Any]:
    tensors, reader = _tensors(p)
    if "parse" in p:
        parsed = tf.parse_single_example(tensors[-1], features_of(p["parse"]["features"]))
        tensors = [parsed[key] for key in p["parse"]["take"]]
    if p.get("string_to_number"):
        tensors[-1] = tf.string_to_number(tensors[-1], tf.int32)
    if p.get("ragged_range"):
        tensors[-1] = tf.range(tensors[-1])
    if p.get("decode_raw"):
        tensors[-1] = tf.decode_raw(tensors[-1], tf.as_dtype(p["decode_raw"]))
    if p.get("keep_only"):
        tensors = [tensors[i] for i in p["keep_only"]]
    out: Any = tensors
    if "batch" in p:
        options = dict(p["batch"])
        function = options.pop("fn")
        given: Any = tensors
        if options.pop("dict", None):
            given = {f"c{i}": t for i, t in enumerate(tensors)}
        lists = options.pop("lists", 1)
        out = getattr(tf.train, function)([given] * lists if function.endswith("join") else given, **options)
    if "prefetch_queue" in p:
        parts = out if isinstance(out, list | dict) else [out]
        out = slim.prefetch_queue.prefetch_queue(parts, **p["prefetch_queue"]).dequeue()
    return out, reader


def run_steps(out: Any, extra: dict[str, Any], p: dict[str, Any]) -> dict[str, Any]:
    """Runs to the end, and gives the steps, how they ended, and what the counters say then."""
    result: dict[str, Any] = {"steps": []}
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
        coord = tf.train.Coordinator() if p.get("coordinator") else None
        if not any(p.get(key) for key in ("skip_runners", "no_runners", "skip_start")):
            tf.train.start_queue_runners(sess, coord)
        options = tf.RunOptions(timeout_in_ms=p.get("timeout_ms", 2000))
        limit = p.get("max_steps", 60)
        for step in itertools.count():
            if step >= limit:
                result["end"] = {"end": "max_steps"}
                break
            try:
                result["steps"].append(encode(sess.run(out, options=options)))
            except tf.errors.DeadlineExceededError:
                result["end"] = {"end": "blocks"}
                break
            except Exception as error:
                result["end"] = error_of(error)
                break
        result |= {key: int(sess.run(tensor)) for key, tensor in extra.items()}
        if coord is not None:
            coord.request_stop()
            try:
                coord.join(stop_grace_period_secs=10)
                result["coord_join"] = "ok"
            except Exception as error:
                result["coord_join"] = error_of(error)
    return result


def pipeline(case: dict[str, Any]) -> Any:
    p = case["params"]
    try:
        out, reader = _pipeline(p)
    except Exception as error:
        return {"build": error_of(error)}
    extra = {}
    if reader is not None:
        extra = {
            "num_records_produced": reader.num_records_produced(),
            "num_work_units_completed": reader.num_work_units_completed(),
        }
    return run_steps(out, extra, p)


def _error(name: str) -> BaseException:
    import builtins

    if hasattr(tf.errors, name):
        made: BaseException = getattr(tf.errors, name)(None, None, "made for the case")
        return made
    found: BaseException = getattr(builtins, name)("made for the case")
    return found


def coordinator(case: dict[str, Any]) -> Any:
    p = case["params"]
    kinds = p.get("clean_stop_exception_types")
    clean = None if kinds is None else [type(_error(name)) for name in kinds]
    coord = tf.train.Coordinator() if clean is None else tf.train.Coordinator(clean)
    threads: list[threading.Thread] = []

    def step(name: str, *args: Any) -> Any:
        if name in ("thread_until_stop", "thread_sleep", "thread_raise"):
            target: dict[str, Callable[[], Any]] = {
                "thread_until_stop": coord.wait_for_stop,
                "thread_sleep": lambda: time.sleep(args[0]),
                "thread_raise": lambda: coord.request_stop(_error(args[0])),
            }
            thread = threading.Thread(target=target[name], daemon=True, name="helper")
            if "register" in args:
                coord.register_thread(thread)
            else:
                threads.append(thread)
            thread.start()
        elif name == "join":
            coord.join(threads, **(args[0] if args else {}))
        elif name == "joined":
            return coord.joined
        elif name == "request_stop":
            coord.request_stop(_error(args[0]) if args else None)
        elif name == "request_stop_exc_info":
            try:
                raise _error(args[0])
            except BaseException:
                coord.request_stop(sys.exc_info())
        elif name == "stop_on_exception":
            with coord.stop_on_exception():
                raise _error(args[0])
            return "swallowed"
        else:
            return getattr(coord, name)(*args)
        return None

    results: list[Any] = []
    for name, *args in p["steps"]:
        try:
            made = step(name, *args)
            results.append("ok" if made is None else made)
        except BaseException as error:
            results.append({"raises": type(error).__name__})
    coord.request_stop()
    return {"results": results}
