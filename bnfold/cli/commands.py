"""The command line: parse, call, print, exit code. Heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from bnfold.batch.addresses import STREAM
from bnfold.cli import about, single, terminal
from bnfold.cli.group import Main
from bnfold.cli.invocation import Invocation
from bnfold.cli.options import option, takes
from bnfold.cli.progress import progress_bar
from bnfold.settings import ONE_JOB

DECOMPOSING = ("decompose", "decompose_form", "decompose_ops", "assert_none")
FOLDING = (
    "overridable", "max_growth", "only", "excluded", "disable", "all_affines", "merge_branches", "equalize", "exchange",
)  # fmt: skip
STEPS = ("no_simplify", "group_norm", "simplify", "step_seconds")
READING = ("legacy_mode", "force_inference", "saved_var", "plugin")
CHECKING = ("inputs", "data", "samples", "seed", "runtime", "verify_seconds")
COMPARING = ("tolerance", "frozen", *CHECKING)
EXPLAINING = ("explain", "save")
REPORTING = ("report", "as_json")
WRITING = (
    *EXPLAINING, *REPORTING, "external_data", "size_threshold", "in_place", "no_verify", "depth", "require_verified",
    "keep_failed", "latency", "exclude", "jobs", "scheduler", "force", "quiet", "verbose", "dry_run",
)  # fmt: skip

PATH = click.Path(readable=False)  # what cannot be read is no wrong usage
source = click.argument("source", metavar="IN", type=PATH)
sources = click.argument("sources", metavar="IN...", type=PATH, nargs=-1, required=True)
output = click.argument("output", metavar="OUT", type=PATH)
paths = click.argument("paths", metavar="IN... OUT", type=PATH, nargs=-1)


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=about.version, help="Show versions and exit."
)
def main() -> None:
    """Convert ONNX models to another opset, make them smaller, and check every result against the original."""


@main.command()
@paths
@takes(
    *("target_opset", "ir_version", "ml_opset", "domain_opsets", "fix_shapes", "constants"),
    *(*STEPS, *DECOMPOSING, *FOLDING, *READING, *CHECKING, *WRITING),
)
def optimize(args: Invocation) -> None:
    """Upgrade, fold and verify the model IN, and write it to OUT.

    IN may also be several files, a folder or a quoted pattern ('models/*.onnx'); OUT is then a folder. - means
    standard input or output. With --in-place there is no OUT.
    """
    _run(args)


@main.command()
@paths
@takes(
    *("ir_version", "fix_shapes", *DECOMPOSING, *FOLDING, *READING, *CHECKING, *WRITING),
    target_opset="keep",
    **ONE_JOB,
)
def fold(args: Invocation) -> None:
    """Fold BatchNormalization into weights, and keep the opset.

    The result is verified. IN may also be several files, a folder or a quoted pattern; OUT is then a folder.
    """
    _run(args)


@main.command()
@paths
@takes(
    *("target_opset", "ir_version", "ml_opset", "domain_opsets", "fix_shapes", "overridable", "disable"),
    *(*READING, *CHECKING, *WRITING),
    fold=False,
    **ONE_JOB,
)
def upgrade(args: Invocation) -> None:
    """Change the opset of the model IN (upgrade, or downgrade), and nothing that this does not need.

    The result is verified. IN may also be several files, a folder or a quoted pattern; OUT is then a folder.
    """
    _run(args)


@main.command()
@paths
@takes(
    option("target_opset", help="Opset to convert the model to: a number, lowest or latest.  [default: keep]"),
    *("ir_version", "ml_opset", "domain_opsets", "fix_shapes", "overridable", "disable", *READING, *CHECKING, *WRITING),
    fold=False,
    **ONE_JOB,
)
def convert(args: Invocation) -> None:
    """Convert the model IN to another opset or IR version (downgrade or upgrade).

    Nothing else changes, but for the rewrites that a lower opset needs; the output names them. The result is verified.
    IN may also be several files, a folder or a quoted pattern; OUT is then a folder.
    """
    if args.options.target_opset is None:
        options = args.options
        if options.ir_version == "auto" and options.ml_opset is None and not options.domain_opsets:
            example = "`bnfold convert model.onnx out.onnx --opset 13`"
            raise click.UsageError(f"Missing option '--opset' or '--ir-version', as in {example}.")
        args = args._replace(options=replace(args.options, target_opset="keep"))
    _run(args)


@main.command()
@sources
@takes(
    *("target_opset", "as_is", "quantization", *DECOMPOSING, *FOLDING, *READING, *REPORTING),
    option("runtime", default="none", help="Also open the model in this runtime, and say whether it loads."),
    *("output_format", "exclude"),
    option("quiet", help="Print only errors, what --assert-none forbids, and what --runtime does not load."),
    reads=("sources",),
    depth="none",
)
def inspect(args: Invocation) -> None:
    """Show what would happen to each BatchNormalization, and why.

    No model is written. IN may also be several files, a folder or a quoted pattern ('models/*.onnx').
    """
    _inspect(args)


def _inspect(args: Invocation) -> None:
    from bnfold.cli import folders, publish
    from bnfold.pipeline import job
    from bnfold.pipeline.outcome import open_in_runtime

    single.check(args)
    if args.is_many or args.lists_findings or args.leaves_out(args.source):
        sys.exit(folders.inspect(args))
    outcome = single.process(args, None)
    open_in_runtime(outcome)
    document = outcome.to_json()
    if args.run.quantization:
        document["quantization"] = job.quantization(outcome)
    publish.emit(document, args.run.report, as_json=args.run.as_json)
    if args.run.as_is and not (args.run.as_json or args.run.quiet):
        from bnfold.cli import as_it_is

        as_it_is.show(outcome, document)
        terminal.loading(outcome.report)
    elif not (args.run.as_json or args.run.quiet):
        terminal.inspection(outcome, document)
    elif args.run.quiet and outcome.report.unloadable:
        terminal.say(f"{args.source}: {outcome.report.unloadable}", terminal.BAD)
    if not args.run.quiet:
        terminal.wrote_reports(args.run.report)
    sys.exit(single.exit_code(outcome, args))


@main.command()
@click.argument("source", metavar="BEFORE", type=PATH)
@click.argument("output", metavar="AFTER", type=PATH)
@takes(
    *COMPARING,
    option("depth", type=click.Choice(["auto", "full", "local"])),
    *EXPLAINING,
    "plugin",
    option("as_json", help="Print the verdict as JSON on standard output."),
    option("report", help="Write the verdict, and what differs between the models: JSON, HTML or Markdown."),
    option(
        "require_verified",
        "--require-verified/--allow-unverified",
        default=True,
        help="Exit with code 3 if the models could not be compared (the default), or with 0.",
    ),
    option("verbose", help="Print every output with all its numbers."),
    *("exclude", "jobs"),
    reads=("source", "output"),
)
def verify(args: Invocation) -> None:
    """Check whether two models are numerically equivalent.

    BEFORE and AFTER may be folders: models of one name are compared, and one without a partner is an error.
    The exit code is 0 if they are, 1 if they are not, and 3 if that could not be checked (unverified); with
    --allow-unverified, 0 then. Without a tolerance, they may differ by what rounding new weights can cause.
    """
    from bnfold.cli import differences, publish
    from bnfold.pipeline import formats

    if args.is_many:
        from bnfold.cli import folders

        _refuse_explain(args)
        sys.exit(folders.verify_pairs(args))
    differences.require(args)
    with progress_bar(checks=args.checks) as progress:
        verdict = formats.verify_two(Path(args.source), Path(args.output), args.checks, progress)
    if args.run.report:
        publish.emit(differences.found(args, verdict), args.run.report, as_json=False)
    if args.run.as_json:
        publish.to_stdout(verdict.to_json())
    else:
        terminal.verdict(verdict, verbose=args.run.verbose)
        terminal.explanation(verdict)
    terminal.wrote_reports(args.run.report)
    if not args.run.as_json:
        terminal.next_step(verdict)
    if verdict.status == "failed":
        sys.exit(1)
    if verdict.status == "unverified" and args.delivery.require_verified:
        sys.exit(3)


@main.command()
@click.argument("source", metavar="A", type=PATH)
@click.argument("output", metavar="B", type=PATH)
@takes(
    *("values", "inputs", "data", "seed", "verify_seconds", "plugin"),
    option("report", help="Write what differs: JSON for programs, HTML with drawings for people, Markdown in short."),
    option("as_json", help="Print what differs as JSON on standard output."),
    option("verbose", help="List every difference."),
    exit_code=2,
    reads=("source", "output"),
)
def diff(args: Invocation) -> None:
    """Show what differs between two models, node by node.

    That is inputs and outputs, operators, attributes, constants, and the values that both compute. Nodes are matched
    by structure, not by name. The exit code is 0 if nothing differs but names and metadata, 1 if
    something does, 2 for an error.
    """
    from bnfold.cli import differences, publish
    from bnfold.report.html.differences import headline

    differences.require(args)
    document = differences.found(args)
    publish.emit(document, args.run.report, as_json=args.run.as_json)
    if not args.run.as_json:
        terminal.headline(*headline(document))
        for line in differences.lines(document, verbose=args.run.verbose):
            click.echo(line)
    terminal.wrote_reports(args.run.report)
    sys.exit(not document["equal"])


@main.command()
@source
@output
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND {input} {output}", type=click.UNPROCESSED)
@takes(
    *COMPARING, "step_seconds", option("depth", type=click.Choice(["auto", "full", "local"])),
    *EXPLAINING, "external_data", "size_threshold", "in_place", "plugin", "as_json", "exclude", "jobs", "quiet",
)  # fmt: skip
def run(args: Invocation) -> None:
    """Run an external tool on a model, and keep its output only if it is equivalent.

    COMMAND works on a copy of IN; {input} and {output} stand for the files that it reads and writes. OUT is written
    only if it is numerically equivalent to IN. IN may be a folder or a quoted pattern; OUT is then a folder.
    """
    from bnfold.cli import publish
    from bnfold.errors import StepRefused
    from bnfold.pipeline import command
    from bnfold.pipeline.chain import StepRow

    if args.is_many:
        from bnfold.cli import folders

        _refuse_explain(args)
        sys.exit(folders.run_tool(args))
    if STREAM in (args.source, args.output):
        raise click.UsageError("IN and OUT are files or folders; a command takes no streams")
    files = Path(args.source), args.delivery
    try:
        with progress_bar(enabled=not args.run.quiet, checks=args.checks) as progress:
            before, row, written = command.run_command(*files, args.run.command, args.options, args.checks, progress)
    except StepRefused as refusal:
        if isinstance(refusal.step, StepRow):
            terminal.explanation(refusal.step.verdict)
        raise
    if args.run.as_json:
        asked = {"explanation": row.verdict.to_json()["explanation"]} if row.verdict and row.verdict.explanation else {}
        publish.to_stdout({**row.to_json(), **asked})
    else:
        terminal.explanation(row.verdict)
    if not args.run.quiet:
        terminal.steps(before, [row])
        terminal.wrote(written)


main.add_command(about.explain)
main.add_command(about.completion)


def _refuse_explain(args: Invocation) -> None:
    """Raise UsageError for --explain and --save, if many models are named, or none is compared."""
    if args.checks.explain is not None:
        why = "--dry-run compares nothing" if args.run.dry_run else "they are for one model; name one file"
        raise click.UsageError(f"--explain and --save cannot be used here: {why}")


def _run(args: Invocation) -> None:
    """Process one model, or many, and report on it."""
    if args.is_many or args.run.dry_run:
        _refuse_explain(args)
    if args.run.dry_run:
        _inspect(args._replace(output="", checks=replace(args.checks, depth="none", runtime="none")))
    single.check(args)
    if args.is_many:
        from bnfold.cli import folders

        sys.exit(folders.process(args))
    if args.run.scheduler:
        raise click.UsageError("--scheduler is for a folder, a pattern or a URL, not for a single file")
    outcome = single.process(args, args.destination())
    single.publish_report(outcome, args)
    is_refused = single.is_refused(outcome, args)
    if args.output == STREAM and not is_refused:
        from bnfold import ir

        sys.stdout.buffer.write(ir.encode(outcome.model))
    terminal.explanation(outcome.verdict, stderr=args.output == STREAM or args.run.as_json)
    run = args.run
    if not run.quiet or is_refused or outcome.status == "unverified" or outcome.report.wrong_rewrites:
        terminal.summary(outcome, verbose=run.verbose, quiet=run.quiet, is_refused=is_refused)
    if not run.quiet:
        terminal.wrote_reports(run.report)
    if click.get_current_context().info_name == "upgrade" and not run.quiet:
        single.hint_at_convert(outcome)
    if not run.quiet:
        terminal.next_step(outcome.verdict)
    sys.exit(single.exit_code(outcome, args))
