"""What `headrace infer` says of TFRecord files: the features of their Examples, as Python that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace import FixedLen, FixedLenSequence, infer_sequence_example
from headrace.cli.output import line, print_json
from headrace.formats.features import Feature

_BEGINNING = 1000


def infer_features(path: str, all_: bool, as_json: bool) -> int:
    """Looks at the first records of a file, or at all, and prints the features.

    Raises:
        DataError: If a record is no Example, or a feature is of different types.
    """
    context, lists = infer_sequence_example(path, records=1 << 62 if all_ else _BEGINNING)
    if as_json:
        told = {"features": _told(context), **({"lists": _told(lists)} if lists else {})}
        print_json({"file": path, **told, "python": _call(path, context, lists)})
        return 0
    if not all_:
        line(f"# by the first {_BEGINNING} records at most; others may differ")
    line("import headrace as hr\n")
    line(_call(path, context, lists))
    return 0


def _call(path: str, context: Mapping[str, Feature], lists: Mapping[str, Feature]) -> str:
    parse = f"parse_sequence_example({_dict(context)}, {_dict(lists)})" if lists else f"parse_example({_dict(context)})"
    return f"data = hr.read_tfrecord({path!r}).{parse}"


def _dict(features: Mapping[str, Feature]) -> str:
    if not features:
        return "{}"
    return "{\n" + "".join(f"    {name!r}: {_python(feature)},\n" for name, feature in features.items()) + "}"


def _python(feature: Any) -> str:
    shape = f"{feature.shape!r}, " if isinstance(feature, (FixedLen, FixedLenSequence)) else ""
    missing = ", allow_missing=True" if getattr(feature, "allow_missing", False) else ""
    return f"hr.{type(feature).__name__}({shape}{feature.dtype!r}{missing})"


def _told(features: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            "kind": type(feature).__name__,
            "dtype": feature.dtype,
            **({"shape": list(feature.shape)} if hasattr(feature, "shape") else {}),
        }
        for name, feature in features.items()
    }
