"""Names that are gone or new, from the first model to the last: rewrites in between make some that neither has."""

from __future__ import annotations

from bnfold import ir
from bnfold.report.events import Report


def compare_names(report: Report, model: ir.Model) -> None:
    """Leave out the names of values that neither the original nor ``model``, the result, has."""
    before, after = report.names_before, [graph.values for graph in model.graphs()]
    last = {old: _last_name(old, report) for old in report.renamed if old in before}
    there = {new for new in last.values() if new not in before and any(new in names for names in after)}
    report.renamed = {old: new for old, new in last.items() if new in there}
    report.removed_names = sorted(set(before).difference(*after, report.renamed))


def _last_name(name: str, report: Report) -> str:
    passed = set()
    while name in report.renamed and name not in passed:
        passed.add(name)
        name = report.renamed[name]
    return name
