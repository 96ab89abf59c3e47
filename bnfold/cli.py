"""The command line: parse, call, print, exit code. Heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bnfold.errors import BnfoldError

if TYPE_CHECKING:
    from bnfold.job import Checks, Outcome
    from bnfold.pipeline import Options

Command = Callable[..., Any]
STREAM = "-"


class Shapes(click.ParamType):
    """``NAME=2,3,224,224``."""

    name = "NAME=SHAPE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, tuple[int, ...]]:
        name, _, dims = str(value).rpartition("=")
        try:
            shape = tuple(int(dim) for dim in dims.split(",") if dim.strip())
        except ValueError:
            shape = (-1,)
        if not name or any(dim < 0 for dim in shape):
            self.fail(f"{value!r} is not of the form NAME=2,3,224,224", param, ctx)
        return name, shape


class TargetOpset(click.ParamType):
    """A number, or ``keep``."""

    name = "N|keep"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "keep":
            return "keep"
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither an opset number nor 'keep'", param, ctx)


class Main(click.Group):
    """The command group. Users of other simplifiers write ``bnfold model.onnx out.onnx``: that means ``optimize``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-") and _names_model(args[0]):
            args = ["optimize", *args]
        return super().parse_args(ctx, args)


def _names_model(argument: str) -> bool:
    return argument.endswith(".onnx") or Path(argument).is_file()


