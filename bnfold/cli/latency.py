"""``--latency``: whether it can be measured, and what is looked at before a result is put in place."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from bnfold.cli.invocation import CliOptions, Invocation

if TYPE_CHECKING:
    from bnfold.pipeline.outcome import ProcessedModel


def check_latency(args: Invocation) -> None:
    """Raise UsageError for what is to be measured, and cannot be."""
    if not args.run.latency:
        return
    from bnfold.pipeline import formats

    if find_spec("onnxruntime") is None:
        raise click.UsageError("--latency needs onnxruntime: pip install onnxruntime")
    if args.is_many or formats.of(args.source).is_two_files:
        raise click.UsageError("--latency measures one ONNX model; name one file")
    if args.run.dry_run:
        raise click.UsageError("--latency measures the result, and --dry-run makes none; leave out one of them")


def look_at(run: CliOptions, outcome: ProcessedModel) -> None:
    """Count what the table shows, and measure, while the original is still there."""
    from bnfold.pipeline.outcome import count_products, measure

    if not run.quiet:
        count_products(outcome)
    if run.latency:
        measure(outcome)
