"""What helps against operators that --assert-none forbids: a command that was tried on the model."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bnfold.cli.invocation import Invocation
from bnfold.errors import BnfoldError
from bnfold.settings import Options, VerifyOptions

_TRIED: tuple[tuple[str, Options], ...] = (
    ("", Options()),
    (" --decompose remaining", Options(decompose="remaining")),
)
"""Options of `bnfold optimize` in a command line, and in Python; the first that leaves nothing is named."""


def remedy(offenders: Iterable[tuple[str, int, bool]], args: Invocation) -> str:
    """Return what helps the first of the files that hold forbidden nodes, if anything is known to help.

    Each is a file, how many nodes it holds, and whether `bnfold inspect` has a reason for one of them.
    """
    offenders = [*offenders]
    if args.options.fold:
        explained = next((file for file, _, has_reason in offenders if has_reason), None)
        return f"`bnfold inspect {shlex.quote(explained)}` shows why" if explained is not None else ""
    return _tried(*offenders[0][:2], args) if offenders else ""


def _tried(file: str, count: int, args: Invocation) -> str:
    """Return the command that leaves the fewest of the ``count`` nodes, and how many; empty if all leave as many."""
    from bnfold.pipeline import job

    left: dict[str, int] = {}
    for words, options in _TRIED if Path(file).is_file() else ():
        try:
            tried = replace(options, policy=args.options.policy)
            outcome = job.process(Path(file), None, tried, VerifyOptions(depth="none"))
        except BnfoldError:
            continue
        left[words] = len(outcome.left(args.run.assert_none))
        if not left[words]:
            break
    words = min(left, key=lambda words: left[words], default="")
    if left.get(words, count) >= count:
        return ""
    rest = f"leaves {left[words]} of the {count}" if left[words] else "leaves none"
    return f"`bnfold optimize {shlex.quote(file)} OUT{words}` {rest}"
