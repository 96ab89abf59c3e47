"""How the command line answers habits from other tools: ``bnfold IN OUT``, and those tools' options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import NoArgsIsHelpError

from bnfold.batch.addresses import MAGIC, STREAM
from bnfold.cli.habits import COMMANDS, COUNTERPARTS, OF_OTHERS, numbered
from bnfold.cli.needs import COMMON, NEEDS
from bnfold.cli.project import project
from bnfold.errors import WrongUsage, printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXAMPLES = {
    "main": (
        ("bnfold model.onnx out.onnx", "short for optimize"),
        ("bnfold inspect model.onnx", "what would happen, and why"),
        ("bnfold optimize models/ out/", "every model in a folder"),
    ),
    "optimize": (
        ("bnfold optimize model.onnx out.onnx", "opset 15, and fold"),
        ("bnfold optimize model.onnx out.onnx --opset 18", "a newer opset"),
        ("bnfold optimize *.onnx out/", "many models"),
        ("bnfold optimize model.onnx --in-place", "overwrite the model"),
        ("bnfold optimize a.onnx b.onnx --fix-shapes x=1,3,224,224", "close open sizes"),
        ("bnfold optimize a.onnx b.onnx --report why.html", "with an HTML report"),
        ("bnfold optimize a.onnx b.onnx --simplify", "other passes, too"),
    ),
    "fold": (
        ("bnfold fold model.onnx out.onnx", "keep the opset"),
        ("bnfold fold model.onnx --in-place", "overwrite the model"),
    ),
    "upgrade": (
        ("bnfold upgrade model.onnx out.onnx", "to opset 15"),
        ("bnfold upgrade model.onnx out.onnx --opset 17", "to opset 17"),
    ),
    "convert": (
        ("bnfold convert model.onnx out.onnx --opset 13", "up or down"),
        ("bnfold convert model.onnx out.onnx --opset lowest", "as low as it goes"),
        ("bnfold convert model.onnx out.onnx --ir-version 8", "keep the opset"),
    ),
    "inspect": (
        ("bnfold inspect model.onnx", "a table, and advice"),
        ("bnfold inspect model.onnx --opset lowest", "how low the opset can go"),
        ("bnfold inspect models/ --json", "a folder, as JSON"),
        ("bnfold inspect models/ --as-is --assert-none Conv", "exit code 4 if one"),
    ),
    "run": (("bnfold run a.onnx b.onnx -- python pass.py {input} {output}", "or any tool"),),
    "verify": (
        ("bnfold verify before.onnx after.onnx", "on random inputs"),
        ("bnfold verify before.onnx after.onnx --data inputs.npz", "on your own inputs"),
        ("bnfold verify before.onnx after.onnx --input x=1,3,224,224", "set dynamic sizes"),
        ("bnfold verify before.onnx half.onnx --tolerance float16", "a float16 version"),
    ),
    "explain": (("bnfold explain no-handler", "a reason"), ("bnfold explain Conv", "an operator")),
    "completion": (("bnfold completion bash", "to be read when the shell starts"),),
    "diff": (
        ("bnfold diff before.onnx after.onnx", "exit code 1 if any does"),
        ("bnfold diff before.onnx after.onnx --report diff.html", "every difference, drawn"),
        ("bnfold diff before.onnx after.onnx --values", "values, too"),
    ),
}


def _write_examples(command: click.Command, formatter: click.HelpFormatter) -> None:
    rows = EXAMPLES.get(command.name or "", ())
    width = max((len(line) for line, _ in rows), default=0)
    if rows:
        with formatter.section("Examples"):
            for line, meaning in rows:  # one line each, whatever the width: they are there to be copied
                formatter.write(f"  {line:{width}}  {meaning}\n")


GROUPS = {
    "Conversion": (
        *(
            "target_opset",
            "ir_version",
            "ml_opset",
            "fix_shapes",
            "constants",
            "decompose",
            "decompose_form",
            "decompose_ops",
        ),
        "assert_none",
    ),
    "What to fold": (
        *(
            "as_is",
            "all_affines",
            "merge_branches",
            "equalize",
            "exchange",
            "quantization",
            "only",
            "excluded",
            "disable",
        ),
        *("overridable", "max_growth"),
    ),
    "Simplifying": ("no_simplify", "group_norm", "simplify", "step_seconds"),
    "Operators of your own": ("plugin", "domain_opsets"),
    "Old files": ("legacy_mode", "force_inference", "saved_var"),
    "Verification": (
        *(
            "depth",
            "no_verify",
            "require_verified",
            "tolerance",
            "frozen",
            "inputs",
            "data",
            "runtime",
            "verify_seconds",
        ),
        *("samples", "seed", "explain", "save", "values"),
    ),
    "Output": (
        "report",
        "as_json",
        "output_format",
        "in_place",
        "dry_run",
        "external_data",
        "size_threshold",
        "keep_failed",
        "latency",
        "quiet",
        "verbose",
    ),
    "Many models": ("exclude", "jobs", "scheduler", "force"),
}
"""Options by what they are about, in the order of the help."""
HELP_ALL = "--help-all"


def _show_all(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Print the help with every option, of a group with the help of every command, and end."""
    if not is_asked:
        return
    ctx.meta[HELP_ALL] = True
    click.echo(ctx.get_help(), color=ctx.color)
    for name, command in ctx.command.commands.items() if isinstance(ctx.command, click.Group) else ():
        with click.Context(command, ctx, info_name=name) as inner:
            click.echo(f"\n{inner.get_help()}", color=ctx.color)
    ctx.exit()


