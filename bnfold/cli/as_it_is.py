"""What `bnfold inspect --as-is` shows: what a file holds, and no word of what could be made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from bnfold.cli import tables
from bnfold.errors import printable
from bnfold.pipeline import formats
from bnfold.pipeline.outcome import ProcessedModel
from bnfold.report.totals import size


def show(outcome: ProcessedModel, document: Mapping[str, Any]) -> None:
    """Print the file's facts, and its BatchNormalizations, on standard output."""
    from bnfold.diffing import facts

    found = facts(formats.of(outcome.source).load(outcome.source))
    for line in lines(found, weights_listed=outcome.report.before.inputs - len(found["inputs"])):
        click.echo(printable(line))
    if document["batchnorms"]:
        click.echo()
        tables.batchnorms(document["batchnorms"])


def lines(found: Mapping[str, Any], *, weights_listed: int = 0) -> Iterator[str]:
    """Yield a line for each fact of `bnfold.diffing.facts`; ``weights_listed`` counts weights among the inputs."""
    yield f"{'opset':<12}{', '.join(f'{domain} {number}' for domain, number in found['opsets'].items())}"
    yield f"{'IR version':<12}{found['ir_version']}"
    for what in ("inputs", "outputs"):
        yield from (f"{what.removesuffix('s'):<12}{name}: {kind}" for name, kind in found[what].items())
        if what == "inputs" and weights_listed:
            yield f"{'':<12}and {weights_listed} weight{'s' * (weights_listed > 1)} that callers may feed"
    yield f"{'weights':<12}{size(found['weights'])}"
    if found["functions"]:
        yield f"{'functions':<12}{', '.join(found['functions'])}"
    yield f"{'nodes':<12}{found['nodes']}"
    yield from (f"  {name:<24}{count:>6}" for name, count in found["operators"].items())