def stack(*options: Command) -> Command:
    """Several click options as one decorator, in the order in which ``--help`` shows them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


checks_options = stack(
    click.option("--input", "inputs", type=Shapes(), multiple=True, help="Shape of an input, for sizes the model leaves open."),
    click.option("--data", type=click.Path(exists=True), help="Recorded inputs: .npz, or a folder of input_*.pb."),
    click.option("--samples", type=click.IntRange(1), default=1, show_default=True, help="Random inputs to compare on."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random inputs."),
    click.option(
        "--witness",
        type=click.Choice(["onnxruntime", "openvino", "none"]),
        default="onnxruntime",
        show_default=True,
        help="Runtime that computes in storage precision beside the float64 referee.",
    ),
)

policy_options = stack(
    click.option(
        "--legacy-mode",
        type=click.Choice(["auto", "inference", "training", "error"]),
        default="auto",
        show_default=True,
        help="What a BatchNormalization of opset 1-6 without is_test means.",
    ),
    click.option("--force-inference", is_flag=True, help="Read training mode as inference where no statistics are read."),
    click.option(
        "--saved-var",
        type=click.Choice(["variance", "inv-std"]),
        default="variance",
        show_default=True,
        help="What the fifth output of a training BatchNormalization up to opset 13 holds.",
    ),
)

fold_options = stack(
    click.option("--freeze-overridable", is_flag=True, help="Take initializers that are also inputs for constants."),
    click.option("--max-growth", type=click.IntRange(0), metavar="BYTES", help="What copies of shared weights may add."),
    click.option("--only", multiple=True, metavar="OP", help="Let only these operators take part in folding."),
    click.option("--except", "excluded", multiple=True, metavar="OP", help="Keep these operators out of folding."),
    click.option("--all-affines", is_flag=True, help="Fold constant Mul, Add, … too where no BatchNormalization stands."),
)

decompose_options = stack(
    click.option(
        "--decompose",
        type=click.Choice(["never", "residual", "all"]),
        default="never",
        show_default=True,
        help="Spell BatchNormalization out as primitive operators: what folding left, or all of it.",
    ),
    click.option(
        "--decompose-form",
        type=click.Choice(["mul_add", "sub_mul_add", "depthwise_conv"]),
        default="mul_add",
        show_default=True,
        help="How an inference BatchNormalization is spelled out.",
    ),
    click.option(
        "--decompose-ops",
        default="BatchNormalization",
        show_default=True,
        metavar="OP[,OP]",
        help="Operators to spell out: BatchNormalization, InstanceNormalization.",
    ),
    click.option("--assert-none", default="", metavar="OP[,OP]", help="Exit with code 4 if any of these operators is left."),
)

output_options = stack(
    click.option("--report", type=click.Path(dir_okay=False), help="Write the report: FILE.json or FILE.html."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output."),
    click.option("--external-data", default="auto", show_default=True, help="auto, keep, none, or the data file's name."),
    click.option("--in-place", is_flag=True, help="Allow OUT to be IN."),
    click.option("--no-verify", is_flag=True, help="Do not compare the result with the original."),
    click.option("--verify", "depth", type=click.Choice(["auto", "full", "local", "none"]), default="auto", show_default=True,
                 help="Compare whole models, each rewrite on its own, or what time allows."),
    click.option("--require-verified", is_flag=True, help="Exit with code 3 where the result could not be verified."),
    click.option("--keep-failed", type=click.Path(dir_okay=False, path_type=Path), help="Where to put a result that failed verification."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings."),
    click.option("-v", "--verbose", is_flag=True, help="Print every BatchNormalization, not only what needs attention."),
)

paths = stack(click.argument("source", metavar="IN"), click.argument("output", metavar="OUT"))
target_option = click.option(
    "--target-opset", type=TargetOpset(), default=None, help="Opset to reach.  [default: 15, unless the model is newer]"
)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from bnfold.job import versions

        click.echo("\n".join(f"{package} {number}" for package, number in versions().items()))
        ctx.exit()


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show versions and exit.")
def main() -> None:
    """Upgrade, fold, decompose and verify BatchNormalization in ONNX models.

    \b
    bnfold optimize model.onnx out.onnx          upgrade to opset 15, fold, verify
    bnfold fold model.onnx out.onnx              fold only, the opset stays
    bnfold inspect model.onnx                    what would happen, and why
    """


@main.command()
@paths
@target_option
@stack(decompose_options, fold_options, policy_options, checks_options, output_options)
def optimize(**arguments: Any) -> None:
    """Upgrade the model at IN, fold its BatchNormalizations, verify the result and write it to OUT."""
    _run(arguments)


@main.command()
@paths
@stack(decompose_options, fold_options, policy_options, checks_options, output_options)
def fold(**arguments: Any) -> None:
    """Fold the BatchNormalizations of the model at IN and keep its opset."""
    _run({**arguments, "target_opset": "keep"})


@main.command()
@paths
@target_option
@stack(policy_options, checks_options, output_options)
def upgrade(**arguments: Any) -> None:
    """Bring the model at IN to a newer opset, and do nothing else."""
    _run({**arguments, "fold": False})


@main.command()
@click.argument("source", metavar="IN")
@target_option
@stack(decompose_options, fold_options, policy_options)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write the report: FILE.json or FILE.html.")
def inspect(**arguments: Any) -> None:
    """Say what each BatchNormalization of the model at IN is, what would become of it, and why. Nothing is written."""
    with _errors(arguments["source"]):
        from bnfold import terminal
        from bnfold.job import Checks, process

        outcome = process(arguments["source"], None, _options(arguments), Checks(depth="none"))
        _publish(outcome, arguments)
        if not arguments["as_json"]:
            terminal.inspection(outcome)


@main.command()
@click.argument("before")
@click.argument("after")
@checks_options
@click.option("--depth", type=click.Choice(["auto", "full", "local"]), default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON on standard output.")
@click.option("--require-verified", is_flag=True, help="Exit with code 3 where the models could not be compared.")
def verify(before: str, after: str, depth: str, as_json: bool, require_verified: bool, **arguments: Any) -> None:
    """Compare two models numerically, whoever made them."""
    with _errors(before):
        from bnfold import terminal
        from bnfold import verify as verification

        checks = _checks({**arguments, "depth": depth})
        with terminal.progress() as progress:
            verdict = verification.verify(
                before, after, depth=depth, inputs=checks.inputs, data=checks.data, samples=checks.samples,  # type: ignore[arg-type]
                seed=checks.seed, witness=checks.witness, progress=progress,
            )  # fmt: skip
        if as_json:
            _print_json(verdict.to_json())
        else:
            terminal.verdict(verdict)
        if verdict.status == "failed":
            sys.exit(1)
        if verdict.status == "unverified" and require_verified:
            sys.exit(3)


# -- what the commands share


class _errors:
    """Turn the user's mistakes into one line and an exit code; anything else is a bug and may crash."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, BnfoldError):
            text = str(error)
            prefix = "" if self._source in text else f"{self._source}: "
            click.echo(f"bnfold: {prefix}{text}", err=True)
            sys.exit(error.exit_code)


