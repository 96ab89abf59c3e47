"""Run the step of action.yml: run bnfold as the environment says, and report to GitHub.

COMMAND is optimize, check or verify; MODEL (one a line), OUTPUT, ARGUMENTS, REPORT and LEAST_OPSET are the action's
inputs. Options that they leave open are read from [tool.bnfold] in pyproject.toml, as by the command line.
Each problem becomes an annotation of the model's file, each model a table (before, after) in GITHUB_STEP_SUMMARY.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

BNFOLD = [sys.executable, "-P", "-m", "bnfold"]


def models(environment: Mapping[str, str]) -> list[str]:
    """Return the models to work on: those of MODEL, for check with every .onnx file that git tracks in folders.

    Git is asked, for a checkout has files of other packages, too, which are nothing to complain about.
    """
    least = environment.get("LEAST_OPSET", "")
    if least and not least.isdecimal():
        raise OSError(f"least-opset is a number such as 17, not {least!r}")
    named = [line.strip() for line in environment.get("MODEL", "").splitlines() if line.strip()]
    if environment["COMMAND"] == "verify" and len(named) > 1:
        raise OSError("verify compares one model; name one: model: FILE")
    if environment["COMMAND"] == "check":
        return [
            path for each in named or [""] for path in (tracked(each) if not each or Path(each).is_dir() else [each])
        ]
    if not named:
        raise OSError(f"{environment['COMMAND']} has no model to work on; name it: model: FILE")
    return named


def tracked(named: str) -> list[str]:
    """Return the .onnx files that git tracks in a folder, by default the whole checkout."""
    command = ["git", "ls-files", "-z", "--", named or "."]
    listed = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if listed.returncode:
        raise OSError(f"the models that git tracks are not known ({listed.stderr.strip()}); name one: model: FILE")
    found = [path for path in listed.stdout.split("\0") if path.lower().endswith(".onnx")]
    if not found:
        raise OSError(f"git tracks no .onnx file in {named or 'this checkout'}; name one: model: FILE")
    return found


def commands(environment: Mapping[str, str], models: Sequence[str]) -> dict[str, list[str]]:
    """Return the command line of each COMMAND; all of them print their report as JSON."""
    output, more = environment.get("OUTPUT", ""), environment.get("ARGUMENTS", "").split()
    report = ["--report", environment["REPORT"]] if environment.get("REPORT") else []
    return {
        "optimize": ["optimize", *models, output, "--json", "--require-verified", *report, *more],
        "check": ["inspect", *models, "--assert-none", "--json", "--as-is", *report, *more],
        "verify": ["verify", *models, output, "--json", *more],
    }


def escaped(text: str) -> str:
    """Escape data for workflow commands."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def cell(value: object) -> str:
    """Escape a cell of a table in Markdown; names come from the file."""
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")


def summary(document: Mapping[str, Any]) -> Iterator[str]:
    """Return lines of Markdown about a report, or about a verdict alone."""
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


def trouble(code: int, printed: str, document: Mapping[str, Any]) -> str:
    """Describe the problems of one model in a few lines; empty if there are none."""
    if not code:
        return ""
    lines = printed.removeprefix("bnfold: ").splitlines()
    first = max((index for index, line in enumerate(lines) if not line.startswith(" ")), default=0)
    return "\n".join(lines[first:]) or str(document.get("summary", f"exit code {code}"))


def too_old(document: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Say that a model's opset is below the one that check wants; empty if it is not."""
    if environment["COMMAND"] != "check" or not document:
        return ""
    from bnfold.cli.project import project

    wanted = environment.get("LEAST_OPSET") or project().settings.get("target_opset", [""])[0]
    least = int(wanted) if wanted.isdecimal() else 1
    if document["opset"]["before"] >= least:
        return ""
    return f"opset {document['opset']['before']}, and {least} was asked for"


def findings(ran: subprocess.CompletedProcess[str], names: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return each model's name, its problems, and its report (empty if it could not be read)."""
    document = json.loads(ran.stdout) if ran.stdout else {}
    if "models" not in document:
        yield names[0], trouble(ran.returncode, ran.stderr, document), document
        return
    for row in document["models"]:
        report = row["report"] or {}
        is_fine = row["status"] in ("verified", "skipped") and row["message"] in ("up to date", _reason(report))
        yield row["input"], "" if is_fine else row["message"], report


def _reason(report: Mapping[str, Any]) -> str:
    """Return the reason for a verified model's verdict, which is its message unless the model failed otherwise."""
    return str((report.get("verify") or {}).get("reason", ""))


def tell(model: str, why: str, document: Mapping[str, Any]) -> None:
    """Annotate the model's file if something is wrong, and add the model to the job's summary."""
    lines = list(summary(document)) if document else []
    if why:
        print(f"::error file={escaped(model)},title=bnfold::{escaped(why)}")
        lines = [*(line for line in lines if line.strip() != cell(why)), f"\n**Failed:** {cell(why)}"]
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        text = "\n".join([f"### bnfold: {cell(model)}", "", *lines, ""]).replace("\n  ", "\n* ")
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as page:
            page.write(text + "\n")


def main() -> int:
    """Run bnfold; 0 if all went well."""
    for stream in (sys.stdout, sys.stderr):
        cast(TextIOWrapper, stream).reconfigure(encoding="utf-8")  # which GitHub reads, on Windows too
    known = commands(os.environ, [])
    if os.environ.get("COMMAND") not in known:
        print(f"::error title=bnfold::command is one of {', '.join(known)}")
        return 2
    try:
        names = models(os.environ)
    except OSError as error:
        print(f"::error title=bnfold::{escaped(str(error))}")
        return 2
    command = [*BNFOLD, *commands(os.environ, names)[os.environ["COMMAND"]]]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run(command, capture_output=True, env=environment, encoding="utf-8", check=False)
    sys.stderr.write(ran.stderr)
    is_bad = False
    for model, found, document in findings(ran, names):
        why = found or too_old(document, os.environ)
        is_bad |= bool(why)
        tell(model, why, document)
    return ran.returncode or int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
