"""The command line: parse, call, print, exit code. Heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from bnfold.batch import addresses
from bnfold.cli import parsed, terminal
from bnfold.cli.group import Main
from bnfold.cli.options import (
    checks_options,
    decompose_options,
    fold_options,
    output_options,
    paths,
    policy_options,
    report_options,
    source_argument,
    stack,
    target_option,
)
from bnfold.errors import BnfoldError, machine_trouble, printable
from bnfold.startup import prepare

if TYPE_CHECKING:
    from bnfold.pipeline.job import Checks, Outcome
    from bnfold.pipeline.order import Options


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from bnfold.pipeline.job import versions

        click.echo("\n".join(f"{package} {number}" for package, number in versions().items()))
        ctx.exit()


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show versions and exit."
)
def main() -> None:
    """Upgrade, fold, decompose and verify BatchNormalization in ONNX models."""


@main.command()
@paths
@target_option
@stack(decompose_options, fold_options, policy_options, checks_options, output_options)
def optimize(**arguments: Any) -> None:
    """Upgrade, fold and verify the model at IN, and write it to OUT.

    IN may be a folder or a pattern, then OUT is a folder; - is standard input or output.
    """
    _run(arguments)


@main.command()
@paths
@stack(decompose_options, fold_options, policy_options, checks_options, output_options)
def fold(**arguments: Any) -> None:
    """Fold the model at IN and keep its opset."""
    _run({**arguments, "target_opset": "keep"})


@main.command()
@paths
@target_option
@stack(policy_options, checks_options, output_options)
def upgrade(**arguments: Any) -> None:
    """Change the opset of the model at IN, and nothing else."""
    _run({**arguments, "fold": False})


@main.command()
@source_argument
@target_option
@stack(decompose_options, fold_options, policy_options)
@report_options
def inspect(**arguments: Any) -> None:
    """Say what would become of each BatchNormalization, and why.

    Nothing is written. IN may be a folder of models, or a pattern.
    """
    with _UserErrors(arguments["source"]):
        prepare(many_threads=False)
        from bnfold.cli import publish
        from bnfold.pipeline.job import Checks, process

        _check_report(arguments)
        if parsed.names_many(arguments):
            from bnfold.cli import folders

            sys.exit(folders.inspect(arguments, parsed.options(arguments)))
        outcome = process(
            parsed.source(arguments),
            None,
            parsed.options(arguments),
            Checks(depth="none"),
            report=parsed.report(arguments),
        )
        document = outcome.to_json()
        publish.emit(document, arguments["report"], as_json=arguments["as_json"])
        if not arguments["as_json"]:
            terminal.inspection(outcome, document)


@main.command()
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@checks_options
@click.option("--depth", type=click.Choice(["auto", "full", "local"]), default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON on standard output.")
@click.option("--require-verified", is_flag=True, help="Exit with code 3 where the models could not be compared.")
def verify(before: str, after: str, depth: str, as_json: bool, require_verified: bool, **arguments: Any) -> None:
    """Compare two models numerically, whoever made them."""
    with _UserErrors(before):
        from pathlib import Path

        from bnfold.cli import publish
        from bnfold.pipeline import formats

        checks = parsed.checks({**arguments, "depth": depth})
        with terminal.progress() as progress:
            verdict = formats.verify_files(Path(before), Path(after), checks, progress)
        if as_json:
            publish.to_stdout(verdict.to_json())
        else:
            terminal.verdict(verdict)
        if verdict.status == "failed":
            sys.exit(1)
        if verdict.status == "unverified" and require_verified:
            sys.exit(3)


class _UserErrors:
    """Turn the user's mistakes and the machine's limits into one line and an exit code; anything else is a bug."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, BnfoldError):
            text = str(error)
            prefix = "" if printable(self._source) in text else f"{self._source}: "
            terminal.say(addresses.without_password(f"bnfold: {prefix}{text}"))
            sys.exit(error.exit_code)
        if isinstance(error, Exception) and (trouble := machine_trouble(error)):
            terminal.say(f"bnfold: {self._source}: cannot be processed: {trouble}")
            sys.exit(1)


def _run(arguments: dict[str, Any]) -> None:
    """Process one model, or many, and report on it."""
    with _UserErrors(arguments["source"]):
        prepare(many_threads=not arguments.get("no_verify"))
        _check_report(arguments)
        parsed.unwanted(arguments)  # a misspelt name is told before any work is done
        options, checks = parsed.options(arguments), parsed.checks(arguments)
        if parsed.names_many(arguments):
            from bnfold.cli import folders

            sys.exit(folders.run(arguments, options, checks))
        parsed.refuse_for_one(arguments)
        outcome = _process(arguments, options, checks)
        _publish(outcome, arguments)
        if arguments["output"] == parsed.STREAM:
            from bnfold import ir

            sys.stdout.buffer.write(ir.encode(outcome.model))
        if not arguments["quiet"] or (outcome.verdict is not None and outcome.verdict.status != "verified"):
            terminal.summary(outcome, verbose=arguments["verbose"], quiet=arguments["quiet"])
        sys.exit(_exit_code(outcome, arguments))


def _check_report(arguments: dict[str, Any]) -> None:
    """Complain about a report that cannot be written before any work is done."""
    if arguments["report"]:
        from bnfold.cli import publish

        publish.require(arguments["report"])


def _process(arguments: dict[str, Any], options: Options, checks: Checks) -> Outcome:
    from bnfold.errors import UpgradeBlocked, VerificationFailed
    from bnfold.pipeline.job import process

    with terminal.progress(enabled=not arguments["quiet"]) as progress:
        try:
            delivery, report = parsed.delivery(arguments), parsed.report(arguments)
            return process(parsed.source(arguments), delivery, options, checks, progress, report=report)
        except VerificationFailed as failure:
            _publish_failed(failure, arguments)
            raise
        except UpgradeBlocked as blocked:
            if not options.fold or options.target_opset == "keep":
                raise
            hint = "`bnfold fold` folds without changing the opset"
            raise UpgradeBlocked(f"{blocked}. {hint}", blocked.blockers) from blocked


def _publish_failed(failure: Any, arguments: dict[str, Any]) -> None:
    _publish(failure.outcome, arguments)
    terminal.verdict(failure.outcome.verdict)


def _exit_code(outcome: Outcome, arguments: dict[str, Any]) -> int:
    if arguments["require_verified"] and (outcome.verdict is None or outcome.verdict.status != "verified"):
        return 3
    unwanted = parsed.unwanted(arguments)
    if not unwanted:
        return 0
    from bnfold.pipeline import formats

    left = formats.left(outcome, unwanted)
    if left:
        terminal.still_there(outcome, left)
    return 4 if left else 0


def _publish(outcome: Outcome, arguments: dict[str, Any]) -> None:
    """Print and write the report as asked."""
    if arguments["report"] or arguments["as_json"]:
        from bnfold.cli import publish

        publish.emit(outcome.to_json(), arguments["report"], as_json=arguments["as_json"])
