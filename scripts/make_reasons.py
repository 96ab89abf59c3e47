#!/usr/bin/env python3
"""Write docs/reasons.md, docs/rewrites.md and docs/unverified.md: reasons, rewrites, and the codes of a verdict.

Needs the project's environment: `.venv/bin/python scripts/make_reasons.py`. With --check it writes nothing and fails if
a page is out of date; a test does that.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

from _environment import ROOT

from bnfold.report.advice import ADVICE
from bnfold.report.reasons import Reason
from bnfold.report.rewrites import BITWISE_COMPOSITIONS, BITWISE_FORMS, FOLDING, SIMPLIFYING, Rewrite
from bnfold.verification.codes import MEANINGS, WORDS

HEAD = """\
# Why a BatchNormalization was left

The report, the table of `bnfold inspect` and the HTML page give a reason code for every BatchNormalization that bnfold
leaves in a model. This page explains the codes and what you can do. Each example is a whole model in ONNX's textual
form, which `onnx.parser.parse_model` reads. The command above it shows the reason, either in the node's row or along
the search's path.

*Scale and shift* are what a BatchNormalization in inference mode computes for each channel: `y = scale·x + shift`.
bnfold searches for weights that can take them, in earlier layers and in later ones. The *detail* is the text beside the
code in the report.

This page is written by `scripts/make_reasons.py`; edit `bnfold/report/reasons.py` and `bnfold/report/advice/` instead.
"""


def page() -> str:
    """Return the whole page: a list of the codes, then a section for each."""
    contents = [f"* [`{reason.code}`](#{reason.code}): {reason.value}" for reason in Reason]
    return "\n".join([HEAD, *contents, "", *(_section(reason) for reason in Reason)])


def _section(reason: Reason) -> str:
    advice = ADVICE[reason]
    return (
        f"## {reason.code}\n\n"
        f"*{reason.value[0].upper()}{reason.value[1:]}.*\n\n"
        f"{_wrap(advice.meaning)}\n\n"
        f"{_wrap(f'**What you can do.** {advice.remedy}')}\n\n"
        f"`{advice.command}` on:\n\n"
        f"```\n{advice.example}\n```\n"
    )


def _wrap(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False)


REWRITES = """\
# Rewrites

Every rewrite has a name, by which reports, errors and `bnfold explain NAME` know it. Its results are equal bit for bit,
whatever is fed (a NaN stays a NaN), or *up to rounding*: the same sum in another order, or a number that is rounded
elsewhere. Verification allows what rounding explains, and no more. A runtime that optimises a graph may choose other
kernels for the rewritten one; the tables hold for the graph as it is.

`--disable NAME,…` of `optimize`, `fold`, `upgrade`, `convert` and `inspect` leaves rewrites out, as does
`Options(disable={"matmul-add-gemm"})` in Python. A conversion cannot be left out: the opset needs it.

This page is written by `scripts/make_reasons.py`; edit `bnfold/report/rewrites.py` instead.
"""


def rewrites_page() -> str:
    """Return the whole page: tables of simplifications and of folds, and the operators whose conversions round not."""
    forms, compositions = (", ".join(sorted(names)) for names in (BITWISE_FORMS, BITWISE_COMPOSITIONS))
    return "\n".join(
        [
            REWRITES,
            "## Simplifying\n",
            *_table(SIMPLIFYING),
            "\n## Folding, equalizing, decomposing\n",
            *_table(FOLDING),
            "\n## Converting\n",
            "`convert-softmax` is Softmax in another version's form, `decompose-gelu` Gelu in other operators.",
            "Their results are equal up to rounding, but for these, which are equal bit for bit:\n",
            f"* in another form: {forms}",
            f"* in other operators: {compositions}; of Add, Sub, Mul and Div that is only done for integers.",
            "",
        ]
    )


def _table(rewrites: Sequence[Rewrite]) -> list[str]:
    rows = [
        f"| `{rewrite.name}` | {rewrite.general_title} | {rewrite.what} | {rewrite.statement} |" for rewrite in rewrites
    ]
    return ["| name | title | what it does | its result |", "|---|---|---|---|", *rows]


VERDICTS = """\
# Verified, unverified, failed

What the words of a verdict mean, and the codes that `--explain`, reports (`"code"`) and Python (`Verdict.code`) give
with them. `bnfold explain unverified` and `bnfold explain CODE` print the same. A code may come with another word than
the one that it stands under: what is `failed` for a rewritten model is `unverified` if the original has the same flaw.

This page is written by `scripts/make_reasons.py`; edit `bnfold/verification/codes.py` instead.
"""


def verdicts_page() -> str:
    """Return the whole page: for each word its meaning, and a table of the codes under it."""
    lines = [VERDICTS]
    for name, word in WORDS.items():
        lines += [f"## {name}\n", _wrap(word.text), "", "| code | it means | what you can do |", "|---|---|---|"]
        lines += [f"| `{code}` | {MEANINGS[code].text} | {MEANINGS[code].remedy} |" for code in word.codes]
        lines.append("")
    return "\n".join(lines)


PAGES: Mapping[str, Callable[[], str]] = {
    "reasons.md": page,
    "rewrites.md": rewrites_page,
    "unverified.md": verdicts_page,
}


def main() -> int:
    """Parse the arguments, write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    is_check = parser.parse_args().check
    for name, write in PAGES.items():
        path = ROOT / "docs" / name
        if is_check and not (path.is_file() and path.read_text(encoding="utf-8") == write()):
            print(f"{path} is out of date: run scripts/make_reasons.py", file=sys.stderr)
            return 1
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(write(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
