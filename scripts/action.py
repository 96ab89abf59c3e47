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
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

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
            if row["reason"]:
                yield f"\n{cell(row['name'])}: {row['reason']['text']} (`{row['reason']['code']}`)"
    if verdict:
        yield f"\n{cell(verdict['summary'])}"


def trouble(code: int, told: str, document: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """What went wrong, in a few lines; empty if nothing did."""
    if code:
        lines = told.removeprefix("bnfold: ").splitlines()
        first = max((index for index, line in enumerate(lines) if not line.startswith(" ")), default=0)
        return "\n".join(lines[first:]) or str(document.get("summary", f"exit code {code}"))
    least = int(environment.get("LEAST_OPSET") or 1)
    if environment["COMMAND"] == "check" and document["opset"]["before"] < least:
        return f"opset {document['opset']['before']}, and {least} was asked for"
    return ""


def main() -> int:
    """Run bnfold; 0 if all went well."""
    for stream in (sys.stdout, sys.stderr):
        cast(TextIOWrapper, stream).reconfigure(encoding="utf-8")  # which GitHub reads, on Windows too
    known = commands(os.environ)
    if os.environ.get("COMMAND") not in known:
        print(f"::error title=bnfold::command is one of {', '.join(known)}")
        return 2
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    command = [*BNFOLD, *known[os.environ["COMMAND"]]]
    ran = subprocess.run(command, capture_output=True, env=environment, encoding="utf-8", check=False)
    sys.stderr.write(ran.stderr)
    document = json.loads(ran.stdout) if ran.stdout else {}
    lines = list(summary(document)) if document else []
    why = trouble(ran.returncode, ran.stderr, document, os.environ)
    if why:
        print(f"::error file={escaped(os.environ['MODEL'])},title=bnfold::{escaped(why)}")
        lines = [*(line for line in lines if line.strip() != cell(why)), f"\n**Failed:** {cell(why)}"]
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        text = "\n".join([f"### bnfold: {cell(os.environ['MODEL'])}", "", *lines, ""]).replace("\n  ", "\n* ")
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as page:
            page.write(text + "\n")
    return ran.returncode or int(bool(why))


if __name__ == "__main__":
    sys.exit(main())
