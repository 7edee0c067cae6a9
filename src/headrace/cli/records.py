"""TFRecord files as they are: what `headrace check`, `head` and `index` say of records and Examples."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from headrace.batch.columns import Bytes, Ragged
from headrace.cli.output import count, heading, line, print_json, progress, table
from headrace.errors import DataError
from headrace.formats.example import ExampleSchema
from headrace.formats.example_infer import ExampleSurvey
from headrace.formats.features import Feature, VarLen
from headrace.formats.files import find_files
from headrace.formats.tfrecord import RecordReader, find_compression

_SHOWN = 12
_TEXT = 60
_BATCH = 256
_REMEDY = "copy or write the file again, or read it with recover='skip', which leaves this out"


@dataclass
class RecordReport:
    """What was found in TFRecord files.

    Attributes:
        records: Whole records.
        size: Bytes of their data.
        longest: Bytes of the longest.
        problems: How many.
        kinds: How many of each kind.
        listed: The first ones.
        survey: What the records hold; None if they are no Examples.
    """

    records: int = 0
    size: int = 0
    longest: int = 0
    problems: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    listed: list[dict[str, Any]] = field(default_factory=list)
    survey: ExampleSurvey | None = field(default_factory=ExampleSurvey)

    def add(self, limit: int | None, problem: dict[str, Any]) -> None:
        """One more problem."""
        self.problems += 1
        self.kinds[problem["kind"]] += 1
        if limit is None or len(self.listed) < limit:
            self.listed.append(problem)

    def show(self) -> None:
        """Prints it."""
        for problem in self.listed:
            line(problem["message"])
        if self.problems > len(self.listed):
            line(f"… and {self.problems - len(self.listed):,} more; --all lists them")
        if self.problems:
            line()
            heading("Problems")
            table([(kind, f"{number:,}") for kind, number in self.kinds.most_common()])
            line()
        line(f"{count(self.records, 'record')}, {count(self.size, 'byte')} of data, the longest {self.longest:,}")
        if self.survey is None:
            line("the records are no Examples; all checksums were looked at")
            return
        rows = [
            (seen.name + (" (list)" if seen.in_list else ""), seen.types, f"{seen.messages:,}", seen.values)
            for seen in self.survey.seen()
        ]
        if rows:
            heading("Features")
            table([("name", "type", "records", "values"), *rows])

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        features = self.survey.seen() if self.survey is not None else []
        return {
            "records": self.records,
            "bytes": self.size,
            "longest": self.longest,
            "problems": {
                "count": self.problems,
                "kinds": dict(self.kinds.most_common()),
                "listed": self.listed,
            },
            "examples": self.survey is not None,
            "features": [
                {
                    "name": seen.name,
                    "list": seen.in_list,
                    "type": seen.types,
                    "records": seen.messages,
                    "least": seen.least,
                    "most": seen.most,
                }
                for seen in features
            ],
        }


def examine_records(paths: Sequence[str], limit: int | None) -> RecordReport:
    """Reads files from front to back, looks at all checksums, and sums up what the Examples in them hold.

    Args:
        paths: The files.
        limit: How many problems are listed; None for all.
    """
    report = RecordReport()
    found = find_files(paths)
    with progress("checking", sum(os.path.getsize(path) for path in found)) as advance:
        for path in found:
            _examine(report, path, limit)
            advance(os.path.getsize(path))
    if report.survey is not None:
        for name, types in report.survey.mixed():
            message = f"feature {name!r}: expected values of one type, got {' and '.join(types)}; write it as one type"
            report.add(limit, {"kind": "feature of several types", "message": message, "feature": name})
    return report


def _examine(report: RecordReport, path: str, limit: int | None) -> None:
    reader = RecordReader(path, find_compression(path), skip=True, quiet=True)
    number = 0
    for batch in _batches(reader):
        report.records += len(batch)
        sizes = [len(data) for _, data in batch]
        report.size += sum(sizes)
        report.longest = max(report.longest, *sizes)
        start = 0
        while report.survey is not None and start < len(batch):
            bad, text = report.survey.add(Bytes.from_rows([data for _, data in batch[start:]]))
            if bad < 0:
                break
            if not report.survey.records:  # not one so far: these files hold something else
                report.survey = None
                break
            offset = batch[start + bad][0]
            message = f"{path}, record {number + start + bad} (at byte {offset}): {text}; write the record again"
            report.add(
                limit,
                {
                    "kind": "no Example",
                    "message": message,
                    "file": path,
                    "record": number + start + bad,
                    "byte": offset,
                },
            )
            start += bad + 1
        number += len(batch)
    for lost in reader.lost:
        kind = (
            "truncated" if lost.reason.startswith("truncated") else "packing" if lost.begin == lost.end else "damaged"
        )
        size = f" ({count(lost.end - lost.begin, 'byte')} can't be used)" if lost.end > lost.begin else ""
        message = f"{path}: {lost.reason}{size}; {_REMEDY}"
        report.add(
            limit, {"kind": kind, "message": message, "file": path, "byte": lost.begin, "bytes": lost.end - lost.begin}
        )


def _batches(reader: RecordReader) -> Iterator[list[tuple[int, bytes]]]:
    records = iter(reader)
    while batch := list(islice(records, _BATCH)):
        yield batch


# Showing -----------------------------------------------------------------------------------------------------------


def show_records(paths: Sequence[str], number: int, as_json: bool) -> None:
    """Prints the first records of files, Examples with their features.

    Raises:
        DataError: If a file is damaged there.
    """
    left = number
    for path in find_files(paths):
        for i, (offset, data) in enumerate(islice(iter(RecordReader(path, find_compression(path))), left)):
            left -= 1
            features, lists = values_of(data)
            if as_json:
                _print_record(i, offset, data, features, lists)
                continue
            heading(f"record {i} (at byte {offset}, {count(len(data), 'byte')})")
            if features is None:
                line(f"  {_bytes(data)}")
                continue
            for name, value in features.items():
                line(f"  {name}: {_values(value)}")
            for name, steps in (lists or {}).items():
                line(f"  {name}: {count(len(steps), 'step')}")
                for step in range(min(len(steps), _SHOWN)):
                    line(f"    {_values(steps[step])}")
                if len(steps) > _SHOWN:
                    line(f"    … {count(len(steps) - _SHOWN, 'more step')}")
        if not left:
            return


def values_of(data: bytes) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The features of a message, and its feature lists; None for both if it is no Example."""
    message = Bytes.from_rows([data])
    survey = ExampleSurvey()
    if survey.add(message)[0] >= 0 or not survey.seen() or survey.mixed():
        return None, None
    context: dict[str, Feature] = {}
    lists: dict[str, Feature] = {}
    for seen in survey.seen():
        if seen.types:
            (lists if seen.in_list else context)[seen.name] = VarLen(seen.types)
    # Apart, since a name may be used in both; and in the order in which the message has them.
    own = ExampleSchema(context).columns(message) if context else {}
    stepped = ExampleSchema({}, lists).columns(message) if lists else {}
    return {name: own[name][0] for name in context}, {name: stepped[name][0] for name in lists}


