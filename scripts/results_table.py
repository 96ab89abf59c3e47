#!/usr/bin/env python
"""Print bnfold's result on every model of a folder, a line each, so that two versions can be compared with diff.

    .venv/bin/python scripts/results_table.py CORPUS --package OTHER_CHECKOUT >before.tsv
    .venv/bin/python scripts/results_table.py CORPUS >after.tsv
    diff before.tsv after.tsv

Columns: the file, the options, BatchNormalizations before and after, the verdict, the start of the output's sha256,
and the report's result for each kind of BatchNormalization. The last column is a digest of the report's rows, notes
and names: it differs if any of them does. Everything runs in one process, one model after the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from _environment import CORPUS, ROOT, require_models

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "wide": {"overridable": "freeze", "all_affines": True, "max_growth": 1 << 30},
}


def main() -> int:
    """Print the table; exit code 1 if a model ended in anything but a result or a BnfoldError."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", default=[CORPUS], metavar="PATH", help="files and folders")
    parser.add_argument("--package", type=Path, default=ROOT, metavar="CHECKOUT", help="whose bnfold to run")
    parser.add_argument("--verify", choices=("none", "local", "auto"), default="none", help="how (none)")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.package.resolve()))
    found = {top: require_models([top], sought=f"model in {top}") for top in arguments.paths}
    print("file", "options", "before", "left", "verdict", "sha256", "reasons", "report", sep="\t")
    crashes = 0
    for top, paths in found.items():
        for path in paths:
            for name in OPTIONS:
                row = _row(path, name, arguments.verify)
                crashes += row[2] == "CRASH"
                print(path.relative_to(top) if top.is_dir() else path.name, name, *row, sep="\t", flush=True)
    return int(crashes > 0)


def _row(path: Path, options: str, depth: str) -> list[str]:
    import bnfold  # after --package has decided which bnfold it is

    try:
        checks: Any = bnfold.VerifyOptions(depth=depth)  # type: ignore[arg-type] # one of the choices
        outcome = bnfold.optimize(path, options=bnfold.Options(**OPTIONS[options]), verify=checks)
        encoded = outcome.to_proto().SerializeToString(deterministic=True)
    except bnfold.BnfoldError as error:
        return ["-", "-", type(error).__name__, "-", str(error).replace(str(path), "FILE").replace("\n", " "), "-"]
    except Exception as error:  # noqa: BLE001 - a crash is a result to compare too
        return ["-", "-", "CRASH", "-", f"{type(error).__name__}: {error}".replace("\n", " "), "-"]
    rows = outcome.report.to_json()["batchnorms"]
    left = len(outcome.left(frozenset({"BatchNormalization"})))
    kinds = Counter(f"{row['verdict']} {row['reason'] or ''}".strip() for row in rows)
    reasons = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    verdict = outcome.verdict.status if outcome.verdict is not None else "-"
    report = json.dumps(outcome.report.to_json(), sort_keys=True, default=str)
    return [str(len(rows)), str(left), verdict, _digest(encoded), reasons or "-", _digest(report.encode())]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
