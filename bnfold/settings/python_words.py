"""Options as they are called on the command line, and the same words for callers in Python.

Messages name options as the command line has them. What a function of the public interface raises names the fields of
the settings in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

from bnfold.errors import BnfoldError
from bnfold.settings.result import VerifyOptions
from bnfold.settings.rewriting import Options, Policy

FLAGS = {
    "target_opset": ("--target-opset", "--opset"),
    "domain_opsets": ("--domain-opset",),
    "excluded": ("--except",),
    "inputs": ("--input",),
    "depth": ("--verify",),
    "as_json": ("--json",),
    "quiet": ("-q", "--quiet"),
    "verbose": ("-v", "--verbose"),
    "values": ("--values/--no-values",),
}
"""Options that are not called as their fields are."""

_FIELDS = {flag: name for name, flags in FLAGS.items() for flag in flags}
_HOLDERS = {
    **{member.name: "" for member in fields(Options)},
    **{member.name: "policy=bnfold.Policy" for member in fields(Policy)},
    **{member.name: "bnfold.VerifyOptions" for member in fields(VerifyOptions)},
    **dict.fromkeys(("values", "tolerance"), ""),
    **dict.fromkeys(("external_data", "in_place"), "outcome.save"),
}
"""What takes a field: empty for keywords of the functions themselves."""
_SHAPES = ("inputs", "fix_shapes")
_MAPPINGS = (*_SHAPES, "domain_opsets")
_SETS = ("only", "excluded", "disable", "decompose_ops")
_BARE = ("values", "frozen", "in_place", "force_inference", "group_norm", "all_affines", "merge_branches", "equalize")
_FLAG = re.compile(
    r"(?<![\w-])(?P<flag>--[a-z][a-z-]*)"
    r"(?:[ =](?P<value>'[^']*'(?:=[\w…]+(?:,[\w…]+)*)?|(?!-)[\w./:-]*\w(?:=[\w…]+)?(?:,[\w…-]+)*))?"
)
_VALUE = re.compile(
    r"'.*|\d.*|[A-Z]+(=.*)?|.*=.*|freeze|keep|full|auto|local|none|always|remaining|all|latest|lowest|b?float16"
)
_TEXTS = ("text", "reason", "message", "notes", "lines")
_HOLDERS_OF_TEXTS = ("next", "explanation", "verdict", "step", "steps", "outcome", "report", "models")
"""Fields of results that are texts for people, and those that hold such results."""
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class _Stated(NamedTuple):
    """A field with a value, what takes it, and how long the text is that says so."""

    holder: str
    name: str
    literal: str
    length: int


def in_python(text: str) -> str:
    """Return the text with the fields of the settings in the place of options, where Python has the same.

    Options that stand one behind the other become the arguments of one call.
    """
    parts: list[str] = []
    run: list[_Stated] = []
    end = 0
    for match in _FLAG.finditer(text):
        stated = _stated(match)
        if stated is None:
            continue
        between = text[end : match.start()]
        if between != " " or not run:
            parts += [_joined(run), between]
            run = []
        run.append(stated)
        end = match.start() + stated.length
    return "".join([*parts, _joined(run), text[end:]])


def _stated(match: re.Match[str]) -> _Stated | None:
    flag, value = match["flag"], match["value"] or ""
    name = _FIELDS.get(flag, flag.removeprefix("--").replace("-", "_"))
    if name not in _HOLDERS:
        return None
    is_of_save = name == "explain" and match.string.startswith(" --save", match.end())
    is_word = name in _SETS and re.search("[-,A-Z]", value) is not None
    is_value = bool(value) and (is_word or is_of_save or _VALUE.fullmatch(value) is not None)
    length = len(match[0]) if is_value else len(flag)
    literal = _literal(name, value) if is_value or is_of_save else "True" if name in _BARE else "…"
    return _Stated(_HOLDERS[name], name, literal, length)


def _joined(run: Sequence[_Stated]) -> str:
    """Return keywords as Python writes them: those of one holder in one call, shapes in one mapping."""
    calls: dict[str, dict[str, str]] = {}
    for stated in run:
        keywords = calls.setdefault(stated.holder, {})
        before = keywords.get(stated.name)
        keywords[stated.name] = f"{before[:-1]}, {stated.literal[1:]}" if before is not None else stated.literal
    listed = {
        holder: ", ".join(f"{name}={value}" for name, value in keywords.items()) for holder, keywords in calls.items()
    }
    return ", ".join(f"{holder}({keywords})" if holder else keywords for holder, keywords in listed.items())


def _literal(name: str, value: str) -> str:
    """Return a value as Python writes it; ``…`` for what a caller has to choose."""
    if name in _MAPPINGS and "=" in value:
        key, _, content = value.replace("'", "").rpartition("=")
        sizes = content.split(",")
        shape = f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
        return f"{{{_quoted(key)}: {shape if name in _SHAPES else content}}}"
    value = value.strip("'")
    if name in _SETS:
        return f"{{{', '.join(_quoted(each) for each in value.split(','))}}}"
    return value if re.fullmatch(r"[\d.e-]+|[A-Z]+", value) else _quoted(value)


def _quoted(text: str) -> str:
    return f'"{text}"'


@contextmanager
def in_python_words() -> Iterator[None]:
    """Let what is raised inside name fields of the settings, not options."""
    try:
        yield
    except BnfoldError as error:
        error.args = translated(error.args)
        for name, value in vars(error).items():
            setattr(error, name, translated(value))
        raise


def speaks_python(function: F) -> F:
    """Let what a function returns and raises name fields of the settings, not options."""

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        with in_python_words():
            return translated(function(*arguments, **keywords))

    return cast("F", call)


def translated(value: T) -> T:
    """Return a text, a sequence or a result with its texts for people in Python's words."""
    result: Any = value
    if isinstance(value, str):
        result = in_python(value)
    elif type(value) is tuple:
        result = tuple(translated(each) for each in result)
    elif type(value) is list:
        result = [translated(each) for each in result]
    elif is_dataclass(value) and not isinstance(value, type):
        names = {member.name for member in fields(value)} & {*_TEXTS, *_HOLDERS_OF_TEXTS}
        result = replace(value, **{name: translated(getattr(value, name)) for name in names})
    return cast("T", result)
