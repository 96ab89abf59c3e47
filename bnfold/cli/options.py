"""The options of the command line: made from the fields of `bnfold.settings`, and read back into those classes."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import wraps
from typing import Any, Literal, get_args, get_origin

import click

from bnfold.batch.addresses import without_password
from bnfold.cli import terminal
from bnfold.cli.completion import among, choices, ir_versions, operators, opsets, rewrites
from bnfold.cli.invocation import CliOptions, named, read_invocation
from bnfold.cli.project import project
from bnfold.errors import EXIT_INTERRUPTED, BadSetting, BnfoldError, machine_trouble, printable
from bnfold.settings import NORMALIZATIONS, Options, OutputOptions, Policy, VerifyOptions
from bnfold.settings.checked import type_hints
from bnfold.settings.python_words import FLAGS

CommandFunction = Callable[..., Any]


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read a shape; other tools write NAME:2,3,224,224 and NAME:2x3x224x224."""
    name, _, dims = text.rpartition("=" if "=" in text else ":")
    if not name or not re.fullmatch(r"[\d\s,x]*", dims):
        raise click.BadParameter(f"{text!r} is not of the form NAME=2,3,224,224")
    return name, tuple(int(dim) for dim in re.split("[,x]", dims) if dim.strip())


def _domain_opset(text: str) -> tuple[str, int]:
    domain, _, version = text.rpartition("=")
    if not domain or not version.strip().isdecimal():
        raise click.BadParameter(f"{text!r} is not of the form DOMAIN=2")
    return domain, int(version)


def _target(text: str) -> int | str:
    try:
        return text if text in ("keep", "latest", "lowest") else int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither an opset number nor 'keep', 'latest' or 'lowest'") from None


def _one_opset(_: click.Context, option: click.Parameter, values: Sequence[int | str]) -> int | str | None:
    """Return the opset, whichever of its names gave it, and however often."""
    different = [*dict.fromkeys(values)]
    if len(different) > 1:
        names, stated = " and ".join(reversed(option.opts)), " and ".join(map(str, different))
        raise click.BadParameter(f"{stated} contradict each other: {names} are two names of one option")
    return different[0] if different else None


def _ir_version(text: str) -> int | str:
    try:
        return text if text in ("auto", "keep") else int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither an IR version nor 'auto' nor 'keep'") from None


def _listed(text: str) -> tuple[str, ...]:
    if text.endswith(".onnx"):
        raise click.BadParameter(f"took the model {text} for an optimiser's name; write --simplify behind the models")
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _tolerance(text: str) -> float | str:
    with suppress(ValueError):
        if text in ("float16", "bfloat16") or 0 < float(text) < math.inf:
            return text if text in ("float16", "bfloat16") else float(text)
    raise click.BadParameter(f"{text!r} is neither a positive number nor 'float16' or 'bfloat16'")


def _value(text: str) -> str:
    if text.endswith((".onnx", ".xml")):
        raise click.BadParameter(f"took the model {text} for a value's name; write --explain behind the models")
    return text


def _report(text: str) -> str:
    if not text.endswith((".json", ".html", ".md")):
        raise click.BadParameter(f"{text!r} ends neither in .json nor in .html nor in .md")
    return text


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


BARE = "project"
"""What ``--assert-none`` without a value means: what pyproject.toml says, by default BatchNormalization."""


def _forbidden(text: str) -> frozenset[str]:
    if text == BARE:
        text = project().settings.get("assert_none", "BatchNormalization")
    return _names(text)


STATED = {
    member.name: (kind, member)
    for kind in (Options, Policy, VerifyOptions, OutputOptions, CliOptions)
    for member in fields(kind)
}
_OPERATOR = {
    "metavar": "OP",
    "multiple": True,
    "callback": lambda *given: frozenset(given[2]),
    "shell_complete": among(operators),
}
FORMS: dict[str, dict[str, Any]] = {
    "target_opset": {
        "type": _target,
        "metavar": "N|KEEP|LATEST|LOWEST",
        "multiple": True,
        "callback": _one_opset,
        "shell_complete": among(opsets),
    },
    "ir_version": {"type": _ir_version, "metavar": "N|AUTO|KEEP", "shell_complete": among(ir_versions)},
    "decompose_ops": {
        "type": _names,
        "default": "BatchNormalization",
        "metavar": "OP[,OP]",
        "shell_complete": among(lambda: NORMALIZATIONS, several=True),
    },
    "assert_none": {
        "type": _forbidden,
        "default": "",
        "show_default": False,
        "metavar": "[OP,…]",
        "is_flag": False,
        "flag_value": BARE,
        "shell_complete": among(operators, several=True),
    },
    "disable": {
        "type": _names,
        "default": "",
        "show_default": False,
        "metavar": "NAME[,NAME]",
        "shell_complete": among(rewrites, several=True),
    },
    "only": _OPERATOR,
    "excluded": _OPERATOR,
    "simplify": {
        "shell_complete": among(lambda: choices(type_hints(Options)["simplify"]), several=True),
        "type": _listed,
        "default": "",
        "show_default": False,
        "metavar": "[NAME,…]",
        "is_flag": False,
        "flag_value": "onnxscript",
    },
    "max_growth": {"metavar": "BYTES"},
    "fix_shapes": {
        "type": _shape,
        "metavar": "NAME=SHAPE",
        "multiple": True,
        "callback": lambda *given: dict(given[2]),
    },
    "domain_opsets": {
        "type": _domain_opset,
        "metavar": "DOMAIN=N",
        "multiple": True,
        "callback": lambda *given: dict(given[2]),
    },
    "plugin": {"metavar": "MODULE", "multiple": True},
    "inputs": {"type": _shape, "metavar": "NAME=SHAPE", "multiple": True, "callback": lambda *given: dict(given[2])},
    "data": {"type": click.Path(exists=True)},
    "tolerance": {"type": _tolerance, "show_default": False, "metavar": "T|FLOAT16|BFLOAT16"},
    "explain": {"type": _value, "metavar": "[VALUE]", "is_flag": False, "flag_value": "", "show_default": False},
    "save": {"type": click.Path(file_okay=False), "metavar": "DIR"},
    "report": {"type": _report, "metavar": "FILE.JSON|FILE.HTML|FILE.MD", "multiple": True},
    "size_threshold": {"metavar": "BYTES"},
    "exclude": {"metavar": "PATTERN", "multiple": True},
    "keep_failed": {"type": click.Path(dir_okay=False)},
    "scheduler": {"metavar": "ADDRESS"},
}
"""What the command line asks for in a form of its own."""
DEFAULTS = {"target_opset": "15, unless the model is newer", "jobs": "one per core"}
"""Defaults that are no value."""


