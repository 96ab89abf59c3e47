"""The table at the end of a run: the model before and after, in plain lines that need no terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bnfold.errors import printable
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.rewrites import BIT_FOR_BIT, UP_TO_ROUNDING
from bnfold.report.totals import Products, Totals, changed, size

if TYPE_CHECKING:
    from bnfold.pipeline.chain import StepRow
    from bnfold.pipeline.outcome import Outcome

MOST = 5
"""Operators whose count changed, without --verbose."""
_NO_NAMES = ("none", "null", "nan", "undefined")
"""What exporters write for the name of a dynamic size that has none."""
_NAMED = 3
"""BatchNormalizations of one reason that are named."""
Row = tuple[str, str, str, str]


def lines(report: Report, *, verbose: bool, written: int | None = None) -> Iterator[str]:
    """Yield the rows under a head, in columns that are as wide as they have to be; ``written`` are bytes of files."""
    rows = [*_rows(report, verbose=verbose)]
    if report.size_before is not None and written is not None:
        rows.append(("file size", size(report.size_before), size(written), ""))
    yield from _aligned([("", "before", "after", ""), *rows, *_latency(report)])
    yield from conversion(report, verbose=verbose)


def _latency(report: Report) -> Iterator[Row]:
    measured = report.latency
    if measured is None:
        return
    if measured["error"]:
        yield "latency", "unknown", "unknown", printable(measured["error"])
        return
    before, after = (f"{measured[when] * 1000:.3g} ms" for when in ("before", "after"))
    ratio = f"× {measured['ratio']:.3f} in {measured['runtime']}, 1 thread"  # noqa: RUF001 - it is one
    yield "latency", before, after, f"{ratio}: the median ratio of {measured['rounds']} pairs of runs"


def steps(before: Totals, rows: Sequence[StepRow]) -> Iterator[str]:
    """Yield the model as it came, and after each step that was kept."""
    yield from _aligned(
        [
            ("", "nodes", "BatchNormalization", "weights", "multiply-adds", "opset", "time", ""),
            ("original", *_counts(before), "", ""),
            *((row.name, *_counts(row.totals), f"{row.seconds:.2f} s", row.status) for row in rows),
        ]
    )


def _counts(totals: Totals | None) -> tuple[str, ...]:
    if totals is None:
        return ("-",) * 5
    constants = f" ({totals.without_constants} without Constant)" if totals.without_constants < totals.nodes else ""
    named = f"{totals.nodes}{constants}", str(totals.batchnorms), size(totals.weights), products(totals.products)
    return *named, str(totals.opset or "-")


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield columns as wide as they have to be, numbers to the right, the first and the last to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *numbers, last in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(numbers, widths[1:-1], strict=True))
        yield "  ".join([f"{first:<{widths[0]}}", *cells, last]).rstrip()


def nothing_to_do(outcome: Outcome) -> str:
    """Return that there was nothing to do, why, and what was written; empty if anything changed or is left."""
    report, options = outcome.report, outcome.options
    same = (report.opset_before, report.ir_before, report.before) == (report.opset_after, report.ir_after, report.after)
    changed_names = report.renamed or report.removed_names or report.frozen or report.fixed
    changes = (
        report.batchnorms or report.repairs or report.cuts or report.simplified or report.channels or changed_names
    )
    if not same or changes or outcome.steps:
        return ""
    folds = options.fold or options.decompose != "never"
    why = ["it has no BatchNormalization"] if folds else []
    if report.has_opset and options.target_opset != "keep":
        why.append(f"its opset {report.opset_after} stays")
    if not why:
        return ""
    copy = f". {outcome.output} is a copy of it" if outcome.output is not None else ""
    return f"nothing to do in this model: {' and '.join(why)}{copy}"


def conversion(report: Report, *, verbose: bool = False) -> Iterator[str]:
    """Yield what a conversion made of the operators, and how low the opset can go."""
    rows = report.conversion if verbose or report.opset_after < report.opset_before else []
    changed_rows = [row for row in rows if row["respelled"] or row["spelled_out"]]
    if changed_rows:
        shown = changed_rows if verbose else sorted(changed_rows, key=_changed_nodes)[-MOST:][::-1]
        more = (
            f"; {len(changed_rows) - len(shown)} more operators (--verbose)" if len(shown) < len(changed_rows) else ""
        )
        as_is = sum(row["as_is"] for row in rows)
        met, left = as_is + sum(row["respelled"] for row in rows), report.after.nodes
        later = f" (counted before the last rewrites, which left {left} of all nodes)" if met > left else ""
        yield f"converted: {'; '.join(map(_converted, shown))}{more}; {as_is} node{'s' * (as_is != 1)} as is{later}"
    if report.lowest is not None:
        why = f"; {report.lowest['below']}" if report.lowest["below"] else ""
        yield f"lowest opset for this model: {report.lowest['opset']}{why}"


def _changed_nodes(row: Mapping[str, Any]) -> int:
    return int(row["respelled"] + row["spelled_out"])


def _converted(row: Mapping[str, Any]) -> str:
    counts = [f"{row[what]} {word}" for what, word in (("as_is", "as is"), ("respelled", "converted")) if row[what]]
    if row["spelled_out"]:
        counts.append(f"{row['spelled_out']} decomposed (+{row['added']} nodes)")
    return f"{row['operator']} {', '.join(counts)}"


def equality(report: Report, *, verbose: bool = False) -> Iterator[str]:
    """Yield which rewrites are equal up to rounding only, by title and name; or that all are equal bit for bit."""
    made = report.rewrites
    rounding = [f"{row.rewrite.title} ×{row.count} [{row.rewrite.name}]" for row in made if row.rewrite.rounds]  # noqa: RUF001
    if rounding:
        others = "; the other rewrites are equal bit for bit" if len(rounding) < len(made) else ""
        if len(rounding) > MOST and not verbose:
            more_kinds = len(rounding) - MOST
            rounding[MOST:] = [f"{more_kinds} more kind{'s' * (more_kinds > 1)} (--verbose)"]
        yield f"{UP_TO_ROUNDING}: {', '.join(rounding)}{others}"
    elif made:
        yield f"every rewrite is {BIT_FOR_BIT}"


def left(report: Report) -> Iterator[str]:
    """Yield a line for each reason why some remain: how many, the first names, the nodes in the way."""
    groups: dict[tuple[str, str, bool], list[BatchNormEvent]] = {}
    for event in report.batchnorms:
        if event.reason is not None:
            kind = event.reason.code, event.brief or event.reason.value, event.is_affine
            groups.setdefault(kind, []).append(event)
    most_first = sorted(groups.items(), key=lambda group: -len(group[1]))
    for (code, brief, is_affine), events in most_first[:MOST]:
        first, names = events[0], [event.name for event in events[:_NAMED]]
        more = f" and {len(events) - _NAMED} more" if len(events) > _NAMED else ""
        is_short = first.reason is None or brief != first.reason.value
        why = brief if is_short else first.why if len(events) == 1 else f"{brief}{_example(first)}"
        what = f" affine{'s' * (len(events) > 1)}" if is_affine else ""
        yield f"{len(events)}{what} left: {', '.join(names)}{more}: {why} [{code}]"
    if rest := sum(len(events) for _, events in most_first[MOST:]):
        yield f"{rest} left for other reasons (--verbose or `bnfold inspect` has them all)"


def codes(report: Report) -> list[str]:
    """Return the codes of the reasons why BatchNormalizations remain, each once."""
    return [*dict.fromkeys(event.reason.code for event in report.batchnorms if event.reason is not None)]


def advice(found: Sequence[str], *, hint: bool = True) -> Iterator[str]:
    """Yield what can be done about each reason, and with ``hint`` the command that says more."""
    from bnfold.report.advice import ADVICE
    from bnfold.report.reasons import Reason

    for code in found:
        remedy = ADVICE[Reason.of(code)].remedy
        yield f"What to do about {code}: {remedy[0].lower()}{remedy[1:]}"
    yield from more(found) if hint else ()


def more(found: Sequence[str]) -> Iterator[str]:
    """Yield the command that explains the first of these reasons, if there is one."""
    yield from (f"`bnfold explain {code}` says more about this reason" for code in found[:1])


def _example(event: BatchNormEvent) -> str:
    return f" (of the first: {event.detail})" if event.detail else ""


def products(counted: Products | None) -> str:
    """Return multiply-adds in a unit that people read, times the sizes that are open."""
    if counted is None:
        return "unknown"
    count: float = counted.count
    for unit in ("", " k", " M", " G", " T"):
        if count < 1000 or unit == " T":
            break
        count /= 1000
    text = f"{count:.0f}" if not unit else f"{count:.3g}{unit}"
    named = [name for name in counted.sizes if any(map(str.isalpha, name)) and name.lower() not in _NO_NAMES]
    open_sizes = len(counted.sizes) - len(named)
    unnamed = ["a dynamic size" if open_sizes == 1 else f"{open_sizes} dynamic sizes"] if open_sizes else []
    return " × ".join((text, *map(printable, named), *unnamed))  # noqa: RUF001 - it is one


def _initializers(lifted: int) -> str:
    return f"{lifted} became {'an initializer' if lifted == 1 else 'initializers'}" if lifted else ""


def _operators(report: Report, *, verbose: bool) -> Iterator[Row]:
    for row in report.normalizations:
        yield f"  {row.name}", str(row.before), str(row.after), row.where or ("" if row.before else "none in the model")
    others = changed(report.before, report.after)
    others.pop("BatchNormalization", None)
    if "Constant" in others:
        old, new = others.pop("Constant")
        yield "  Constant", str(old), str(new), _initializers(report.lifted)
    shown = [*others.items()][: None if verbose else MOST]
    for name, (old, new) in shown:
        yield f"  {name}", str(old), str(new), ""
    if len(shown) < len(others):
        yield f"  {len(others) - len(shown)} more operators (--verbose)", "", "", ""


def channels(report: Report, *, verbose: bool) -> Iterator[Row]:
    """Yield the channels of layers that lost some, before and after, and which layers these are."""
    rows = report.channels
    if rows:
        named = [f"{row.name} {row.change}" for row in (rows if verbose else rows[:MOST])]
        more = [f"{len(rows) - len(named)} more layers (--verbose)"] if len(named) < len(rows) else []
        before, after = sum(row.before for row in rows), sum(row.after for row in rows)
        yield "channels", str(before), str(after), printable(", ".join([*named, *more]))


def _rows(report: Report, *, verbose: bool) -> Iterator[Row]:
    before, after = report.before, report.after
    if report.has_opset:
        yield "opset", str(report.opset_before), str(report.opset_after), ""
    yield "IR version", str(report.ir_before), str(report.ir_after), ""
    yield "nodes", str(before.nodes), str(after.nodes), report.simplifications(most=None if verbose else MOST)
    if (before.nodes, after.nodes) != (before.without_constants, after.without_constants):
        yield "  without Constant", str(before.without_constants), str(after.without_constants), ""
    yield from _operators(report, verbose=verbose)
    yield "weights", size(before.weights), size(after.weights), ""
    if before.products or after.products:
        yield "multiply-adds", products(before.products), products(after.products), ""
    yield from channels(report, verbose=verbose)
    for name, (was, made) in report.fixed.items():
        yield f"input {printable(name)}", printable(was), made, ""
    for name, old, new in (("inputs", before.inputs, after.inputs), ("outputs", before.outputs, after.outputs)):
        if old != new:
            yield name, str(old), str(new), ""
