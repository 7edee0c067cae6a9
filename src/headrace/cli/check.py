"""`headrace check`: reads all of a file, reports what is wrong with it, and sums it up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from headrace.cli import options
from headrace.cli.inputs import form_of, inputs_of, open_input
from headrace.cli.output import count, heading, line, print_json, table
from headrace.cli.reading import parts
from headrace.cli.records import RecordReport, examine_records
from headrace.cli.summary import StreamSummary
from headrace.formats.exchange import block_of
from headrace.formats.repeats import find_repeats
from headrace.formats.sequences import Parsed, ParseWarning, SequenceSource

LISTED = 100
"""Problems that are listed unless all are asked for."""

ALIKE = 5
"""Problems of one kind and stream that are listed for people, unless all are asked for."""

REPEATED = "repeated id"


def check(
    files: options.OptionalFiles = None,
    streams: options.Streams = "",
    config: options.Config = None,
    section: options.Section = "reader",
    base_dir: options.BaseDir = None,
    skip_ids: options.SkipIds = False,
    max_errors: Annotated[int | None, typer.Option(min=0, help="Problems that are tolerated.", metavar="N")] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Take warnings for problems, and sequences that lack a stream, as CNTK does."),
    ] = False,
    list_all: Annotated[bool, typer.Option("--all", help=f"List all problems, not {ALIKE} of a kind.")] = False,
    double: options.Double = False,
    from_: options.From = "",
    as_json: options.Json = False,
) -> int:
    """Read all of a file, report every problem in it, and sum it up.

    With --config and no files, each file that the configuration names is checked. Ends with 0
    if there are no more problems than --max-errors, else with 1. Of TFRecord files all checksums
    are looked at, and whether records are Examples; with --streams they are read as sequences.

    \b
    Examples:
      headrace check train.ctf --streams "x=sparse:1000000 label=dense:10,alias=y"
      headrace check --config reader.cntk
      headrace check 'train-*.tfrecord'
      headrace check 'part-*.ctf' --streams "x=dense:784" --max-errors 10 --json
    """  # noqa: D301  typer wants the character, not the backslash
    given = files or []
    found = inputs_of(given, from_, streams, config, section, skip_ids=skip_ids, double=double, base_dir=base_dir)
    found = [replace(one, require_all=strict) for one in found]
    limit = None if list_all else LISTED
    goods = []
    for number, one in enumerate(found):
        report: Report | RecordReport
        if form_of(one) == "tfrecord" and one.streams is None:
            report = examine_records(one.paths, limit)
        else:
            source = open_input(one)
            try:
                report = examine(source, strict=strict, limit=limit, alike=None if list_all or as_json else ALIKE)
            finally:
                source.close()
        tolerated = one.max_errors if max_errors is None else max_errors
        goods.append(report.problems <= tolerated)
        if as_json:
            print_json({"files": one.paths, "good": goods[-1], **report.to_json()})
            continue
        if number:
            line()
        if len(found) > 1:
            heading(", ".join(one.paths))
        report.show()
        line()
        allowed = f", {tolerated:,} tolerated" if tolerated else ""
        heading("good" if not report.problems else f"{count(report.problems, 'problem')}{allowed}")
    return 0 if all(goods) else 1


@dataclass
class Report:
    """What was found.

    Attributes:
        problems: How many.
        kinds: How many of each kind.
        listed: The first ones.
        dropped: Sequences that can't be used.
        warnings: What else was noticed, by kind, and how often.
        sequences: How many there are.
        summaries: Of each stream.
        limit: How many are listed; None for all.
        alike: How many of them of one kind and stream; None for all.
        groups: How many there are of each kind and stream.
    """

    sequences: int = 0
    problems: int = 0
    dropped: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    listed: list[dict[str, Any]] = field(default_factory=list)
    warnings: dict[str, ParseWarning] = field(default_factory=dict)
    summaries: list[StreamSummary] = field(default_factory=list)
    limit: int | None = LISTED
    alike: int | None = None
    groups: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    _told: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def add(self, kind: str, stream: str | None, times: int = 1) -> bool:
        """Counts problems of a kind and stream; tells whether they are to be listed, by the caller."""
        group = (kind, stream)
        self.problems += times
        self.kinds[kind] += times
        self.groups[group] += times
        wanted = self.limit is None or len(self.listed) < self.limit
        wanted = wanted and (self.alike is None or self._told[group] < self.alike)
        self._told[group] += wanted
        return wanted

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "sequences": self.sequences,
            "dropped": self.dropped,
            "problems": {"count": self.problems, "kinds": dict(self.kinds.most_common()), "listed": self.listed},
            "warnings": [{"kind": w.kind, "count": w.count, "first": w.message} for w in self.warnings.values()],
            "streams": [summary.to_json() for summary in self.summaries],
        }

    def show(self) -> None:
        """Prints it."""
        untold, left, told = self.problems, self.groups.copy(), Counter[tuple[str, str | None]]()
        for problem in self.listed:
            line(problem["message"])
            group = (problem["kind"], problem.get("stream"))
            told[group] += 1
            untold -= problem.get("times", 1)
            left[group] -= problem.get("times", 1)
            if told[group] == self.alike and left[group]:
                of = "" if group[1] is None else f" of stream '{group[1]}'"
                line(f"… and {left[group]:,} more of these ({group[0]}{of}); --all lists them")
                untold -= left[group]
        if untold:
            line(f"… and {untold:,} more; --all lists them")
        if self.problems:
            line()
            heading("Problems")
            table([(kind, f"{number:,}") for kind, number in self.kinds.most_common()])
            if self.dropped:
                line(f"  {count(self.dropped, 'sequence')} can't be used at all")
            line()
        for warning in self.warnings.values():
            line(f"warning: {warning.message}" + (f" ({warning.count:,} of this kind)" if warning.count > 1 else ""))
        if self.warnings:
            line()
        heading(count(self.sequences, "sequence"))
        for summary in self.summaries:
            summary.show()


def examine(
    source: SequenceSource, *, strict: bool = False, limit: int | None = LISTED, alike: int | None = None
) -> Report:
    """Reads a source from its first sequence to its last.

    Args:
        source: The sequences.
        strict: Take warnings for problems.
        limit: How many problems are listed; None for all.
        alike: How many of one kind and stream are; None for all.
    """
    summaries = [StreamSummary(stream) for stream in source.streams]
    report = Report(source.num_records, summaries=summaries, limit=limit, alike=alike)
    usable = np.ones(source.num_records, bool)
    for part in parts(source, "checking"):
        if part.parsed.dropped is not None:
            usable[part.first : part.first + part.records] = ~part.parsed.dropped
        _add_problems(report, source, part.first, part.parsed)
        block = block_of(np.empty(part.records, np.uint64), part.parsed)
        for summary in report.summaries:
            summary.add(block.columns[summary.stream.name])
        _add_warnings(report, part.parsed.warnings)
    report.dropped = int((~usable).sum())
    if not strict:  # which has told of each sequence
        _add_warnings(report, _without_samples(report.summaries))
    _add_repeated(report, source, np.flatnonzero(usable))
    if strict:
        for warning in report.warnings.values():
            if report.add(warning.kind, None, warning.count):
                problem = {"kind": warning.kind, "message": warning.message}
                report.listed.append(problem | ({"times": warning.count} if warning.count > 1 else {}))
        report.warnings = {}
    return report


def _add_problems(report: Report, source: SequenceSource, first: int, parsed: Parsed) -> None:
    keys = None
    for i, (row, times) in enumerate(zip(parsed.error_rows.tolist(), parsed.times.tolist(), strict=True)):
        place = parsed.place(i) if parsed.place else None
        kind, stream = (place.kind, place.stream) if place else ("malformed", None)
        if not report.add(kind, stream, times):
            continue
        if keys is None:
            keys = source.keys()
        file = source.where(first + row).rpartition(", line ")[0]
        problem: dict[str, Any] = {"kind": kind, "message": parsed.explain(i)}
        if times > 1:
            problem["times"] = times
        if file:
            problem["file"] = file
        if place:
            problem |= {"line": place.line, "column": place.column, "byte": place.byte, "stream": place.stream}
        report.listed.append({**problem, "sequence": int(keys[first + row])})


def _add_warnings(report: Report, warnings: Iterable[ParseWarning]) -> None:
    for warning in warnings:
        before = report.warnings.get(warning.kind)
        if before:
            warning = ParseWarning(warning.kind, before.count + warning.count, before.message)
        report.warnings[warning.kind] = warning


def _without_samples(summaries: Iterable[StreamSummary]) -> Iterable[ParseWarning]:
    """A stream that never occurs is legal, and nearly always a mistyped name."""
    names = [f"'{summary.stream.name}'" for summary in summaries if summary.sequences and not summary.samples]
    if names:
        message = (
            f"no sequence has a sample of {', '.join(names)}; a stream's name, or its alias, is what the file calls it "
            "(headrace infer shows the names in text)"
        )
        yield ParseWarning("stream without samples", len(names), message)


def _add_repeated(report: Report, source: SequenceSource, usable: NDArray[np.int64]) -> None:
    """Ids that come again after others: what a join by key can't tell apart."""
    ids = getattr(source, "ids", None)
    if ids is False:  # keys are numbers of lines, which begin anew in each file
        return
    if ids:  # the index knows them, also of sequences that can't be used
        usable = np.arange(source.num_records)
    keys = source.keys()[usable]
    again, before = find_repeats(keys)
    for number, (row, other) in enumerate(zip(again.tolist(), before.tolist(), strict=True)):
        if not report.add(REPEATED, None):
            report.add(REPEATED, None, len(again) - number - 1)
            break
        message = (
            f"{source.where(int(usable[row]))}: expected an id of its own for each sequence, got {keys[row]}, which "
            f"{source.where(int(usable[other]))} has too; give one of them another id, or put their lines together"
        )
        report.listed.append({"kind": REPEATED, "message": message, "sequence": int(keys[row])})
