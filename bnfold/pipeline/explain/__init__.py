"""What a report says beyond the events: facts read off the model before and the model after, as plain data.

Nothing here runs unless a report was asked for, and nothing here is needed to rewrite a model.
"""

from __future__ import annotations

from typing import Any

from bnfold import ir
from bnfold.pipeline.explain import neighbourhood, parameters, scales
from bnfold.report.events import Report
from bnfold.semantics import Policy

__all__ = ["explain"]


def explain(before: ir.Model, after: ir.Model, report: Report, policy: Policy) -> dict[str, Any]:
    """Return the parts of the report's JSON that need both models.

    ``before`` is the model as it came, freshly loaded; ``after`` the rewritten one. Returns ``batchnorms`` (a dict for
    each event, in the report's order, to be merged into its row) and ``scales``.
    """
    after.sync()
    views = neighbourhood.Views(before, after, report.cuts, report.renamed)
    rows: list[dict[str, Any]] = []
    seen = []
    for event in report.batchnorms:
        node = views.node_of(event)
        if node is None:  # an earlier rewrite made it: the file itself has no such node
            rows.append({"parameters": None, "affine": None, "policies": [], "drawing": None})
            continue
        facts, affine = parameters.describe(node, policy)
        seen += [affine[0]] if affine is not None else []
        rows.append({**facts, "drawing": views.drawing(event, node)})
    return {"batchnorms": rows, "scales": scales.distribution(seen)}
