"""Names that are gone or new, from the first model to the last: rewrites in between make some that neither has."""

from __future__ import annotations

from collections.abc import Collection

from bnfold.report.events import Report


def compare_names(report: Report, after: Collection[str]) -> None:
    """Leave out the names of values that neither the original nor the result has; ``after`` are the result's."""
    renamed = {}
    for old in report.renamed.keys() & report.names_before:
        new = _last_name(old, report)
        if new in after and new not in report.names_before:
            renamed[old] = new
    report.renamed = renamed
    report.removed_names = sorted(report.names_before.difference(after, renamed))


def _last_name(name: str, report: Report) -> str:
    passed = set()
    while name in report.renamed and name not in passed:
        passed.add(name)
        name = report.renamed[name]
    return name