def option(name: str, *flags: str, **form: Any) -> Callable[[CommandFunction], CommandFunction]:
    """Return the option for a field of the settings.

    What is given here counts more than what follows from the field.
    """
    kind, member = STATED[name]
    hint, low = type_hints(kind)[name], member.metadata.get("low")
    found: dict[str, Any] = {"help": _help(name), "default": member.default}
    if hint is bool:
        found["is_flag"] = True
    elif get_origin(hint) is Literal:
        found["type"] = click.Choice(get_args(hint))
    elif low is not None:
        found |= {"type": click.IntRange(low), "metavar": "SECONDS" if name.endswith("seconds") else "N"}
    found["show_default"] = hint is not bool and member.default is not None
    found |= FORMS.get(name, {}) | form
    if found.get("multiple"):
        del found["default"]
    return click.option(*(flags or _flags(name)), name, **found)


def _flags(name: str) -> tuple[str, ...]:
    return FLAGS.get(name, (f"--{name.replace('_', '-')}",))


def _help(name: str) -> str:
    """Return what a field says of itself, and a default that is no value."""
    default = f"  [default: {DEFAULTS[name]}]" if name in DEFAULTS else ""
    return f"{STATED[name][1].metadata['help']}{default}"


def takes(
    *options: str | Callable[[CommandFunction], CommandFunction],
    exit_code: int | None = None,
    reads: Sequence[str] = ("source",),
    **settled: Any,
) -> Callable[[CommandFunction], CommandFunction]:
    """Give a command options, by their fields' names, in the order of its help; ``settled`` is what it decides.

    ``exit_code`` is that of every error, where 1 says something else; ``reads`` are the arguments that name its inputs.
    """

    def decorate(command: CommandFunction) -> CommandFunction:
        @wraps(command)
        def run(**arguments: Any) -> None:
            _import_numpy()
            with user_errors(named(arguments, reads), exit_code):
                command(read_invocation(arguments | settled))

        made: CommandFunction = run
        for each in reversed(options):
            made = (option(each) if isinstance(each, str) else each)(made)
        return made

    return decorate


def _stated_by(name: str) -> str:
    """Return the option, or the file that its value comes from."""
    from click.core import ParameterSource

    ctx = click.get_current_context(silent=True)
    is_default = ctx is not None and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
    return f"{project().file}: [tool.bnfold] {_flags(name)[-1].lstrip('-')}" if is_default else _flags(name)[-1]


def _import_numpy() -> None:
    """Import numpy, with one thread for its BLAS unless the user wants more.

    Its threads spin at the import and after each product, which costs more than it gains. Processes that are started
    later keep their own setting.
    """
    name = "OPENBLAS_NUM_THREADS"
    if name in os.environ:
        return
    os.environ[name] = "1"
    try:
        import numpy as np  # noqa: F401
    finally:
        del os.environ[name]


@contextmanager
def user_errors(sources: Sequence[str], exit_code: int | None = None) -> Iterator[None]:
    """Turn the user's mistakes and the machine's limits into one line and an exit code; anything else is a bug.

    The line names one of the ``sources``: the first, where it would name none.
    """
    try:
        yield
    except BnfoldError as error:
        text = str(error)
        if isinstance(error, BadSetting):
            text = f"{_stated_by(error.name)}: {error.problem}"
        prefix = "" if any(printable(source) in text for source in sources) else f"{sources[0]}: "
        terminal.say(without_password(f"bnfold: {prefix}{text}"))
        terminal.next_step(getattr(error, "verdict", None))
        sys.exit(exit_code or error.exit_code)
    except KeyboardInterrupt:
        terminal.say("bnfold: interrupted; nothing was written")
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if not (trouble := machine_trouble(error)):
            raise
        terminal.say(f"bnfold: {sources[0]}: cannot be processed: {trouble}")
        sys.exit(exit_code or 1)