def _run(arguments: dict[str, Any]) -> None:
    """Process one model and report on it."""
    with _errors(arguments["source"]):
        from bnfold import terminal
        from bnfold.errors import UpgradeBlocked, VerificationFailed
        from bnfold.job import process

        options, checks = _options(arguments), _checks(arguments)
        with terminal.progress(enabled=not arguments["quiet"]) as progress:
            try:
                outcome = process(
                    arguments["source"], arguments["output"], options, checks,
                    external_data=arguments["external_data"], overwrite_input=arguments["in_place"],
                    keep_failed=arguments["keep_failed"], progress=progress,
                )  # fmt: skip
            except VerificationFailed as failure:
                _publish_failed(failure, arguments)
                raise
            except UpgradeBlocked as blocked:
                if options.fold and options.target_opset != "keep":
                    raise UpgradeBlocked(f"{blocked}. `bnfold fold` folds without changing the opset", blocked.blockers) from blocked
                raise
        _publish(outcome, arguments)
        if not arguments["quiet"] or (outcome.verdict is not None and outcome.verdict.status != "verified"):
            terminal.summary(outcome, verbose=arguments["verbose"], quiet=arguments["quiet"])
        sys.exit(_exit_code(outcome, arguments))


def _publish_failed(failure: Any, arguments: dict[str, Any]) -> None:
    from bnfold import terminal

    _publish(failure.outcome, arguments)
    terminal.verdict(failure.outcome.verdict)


def _exit_code(outcome: Outcome, arguments: dict[str, Any]) -> int:
    if arguments["require_verified"] and (outcome.verdict is None or outcome.verdict.status != "verified"):
        return 3
    names = _names(arguments.get("assert_none", ""))
    left = [node for node in outcome.model.nodes() if node.is_op(*names)] if names else []
    if not left:
        return 0
    from bnfold import terminal

    terminal.still_there(outcome, left)
    return 4


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _options(arguments: dict[str, Any]) -> Options:
    from bnfold.pipeline import Options
    from bnfold.semantics import Policy

    given = {name: arguments[name] for name in ("fold", "target_opset", "freeze_overridable", "max_growth", "all_affines", "decompose", "decompose_form") if name in arguments}
    return Options(
        policy=Policy(arguments["legacy_mode"], arguments["force_inference"], arguments["saved_var"]),
        only=frozenset(arguments.get("only", ())),
        excluded=frozenset(arguments.get("excluded", ())),
        decompose_ops=frozenset(_names(arguments.get("decompose_ops", "BatchNormalization"))),
        **given,
    )


def _checks(arguments: dict[str, Any]) -> Checks:
    from bnfold.job import Checks

    return Checks(
        depth="none" if arguments.get("no_verify") else arguments["depth"],
        inputs=dict(arguments["inputs"]),
        data=Path(arguments["data"]) if arguments["data"] else None,
        samples=arguments["samples"],
        seed=arguments["seed"],
        witness=arguments["witness"],
    )


def _publish(outcome: Outcome, arguments: dict[str, Any]) -> None:
    """Print and write the report as asked."""
    if not (arguments["report"] or arguments["as_json"]):
        return
    document = outcome.to_json()
    if arguments["as_json"]:
        _print_json(document)
    if arguments["report"]:
        _write_report(Path(arguments["report"]), document)


def _write_report(path: Path, document: dict[str, Any]) -> None:
    import json

    from bnfold.errors import OutputError

    try:
        path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: the report cannot be written: {error.strerror or error}") from error


def _print_json(document: dict[str, Any]) -> None:
    import json

    click.echo(json.dumps(document, indent=2, allow_nan=False))
