"""Options as they are called on the command line, and the same words for callers in Python.

Messages name options as the command line has them. What a function of the public interface raises names the fields of
the settings in their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

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
_SETS = ("only", "excluded", "disable", "decompose_ops")
_BARE = ("values", "in_place", "force_inference", "group_norm", "all_affines", "merge_branches", "equalize")
_FLAG = re.compile(r"(?<![\w-])(?P<flag>--[a-z][a-z-]*)(?:[ =](?P<value>'[^']*'|[\w.-]+(?:=[\w…]+)?(?:,[\w…-]+)*))?")
_VALUE = re.compile(
    r"'.*|\d.*|[A-Z]+(=.*)?|.*=.*|freeze|keep|full|auto|local|none|always|remaining|all|latest|lowest|float16"
)


def in_python(text: str) -> str:
    """Return the text with the fields of the settings in the place of options, where Python has the same."""
    return _FLAG.sub(_field, text)


def _field(match: re.Match[str]) -> str:
    flag, value = match["flag"], match["value"] or ""
    name = _FIELDS.get(flag, flag.removeprefix("--").replace("-", "_"))
    if name not in _HOLDERS:
        return match[0]
    is_word = name in _SETS and re.search("[-,A-Z]", value) is not None
    is_word = is_word or (name == "explain" and match.string.startswith(" --save", match.end()))
    is_value = bool(value) and (is_word or _VALUE.fullmatch(value) is not None)
    rest = "" if is_value or not value else match[0][len(flag) :]
    stated = f"{name}={_literal(name, value) if is_value else 'True' if name in _BARE else '…'}"
    holder = _HOLDERS[name]
    return f"{f'{holder}({stated})' if holder else stated}{rest}"


def _literal(name: str, value: str) -> str:
    """Return a value as Python writes it; ``…`` for what a caller has to choose."""
    value = value.strip("'")
    if name in _SHAPES and "=" in value:
        key, _, dims = value.partition("=")
        return f'{{"{key}": ({", ".join(dims.split(","))})}}'
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
        error.args = _translated(error.args)
        for name, value in vars(error).items():
            if isinstance(value, tuple):  # such as the lines of what is in the way
                setattr(error, name, _translated(value))
        raise


def _translated(values: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(in_python(each) if isinstance(each, str) else each for each in values)
