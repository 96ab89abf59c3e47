#!/usr/bin/env python
"""Attack bnfold for a while, and keep each failing input as a small file that a test replays.

    .venv/bin/python scripts/fuzz --mode bytes --seconds 60 --corpus build/corpus/bytes
    .venv/bin/python scripts/fuzz --mode fold --count 20000 --seed 1
    .venv/bin/python scripts/fuzz --mode graphs --replay tests/findings/graphs/0123456789

docs/fuzzing.md says what each mode draws and what counts as a finding.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # a folder that is run stands there itself

from _environment import ROOT

from fuzz import atheris_
from fuzz.campaign import Campaign

MODES = (
    "bytes",
    "graphs",
    "upgrade",
    "convert",
    "fold",
    "affines",
    "optimize",
    "decompose",
    "sizes",
    "verify",
    "faults",
)


def main() -> int:
    """Run the mode; exit code 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="fold")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--count", type=int, help="cases to draw  [default: 1000, or no limit with --seconds]")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; case i has seed + i")
    parser.add_argument(
        "--corpus", type=Path, help="keep a case of every new behaviour here, and start from those kept"
    )
    parser.add_argument("--keep", type=Path, default=ROOT / "tests" / "findings", help="where findings go")
    parser.add_argument("--replay", type=Path, help="judge one kept case, a folder or a model, and nothing else")
    parser.add_argument(
        "--unguided", action="store_true", help="mode bytes: without atheris, even where it is installed"
    )
    arguments = parser.parse_args()
    started = time.monotonic()
    count = arguments.count or (1000 if arguments.seconds == float("inf") else sys.maxsize - arguments.seed)
    with Campaign(arguments.mode, corpus=arguments.corpus, keep=arguments.keep) as campaign:
        if arguments.replay:
            print(campaign.replay(arguments.replay.resolve()) or "no finding")
        elif arguments.mode == "bytes" and atheris_.is_there() and not arguments.unguided:
            atheris_.run(campaign, seconds=arguments.seconds, count=count, seed=arguments.seed)
        else:
            campaign.run(seconds=arguments.seconds, count=count, seed=arguments.seed)
        print(campaign.totals.line(arguments.mode, time.monotonic() - started))
    return 1 if campaign.totals.findings else 0


if __name__ == "__main__":
    sys.exit(main())
