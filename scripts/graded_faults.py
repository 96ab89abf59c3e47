#!/usr/bin/env python3
"""Show how small a seeded fault may be that verification still sees, by layer: a Markdown table.

    .venv/bin/python scripts/graded_faults.py           # some minutes
    .venv/bin/python scripts/graded_faults.py --write   # and record it

A seeded fault that differs from the right rewrite in float weights alone is tried in sizes of about 3, 30, 300, … times
what verification allows in the outputs. The table counts the faults by the smallest size that is seen.
`tests/verification/faults/smallest.json` records each; a test says that none of these gets worse.
The exit code is 1 if a layer needs a larger fault than was recorded.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter

import _environment  # noqa: F401 - first, for its message to users of another Python

from tests.verification.faults import graded
from tests.verification.faults.graded import LAYERS, SMALLEST, Seen


def main() -> int:
    """Print the table and what got worse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the sizes")
    arguments = parser.parse_args()
    recorded = graded.recorded() if SMALLEST.is_file() else {}
    rows: dict[str, dict[str, Seen]] = {}
    worse = 0
    for number, fault in enumerate(graded.faults()):
        if number % 10 == 0:
            print(f"{number} faults", file=sys.stderr)
        rows[fault.label] = row = graded.smallest(fault)
        for layer, (share, units) in recorded.get(fault.label, {}).items():
            if layer not in row or row[layer].share > share * graded.STEP / 2:
                now = f"{row[layer].units:g} units" if layer in row else "nothing"
                print(f"worse: {fault.label}, {layer}: {units:g} units were seen, now {now}", flush=True)
                worse += 1
    if arguments.write:
        SMALLEST.write_text(json.dumps(rows, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    _print_table(rows)
    return int(worse > 0)


def _print_table(rows: dict[str, dict[str, Seen]]) -> None:
    """Print how many faults are seen from which size on, rounded to a power of ten."""
    counts = {layer: Counter(_size(row.get(layer)) for row in rows.values()) for layer in LAYERS}
    sizes = sorted({size for count in counts.values() for size in count})
    print(f"\n| units | {' | '.join(LAYERS)} |\n|--:|{'--:|' * len(LAYERS)}")
    for size in sizes:
        name = "not seen" if math.isinf(size) else f"{3 * 10**size:g}"
        print(f"| {name} | {' | '.join(str(counts[layer][size]) for layer in LAYERS)} |")


def _size(seen: Seen | None) -> float:
    return math.inf if seen is None else round(math.log10(max(seen.units, 1e-9) / graded.FIRST))


if __name__ == "__main__":
    sys.exit(main())
