"""From what click parsed to the typed settings of a job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from bnfold.batch.addresses import MAGIC, is_url
from bnfold.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from bnfold.pipeline.job import Checks, Delivery, Source
    from bnfold.pipeline.order import Options

STREAM = "-"


def source(arguments: dict[str, Any]) -> Source:
    """The model's path, or its bytes from standard input."""
    if arguments["source"] == STREAM:
        if sys.stdin is None:
            raise click.UsageError("standard input is closed")
        return sys.stdin.buffer.read()
    from pathlib import Path

    return Path(arguments["source"])


def names_many(arguments: dict[str, Any]) -> bool:
    """Whether IN is a folder or a pattern, not one file; what lies or goes behind a URL is treated the same way."""
    import os

    source = arguments["source"]
    if is_url(source) or is_url(arguments.get("output", "")):
        return True
    return os.path.isdir(source) or (any(mark in source for mark in MAGIC) and not os.path.exists(source))  # noqa: PTH110, PTH112 - before anything heavy is imported


def refuse_for_one(arguments: dict[str, Any]) -> None:
    """Raise UsageError for what makes no sense with one model."""
    if arguments["scheduler"]:
        raise click.UsageError("--scheduler is for a folder, a pattern or a URL; one file is processed here")


def refuse_for_many(arguments: dict[str, Any]) -> None:
    """Raise UsageError for what makes no sense with many models."""
    many = "IN is a folder, a pattern or a URL"
    if STREAM in (arguments["source"], arguments["output"]):
        raise click.UsageError("'-' is one model; with a folder, a pattern or a URL, name where models lie and go")
    if arguments["in_place"]:
        raise click.UsageError(f"--in-place is for one file; {many}")
    if arguments["keep_failed"]:
        raise click.UsageError(f"--keep-failed is for one file; {many}")
    if arguments["verbose"]:
        raise click.UsageError(f"--verbose is for one file; {many}: --report FILE has every BatchNormalization")
    if arguments["scheduler"] and arguments["jobs"]:
        raise click.UsageError("--jobs is for this machine; with --scheduler the cluster's workers say how many")
    if is_url(arguments["output"]) and arguments["external_data"] not in ("auto", "keep", "none"):
        raise click.UsageError("behind a URL each model has its own data file: --external-data auto, keep or none")


def delivery(arguments: dict[str, Any]) -> Delivery | None:
    """Where the result goes; None for standard output."""
    from pathlib import Path

    from bnfold.pipeline.job import Delivery

    if arguments["output"] == STREAM:
        if sys.stdout is None:
            raise click.UsageError("standard output is closed")
        if _is_openvino(arguments):
            raise click.UsageError("an OpenVINO IR is two files, which standard output cannot take; name OUT.xml")
        if arguments["as_json"]:
            raise click.UsageError("the model and --json cannot both go to standard output; use --report FILE.json")
        return None
    return Delivery(
        Path(arguments["output"]),
        arguments["external_data"],
        arguments["in_place"],
        Path(arguments["keep_failed"]) if arguments["keep_failed"] else None,
        arguments["size_threshold"],
        explained=bool(arguments["report"]) or arguments["as_json"],
    )


def report(arguments: dict[str, Any]) -> Path | None:
    """The file that the report is written to, if any."""
    from pathlib import Path

    return Path(arguments["report"]) if arguments["report"] else None


def names(text: str) -> list[str]:
    """The names in a list separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def operators(
    given: Iterable[str], option: str, known: Collection[str] = (), *, is_openvino: bool = False
) -> frozenset[str]:
    """Names of operators, each one of ``known``, or else of onnx's default domain: a misspelt one would match nothing.

    With ``is_openvino`` the names of OpenVINO's operators are known as well.

    Raises:
        BadInput: There is no such operator.
    """
    wanted = frozenset(given)
    if not wanted:
        return wanted
    if not known:
        import onnx

        known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    if is_openvino:
        from bnfold.interop.openvino.operators import KNOWN, NORM

        known = {*known, *(KNOWN if len(known) > 2 else (NORM,))}
    for name in sorted(wanted.difference(known)):
        from difflib import get_close_matches

        folded = {operator.lower(): operator for operator in known}
        close = get_close_matches(name.lower(), folded, n=1)
        hint = f"; did you mean {folded[close[0]]}?" if close else ""
        raise BadInput(f"{option}: there is no operator {name!r}{hint}")
    return wanted


def unwanted(arguments: dict[str, Any]) -> frozenset[str]:
    """What --assert-none names; raises as `operators`."""
    given = names(arguments.get("assert_none", ""))
    return operators(given, "--assert-none", is_openvino=_is_openvino(arguments))


def _is_openvino(arguments: dict[str, Any]) -> bool:
    return bool(arguments["source"].lower().endswith(".xml"))


def options(arguments: dict[str, Any]) -> Options:
    """What to do with the model."""
    from bnfold.pipeline.order import Options
    from bnfold.semantics import Policy

    given = {
        name: arguments[name]
        for name in (
            "fold",
            "target_opset",
            "freeze_overridable",
            "max_growth",
            "all_affines",
            "decompose",
            "decompose_form",
        )
        if name in arguments
    }
    return Options(
        policy=Policy(arguments["legacy_mode"], arguments["force_inference"], arguments["saved_var"]),
        only=operators(arguments.get("only", ()), "--only", is_openvino=_is_openvino(arguments)),
        excluded=operators(arguments.get("excluded", ()), "--except", is_openvino=_is_openvino(arguments)),
        decompose_ops=operators(
            names(arguments.get("decompose_ops", "BatchNormalization")),
            "--decompose-ops",
            ("BatchNormalization", "InstanceNormalization"),
            is_openvino=_is_openvino(arguments),
        ),
        **given,
    )


def checks(arguments: dict[str, Any]) -> Checks:
    """How to verify the result. Raises BadInput for a witness that was asked for and is not installed."""
    from importlib.util import find_spec
    from pathlib import Path

    from bnfold.pipeline.job import Checks

    if arguments["witness"] == "openvino" and find_spec("openvino") is None:
        raise BadInput("--witness openvino: it is not installed: pip install 'bnfold[openvino]'")
    return Checks(
        depth="none" if arguments.get("no_verify") else arguments["depth"],
        inputs=dict(arguments["inputs"]),
        data=Path(arguments["data"]) if arguments["data"] else None,
        samples=arguments["samples"],
        seed=arguments["seed"],
        witness=arguments["witness"],
    )