def _help_all(text: str) -> click.Option:
    return click.Option([HELP_ALL], is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help=text)


_GROUPED = frozenset().union(*GROUPS.values())


def _is_rare(parameter: click.Parameter) -> bool:
    """Whether an option is in the long help only."""
    return parameter.name in _GROUPED - COMMON


class Command(click.Command):
    """A command whose help has examples and groups of options, and whose usage errors name what a newcomer meant."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        *params, short = super().get_params(ctx)
        return [*params, *([_help_all("Show every option, and exit.")] if any(map(_is_rare, params)) else []), short]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self, formatter)
        shows_all = HELP_ALL in ctx.meta
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        shown = [each for each in options if shows_all or not _is_rare(each)]
        rows = {each.name: row for each in shown if (row := each.get_help_record(ctx)) is not None}
        for title, names in GROUPS.items():
            found = [rows.pop(name) for name in names if name in rows]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        with formatter.section("Options"):
            formatter.write_dl([*rows.values()])
        if left := len(options) - len(shown):
            formatter.write(f"\n{left} more options: {ctx.command_path} {HELP_ALL}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not {"-h", "--help", HELP_ALL} & {*args}:
            self._read_project(ctx)
        given = list(args)  # what parses them takes them off the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if self.name == "run" and "--" not in given:
                text = f"No such option {error.option_name!r}: bnfold's options come first, then IN OUT -- COMMAND."
                raise click.UsageError(text, ctx) from error
            raise _counterpart(error, ctx) from error
        except click.UsageError as error:
            hint = _too_many(error.message, given)
            if not hint:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}: {hint}.", ctx) from error

    def _read_project(self, ctx: click.Context) -> None:
        """Let pyproject.toml state the defaults of this command's options."""
        names = {each.name for each in self.params if isinstance(each, click.Option)}
        if not names & {"target_opset", "assert_none", "exclude"}:
            return
        try:
            found = project()
        except WrongUsage as error:
            raise click.UsageError(str(error), ctx) from error
        ctx.default_map = {name: value for name, value in found.settings.items() if name in names}


def _too_many(message: str, args: list[str]) -> str:
    """Return what was meant by one argument too many, if anything is known."""
    if "unexpected extra argument" not in message:
        return ""
    if sum(argument.endswith(".onnx") for argument in args) > 2:
        return "to process many models, give a folder, or a pattern in quotes: 'models/*.onnx'"
    return next((numbered(argument) for argument in args[2:] if argument.isdecimal()), "")


class Main(click.Group):
    """The command group. Users of other simplifiers write ``bnfold model.onnx out.onnx``: that means ``optimize``."""

    command_class = Command

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        *params, short = super().get_params(ctx)
        return [*params, _help_all("Show every option of every command, and exit."), short]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        width = max(len(need) for need, _ in NEEDS)
        with formatter.section("You need"):
            for need, line in NEEDS:  # one line each, whatever the width: they are there to be copied
                formatter.write(f"  {need:{width}}  bnfold {line}\n")
        _write_examples(self, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands and options; where none begins so, files, since a model may stand where a command would."""
        from click.shell_completion import CompletionItem

        return super().shell_complete(ctx, incomplete) or [CompletionItem(incomplete, type="file")]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self._without_command(args):
            args = ["optimize", *args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = (option for command in self.commands.values() for each in command.params for option in each.opts)
            if error.option_name in known:
                text = f"{error.option_name} belongs behind the command: bnfold COMMAND … {error.option_name}"
                raise click.UsageError(text, ctx) from error
            raise _counterpart(error, ctx) from error

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _printable_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _printable_errors():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if meant := COMMANDS.get(args[0]):
                raise click.UsageError(f"No such command {args[0]!r}: use {meant}.", ctx) from error
            if "Did you mean" in error.format_message():
                raise
            known = ", ".join(self.commands)
            text = f"{args[0]!r} is neither a command ({known}) nor a model that exists."
            raise click.UsageError(text, ctx) from error

    def _without_command(self, args: list[str]) -> bool:
        """Whether a model stands where a command would; the options of ``optimize`` may come before it."""
        if not args or args[0] in self.commands:
            return False
        if not args[0].startswith("-") or args[0] == STREAM:
            return _names_models(args[0])
        return not self.commands.keys() & set(args) and any(map(_names_models, args))


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Escape errors: the shell may have put the name of another user's file on the command line.

    An interruption ends in one line.
    """
    try:
        yield
    except click.UsageError as error:
        text = error.format_message()
        if text.isprintable() or isinstance(error, NoArgsIsHelpError):
            raise
        raise click.UsageError(printable(text), error.ctx) from error
    except KeyboardInterrupt:
        from bnfold.cli.terminal import end_interrupted

        end_interrupted()


def _names_models(argument: str) -> bool:
    """Whether it is a model's name, a folder or a pattern; whatever is there, or looks like a model that should be."""
    there = argument == STREAM or "://" in argument or os.path.exists(argument)  # noqa: PTH110 - pathlib would slow --help
    return there or argument.endswith(".onnx") or any(mark in argument for mark in MAGIC)


def _counterpart(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    hint = {**COUNTERPARTS, **OF_OTHERS}.get(error.option_name)
    return click.UsageError(f"No such option {error.option_name!r}: {hint}.", ctx) if hint else error
