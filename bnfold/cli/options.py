"""The options of the command line, in groups that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., Any]


class Shapes(click.ParamType):  # type: ignore[type-arg] # generic only in the newest click
    """``NAME=2,3,224,224``."""

    name = "NAME=SHAPE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        name, _, dims = str(value).rpartition("=")
        try:
            shape = tuple(int(dim) for dim in dims.split(",") if dim.strip())
        except ValueError:
            shape = (-1,)
        if not name or any(dim < 0 for dim in shape):
            self.fail(f"{value!r} is not of the form NAME=2,3,224,224", param, ctx)
        return name, shape


class TargetOpset(click.ParamType):  # type: ignore[type-arg] # generic only in the newest click
    """A number, or ``keep``."""

    name = "N|keep"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "keep":
            return "keep"
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither an opset number nor 'keep'", param, ctx)


class ReportFile(click.ParamType):  # type: ignore[type-arg] # generic only in the newest click
    """``FILE.json`` or ``FILE.html``; anything else is told before any work is done."""

    name = "FILE.json|FILE.html"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).endswith((".json", ".html")):
            self.fail(f"{value!r} ends neither in .json nor in .html", param, ctx)
        return str(value)


def stack(*options: Command) -> Command:
    """Several click options as one decorator, in the order in which ``--help`` shows them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


checks_options = stack(
    click.option(
        "--input", "inputs", type=Shapes(), multiple=True, help="Shape of an input, for sizes the model leaves open."
    ),
    click.option("--data", type=click.Path(exists=True), help="Recorded inputs: .npz, or a folder of input_*.pb."),
    click.option(
        "--samples", type=click.IntRange(1), default=1, show_default=True, help="Random inputs to compare on."
    ),
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
    click.option(
        "--force-inference", is_flag=True, help="Read training mode as inference where no statistics are read."
    ),
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
    click.option(
        "--max-growth", type=click.IntRange(0), metavar="BYTES", help="What copies of shared weights may add."
    ),
    click.option("--only", multiple=True, metavar="OP", help="Let only these operators take part in folding."),
    click.option("--except", "excluded", multiple=True, metavar="OP", help="Keep these operators out of folding."),
    click.option(
        "--all-affines", is_flag=True, help="Fold constant Mul, Add, … too where no BatchNormalization stands."
    ),
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
    click.option(
        "--assert-none", default="", metavar="OP[,OP]", help="Exit with code 4 if any of these operators is left."
    ),
)

report_options = stack(
    click.option("--report", type=ReportFile(), help="Write the report, for programs or for people."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output."),
)

output_options = stack(
    report_options,
    click.option(
        "--external-data", default="auto", show_default=True, help="auto, keep, none, or the data file's name."
    ),
    click.option(
        "--size-threshold",
        type=click.IntRange(0),
        default=1024,
        show_default=True,
        metavar="BYTES",
        help="Weights of fewer bytes stay in the model, whatever --external-data says.",
    ),
    click.option("--in-place", is_flag=True, help="Allow OUT to be IN."),
    click.option("--no-verify", is_flag=True, help="Do not compare the result with the original."),
    click.option(
        "--verify",
        "depth",
        type=click.Choice(["auto", "full", "local", "none"]),
        default="auto",
        show_default=True,
        help="Compare whole models, each rewrite on its own, or what time allows.",
    ),
    click.option("--require-verified", is_flag=True, help="Exit with code 3 where the result could not be verified."),
    click.option(
        "--keep-failed",
        type=click.Path(dir_okay=False),
        help="Where to put a result that failed verification.",
    ),
    click.option("--jobs", type=click.IntRange(1), help="Worker processes for a folder.  [default: one a core]"),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Dask cluster to use for a folder: the address of its scheduler, or a scheduler file (.json).",
    ),
    click.option("--force", is_flag=True, help="Redo models of a folder whose output is up to date."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings."),
    click.option(
        "-v", "--verbose", is_flag=True, help="Print every BatchNormalization, not only what needs attention."
    ),
)

source_argument = click.argument("source", metavar="IN", type=click.Path())
paths = stack(source_argument, click.argument("output", metavar="OUT", type=click.Path()))
target_option = click.option(
    "--target-opset", type=TargetOpset(), default=None, help="Opset to reach.  [default: 15, unless the model is newer]"
)
