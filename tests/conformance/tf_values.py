"""How values and errors of TensorFlow's conformance cases are written, and when two are the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace import tf1 as tf


def value_of(spec: Any) -> Any:
    """An array from `{"dtype", "data"}`; strings are bytes."""
    if not isinstance(spec, dict):
        return spec
    data = spec["data"]
    if spec["dtype"] == "string":
        flat = np.asarray(data, object)
        made = np.empty(flat.size, object)
        made[:] = [x.encode("latin-1") for x in flat.reshape(-1).tolist()]
        return made.reshape(spec.get("shape", flat.shape))[()]
    return np.asarray(data, spec["dtype"])


def encode(x: Any) -> Any:
    """A result in the form of the cases."""
    if isinstance(x, tf.SparseTensorValue):
        return {
            "sparse": {
                "indices": np.asarray(x.indices).tolist(),
                "values": encode(x.values),
                "dense_shape": np.asarray(x.dense_shape).tolist(),
            }
        }
    if isinstance(x, tf.RaggedTensorValue):
        return {"ragged": {"values": encode(x.values), "row_splits": np.asarray(x.row_splits).tolist()}}
    if isinstance(x, dict):
        return {"dict": {key: encode(value) for key, value in x.items()}}
    if isinstance(x, list | tuple):
        return {"tuple": [encode(value) for value in x]}
    if isinstance(x, bytes | str):
        x = np.array(x, object)
    a = np.asarray(x)
    if a.dtype.kind in "OSU":
        flat = [v.decode("latin-1") if isinstance(v, bytes) else v for v in a.reshape(-1).tolist()]
        return {"dtype": "string", "shape": list(a.shape), "data": flat}
    plain = [str(v) if isinstance(v, float) and not np.isfinite(v) else v for v in a.reshape(-1).tolist()]
    return {"dtype": a.dtype.name, "shape": list(a.shape), "data": plain}


def error_of(error: BaseException) -> dict[str, str]:
    return {"error": type(error).__name__, "message": str(error)}


LOOSE = ("tf_message", "message", "when")


def same(expected: Any, got: Any) -> bool:
    """Whether a result is the one expected; messages don't count."""
    if isinstance(expected, dict) and isinstance(got, dict):
        if expected.get("dtype") == got.get("dtype") == "string" and expected.get("shape") == got.get("shape") == []:
            # Single strings were recorded through NumPy, which drops NULs at their end; they are kept here.
            return bool(expected["data"][0] in (got["data"][0], got["data"][0].rstrip("\0")))
        left = {k: v for k, v in expected.items() if k not in LOOSE}
        right = {k: v for k, v in got.items() if k not in LOOSE}
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(same(a, b) for a, b in zip(expected, got, strict=True))
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, float) or isinstance(got, float):
        try:
            return bool(np.float64(expected) == np.float64(got) or (expected == got == "nan"))
        except (TypeError, ValueError):
            return False
    return bool(expected == got)