def _values(values: Any) -> str:
    if isinstance(values, Bytes):
        texts = [_bytes(values.bytes_at(i)) for i in range(min(len(values), _SHOWN))]
    else:
        texts = [str(value).removesuffix(".0") for value in values[:_SHOWN]]
    more = f" … {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
    return (" ".join(texts) if texts else "(nothing)") + more


def _bytes(data: bytes) -> str:
    """A text as such; other bytes by their beginning."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and (text or not data):
        return f"'{text}'" if len(text) <= _TEXT else f"'{text[:_TEXT]}…' ({count(len(data), 'byte')})"
    return f"{data[:8]!r}{'…' if len(data) > 8 else ''} ({count(len(data), 'byte')})"


def _print_record(number: int, offset: int, data: bytes, features: Any, lists: Any) -> None:
    told: dict[str, Any] = {"record": number, "byte": offset}
    if features is None:
        print_json({**told, "data": _plain(data)})
        return
    told["features"] = {name: _plain(value) for name, value in features.items()}
    if lists:
        told["lists"] = {name: [_plain(steps[i]) for i in range(len(steps))] for name, steps in lists.items()}
    print_json(told)


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes that are no text as an object that says so, what is no number as null."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, np.floating):
        return float(str(value)) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, (Bytes, Ragged, np.ndarray)):
        return [_plain(value[i]) for i in range(len(value))]
    raise DataError(f"expected values of an Example, got {value!r:.60}")
