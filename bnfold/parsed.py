"""From what click parsed to the typed settings of a job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bnfold.job import Checks, Delivery, Source
    from bnfold.pipeline import Options

STREAM = "-"
MAGIC = "*?["


def source(arguments: dict[str, Any]) -> Source:
    """The model's path, or its bytes from standard input."""
    if arguments["source"] == STREAM:
        return sys.stdin.buffer.read()
    from pathlib import Path

    return Path(arguments["source"])


def names_many(arguments: dict[str, Any]) -> bool:
    """Whether IN is a folder or a pattern, not one file."""
    import os

    source = arguments["source"]
    return os.path.isdir(source) or (any(mark in source for mark in MAGIC) and not os.path.exists(source))  # noqa: PTH110, PTH112 - before anything heavy is imported


def delivery(arguments: dict[str, Any]) -> Delivery | None:
    """Where the result goes; None for standard output."""
    from pathlib import Path

    from bnfold.job import Delivery

    if arguments["output"] == STREAM:
        if arguments["source"].lower().endswith(".xml"):
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
    )


def names(text: str) -> list[str]:
    """The names in a list separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def options(arguments: dict[str, Any]) -> Options:
    """What to do with the model."""
    from bnfold.pipeline import Options
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
        only=frozenset(arguments.get("only", ())),
        excluded=frozenset(arguments.get("excluded", ())),
        decompose_ops=frozenset(names(arguments.get("decompose_ops", "BatchNormalization"))),
        **given,
    )


def checks(arguments: dict[str, Any]) -> Checks:
    """How to verify the result."""
    from pathlib import Path

    from bnfold.job import Checks

    return Checks(
        depth="none" if arguments.get("no_verify") else arguments["depth"],
        inputs=dict(arguments["inputs"]),
        data=Path(arguments["data"]) if arguments["data"] else None,
        samples=arguments["samples"],
        seed=arguments["seed"],
        witness=arguments["witness"],
    )
