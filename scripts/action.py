"""The step of action.yml: runs bnfold as the environment says, and tells GitHub about it.

COMMAND is optimize, check or verify; MODEL, OUTPUT, ARGUMENTS, REPORT and LEAST_OPSET are the action's inputs.
What went wrong becomes an annotation of the model's file, the model before and after a table in GITHUB_STEP_SUMMARY.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BNFOLD = [sys.executable, "-P", "-m", "bnfold"]


def commands(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """What each COMMAND runs; all of them print their report as JSON."""
    model, output, more = environment["MODEL"], environment.get("OUTPUT", ""), environment.get("ARGUMENTS", "").split()
    report = ["--report", environment["REPORT"]] if environment.get("REPORT") else []
    return {
        "optimize": ["optimize", model, output, "--json", "--require-verified", *report, *more],
        "check": ["inspect", model, "--json", "--as-is", "--assert-none", "BatchNormalization", *report, *more],
        "verify": ["verify", model, output, "--json", "--require-verified", *more],
    }


def escaped(text: str) -> str:
    """As workflow commands want their data."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def cell(value: object) -> str:
    """As a cell of a table in Markdown; names come from the file."""
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")


def summary(document: Mapping[str, Any]) -> Iterator[str]:
    """Lines of Markdown about a report, or about a verdict alone."""
    verdict = document.get("verify") if "batchnorms" in document else document
    if "batchnorms" in document:
        left = [row for row in document["batchnorms"] if row["verdict"] in ("kept", "upgraded")]
        before, after = document["operators"]["before"], document["operators"]["after"]
        yield from ("| | before | after |", "|---|---|---|")
        yield f"| opset | {document['opset']['before']} | {document['opset']['after']} |"
        yield f"| nodes | {sum(before.values())} | {sum(after.values())} |"
        yield f"| BatchNormalization | {len(document['batchnorms'])} | {len(left)} |"
        yield f"| weights, bytes | {document['weights']['before']:,} | {document['weights']['after']:,} |"
        for row in left:
            why = f"{row['reason']['text']} (`{row['reason']['code']}`)" if row["reason"] else row["verdict"]
            yield f"\n{cell(row['name'])}: {why}"
    if verdict:
        yield f"\n{cell(verdict['summary'])}"


def trouble(ran: subprocess.CompletedProcess[str], environment: Mapping[str, str]) -> str:
    """What went wrong, in a few lines; empty if nothing did."""
    if ran.returncode:
        told = ran.stderr.rstrip().splitlines() or [f"exit code {ran.returncode}"]
        first = max((index for index, line in enumerate(told) if not line.startswith(" ")), default=0)
        return "\n".join(told[first:])
    least = int(environment.get("LEAST_OPSET") or 1)
    if environment["COMMAND"] == "check" and (found := json.loads(ran.stdout)["opset"]["before"]) < least:
        return f"opset {found}, and {least} was asked for"
    return ""


def main() -> int:
    """Run bnfold; 0 if all went well."""
    known = commands(os.environ)
    if os.environ.get("COMMAND") not in known:
        print(f"::error title=bnfold::command is one of {', '.join(known)}")
        return 2
    ran = subprocess.run(
        [*BNFOLD, *known[os.environ["COMMAND"]]], capture_output=True, text=True, encoding="utf-8", check=False
    )
    sys.stderr.write(ran.stderr)
    lines = list(summary(json.loads(ran.stdout))) if ran.stdout else []
    why = trouble(ran, os.environ)
    if why:
        print(f"::error file={escaped(os.environ['MODEL'])},title=bnfold::{escaped(why)}")
        lines.append(f"\n**Failed:** {cell(why)}")
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        text = "\n".join([f"### bnfold: {cell(os.environ['MODEL'])}", "", *lines, ""])
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as page:
            page.write(text)
    return ran.returncode or int(bool(why))


if __name__ == "__main__":
    sys.exit(main())
