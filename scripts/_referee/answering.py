"""Verify pairs of models for `scripts/verdicts.py`: a process in one checkout, a line of JSON for each request.

python _referee/answering.py CHECKOUT
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Answer until the input ends. What runtimes print goes to standard error."""
    sys.path.insert(0, sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    from bnfold import ir, verification

    try:
        cuts = [ir.Cut(graph, tuple(reads), tuple(makes), label) for graph, reads, makes, label in asked["cuts"]]
        verdict = verification.verify(
            asked["before"],
            asked["after"],
            cuts=cuts,
            frozen=asked["frozen"],
            depth=asked["depth"],
            runtime=asked["runtime"],
            budget_seconds=asked["seconds"],
        )
    except Exception as error:  # noqa: BLE001 - it is what this version says
        return {"status": type(error).__name__, "decided_by": "", "reason": str(error)}
    return {"status": verdict.status, "decided_by": verdict.decided_by, "reason": verdict.reason}


if __name__ == "__main__":
    main()
