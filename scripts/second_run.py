#!/usr/bin/env python
"""Find results that a second run changes, and targets that two commands reach better than one: a line each.

    .venv/bin/python scripts/second_run.py FOLDER
    .venv/bin/python scripts/second_run.py FOLDER --package OTHER_CHECKOUT --opset 9 keep

For each file and each `--opset` of `bnfold optimize`: the nodes of the result, whether a run on the result changes a
byte, and what two commands leave, `optimize` and then `convert`, where the opset is a number. Nothing is verified. Each
line of the table names what is wrong with a file: ``again`` (the second run differs: nodes of both runs), ``more`` (one
command leaves more nodes: nodes of one, nodes of two), ``refused`` (one command refuses what two convert) or ``crash``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _environment import CORPUS, ROOT, require_models

if TYPE_CHECKING:
    pass

OPSETS = ("default", "9", "11", "13", "keep")


def main() -> int:
    """Print the table and the totals; exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", default=[CORPUS], metavar="PATH", help="files and folders")
    parser.add_argument("--opset", nargs="+", default=OPSETS, metavar="N", help=f"targets ({' '.join(OPSETS)})")
    parser.add_argument("--package", type=Path, default=ROOT, metavar="CHECKOUT", help="whose bnfold to run")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.package.resolve()))
    tops = [*arguments.paths]
    print("opset", "what", "first", "second", "file", sep="\t")
    totals: Counter[tuple[str, str]] = Counter()
    for path in require_models(tops, sought=f"model in {', '.join(map(str, tops))}"):
        for opset in arguments.opset:
            for what, *figures in _rows(path, opset):
                totals[opset, what] += 1
                if figures:
                    print(opset, what, *figures, path, sep="\t", flush=True)
    for opset in arguments.opset:
        counts = {what: totals[opset, what] for what in ("results", "again", "more", "fewer", "refused", "crash")}
        print(f"# {opset}:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    return int(any(what in ("again", "more", "refused", "crash") for _, what in totals))


def _rows(path: Path, opset: str) -> list[tuple[str, ...]]:
    """Return what is found for one file and target: a name, and two figures where it is wrong."""
    target = None if opset == "default" else int(opset) if opset.isdigit() else opset
    rows: list[tuple[str, ...]] = []
    try:
        one = _run(path, target)
        two = _run(_run(path, None), target, convert=True) if isinstance(target, int) else None
        if one is None:
            return [("refused", "-", str(_nodes(two)))] if two is not None else []
        again = _run(one, target)
    except Exception as error:  # noqa: BLE001 - a crash is a result too
        return [("crash", type(error).__name__, str(error).replace("\n", " ")[:80])]
    rows.append(("results",))
    if again != one:
        rows.append(("again", str(_nodes(one)), str(_nodes(again))))
    if two is not None and _nodes(one) > _nodes(two):
        rows.append(("more", str(_nodes(one)), str(_nodes(two))))
    if two is not None and _nodes(one) < _nodes(two):
        rows.append(("fewer",))
    return rows


def _run(source: Path | bytes | None, target: Any, *, convert: bool = False) -> bytes | None:
    """Return the encoded result; None where the source is, or is refused."""
    import bnfold

    if source is None:
        return None
    checks = bnfold.VerifyOptions(depth="none")
    try:
        if convert:
            outcome = bnfold.convert(source, opset=target, verify=checks)
        else:
            outcome = bnfold.optimize(source, target_opset=target, verify=checks)
    except bnfold.BnfoldError:
        return None
    encoded: bytes = outcome.to_proto().SerializeToString(deterministic=True)
    return encoded


def _nodes(encoded: bytes | None) -> int:
    """Return how many nodes an encoded model has, in all of its graphs."""
    from bnfold import ir
    from bnfold.report import totals

    return totals.count(ir.load(encoded)).nodes if encoded is not None else -1


if __name__ == "__main__":
    sys.exit(main())
