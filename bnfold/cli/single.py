"""One model on the command line: checked, processed, reported on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bnfold.batch.addresses import STREAM
from bnfold.cli import latency, terminal
from bnfold.cli.invocation import Invocation
from bnfold.cli.progress import progress_bar
from bnfold.cli.remedy import remedy

if TYPE_CHECKING:
    from bnfold.pipeline.outcome import ProcessedModel
    from bnfold.settings import OutputOptions


def check(args: Invocation) -> None:
    """Complain about a report that cannot be written, or a misspelt name, before any work is done."""
    from bnfold.cli import publish
    from bnfold.pipeline import formats

    publish.require(args.run.report)
    latency.check_latency(args)
    for source in args.sources:
        formats.of(source).check(args.options, None, args.run.assert_none)


def process(args: Invocation, delivery: OutputOptions | None) -> ProcessedModel:
    """Process one model, and say what failed. Raises as `bnfold.pipeline.job.process`."""
    from bnfold.errors import ConversionBlocked, VerificationFailed
    from bnfold.pipeline import job

    options = args.options
    with progress_bar(enabled=not args.run.quiet, checks=args.checks) as progress:
        try:
            given = args.opened(), delivery, options, args.checks, progress
            return job.process(*given, reports=args.reports, second_opinion=partial(latency.look_at, args.run))
        except VerificationFailed as failure:
            outcome: Any = failure.outcome
            publish_report(outcome, args)
            terminal.verdict(outcome.verdict, verbose=args.run.verbose)
            terminal.explanation(outcome.verdict, stderr=args.output == STREAM or args.run.as_json)
            terminal.wrote_reports(args.run.report)
            raise
        except ConversionBlocked as blocked:
            if not options.fold or options.target_opset == "keep":
                raise
            hint = "`bnfold fold` folds without changing the opset"
            raise ConversionBlocked(f"{blocked}. {hint}", blocked.blockers, blocked.places) from blocked


def is_refused(outcome: ProcessedModel, args: Invocation) -> bool:
    """Whether the result is not written because it was not verified."""
    return args.delivery.require_verified and not outcome.verified


def exit_code(outcome: ProcessedModel, args: Invocation) -> int:
    """Return the exit code for a model that was processed."""
    if is_refused(outcome, args):
        return 3
    if not args.run.assert_none:
        return 0
    left = outcome.left(args.run.assert_none)
    if left:
        terminal.still_there(outcome, left, args.run.assert_none)
        if not args.options.fold and not args.run.quiet and (helps := remedy([(args.source, len(left), False)], args)):
            terminal.say(f"  {helps}")
    return 4 if left else 0


def publish_report(outcome: ProcessedModel, args: Invocation) -> None:
    """Print and write the report as asked."""
    if args.delivery.explained:
        from bnfold.cli import publish

        publish.emit(outcome.to_json(), args.run.report, as_json=args.run.as_json)


def hint_at_convert(outcome: ProcessedModel) -> None:
    """Name the command that is meant for it, after `upgrade` went down."""
    if outcome.report.opset_after < outcome.report.opset_before:
        terminal.say("  note: `bnfold convert` is the command for downgrades; `--opset lowest` goes as low as possible")
