#!/usr/bin/env python3
"""Record the public surface of bnfold in tests/surface.json, which tests/test_surface.py compares it with.

    .venv/bin/python scripts/surface.py

The names of the public modules, signatures, fields, the values of enumerations, codes, exit codes, commands with their
options, and the keys of the report. docs/stability.md says what the record promises.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from _environment import ROOT  # first, for its message to users of another Python

# isort: split
import bnfold
from bnfold import errors
from bnfold.cli.commands import main as command_line
from bnfold.report.reasons import Reason
from bnfold.report.rewrites import NAMED
from bnfold.verification.codes import WORDS, Code
from bnfold.verification.saving import AFTER, BEFORE, INPUTS, README

RECORD = ROOT / "tests" / "surface.json"
MODULES = ("bnfold", "bnfold.errors", "bnfold.operators", "bnfold.passes", "bnfold.pytorch", "bnfold.types")
SCHEMA = Path(errors.__file__).parent / "report" / "report.schema.json"


def surface() -> dict[str, Any]:
    """Return the whole surface in plain JSON types."""
    return {
        "modules": {module.__name__: _module(module) for module in modules()},
        "commands": dict(_commands(command_line, "bnfold")),
        "codes": {
            "verdict": {word: sorted(entry.codes) for word, entry in WORDS.items()},
            "evidence": sorted(Code),
            "reason": sorted(reason.code for reason in Reason),
            "rewrite": sorted(NAMED),
        },
        "files": {"--save": sorted((BEFORE, AFTER, INPUTS, README))},
        "report": sorted(set(_keys(json.loads(SCHEMA.read_text(encoding="utf-8"))))),
    }


def modules() -> list[ModuleType]:
    """Return the public modules."""
    return [bnfold, *(getattr(bnfold, name.removeprefix("bnfold.")) for name in MODULES[1:])]


def names(module: ModuleType) -> list[str]:
    """Return the public names of a module; the errors are those that it defines."""
    if module is errors:
        return [
            name
            for name, thing in vars(errors).items()
            if inspect.isclass(thing) and thing.__module__ == errors.__name__
        ]
    return list(module.__all__)


def _module(module: ModuleType) -> dict[str, Any]:
    return {name: _described(getattr(module, name)) for name in sorted(names(module))}


def _described(thing: Any) -> Any:
    if inspect.ismodule(thing):
        return "module"
    if inspect.isfunction(thing):
        return _signature(thing)
    if typing.is_typeddict(thing):
        return {"fields": {name: _text(hint) for name, hint in inspect.get_annotations(thing).items()}}
    return _class(thing) if inspect.isclass(thing) else _text(thing)


def _class(kind: type) -> dict[str, Any]:
    """Return bases, fields, properties and methods of a class, as far as bnfold defines them."""
    described: dict[str, Any] = {"bases": [base.__qualname__ for base in kind.__bases__ if base is not object]}
    if issubclass(kind, enum.Enum):
        return {**described, "members": sorted(member.name for member in kind)}
    if issubclass(kind, errors.BnfoldError):
        described["exit_code"] = kind.exit_code
    described["fields"] = dict(fields(kind))
    for name, member in members(kind):
        what = "properties" if isinstance(member, property) else "methods"
        described.setdefault(what, {})[name] = _signature(getter(member))
    return described


def fields(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the name of each public field of a dataclass or a named tuple, with its type and default."""
    if dataclasses.is_dataclass(kind):
        for field in kind.__dataclass_fields__.values():  # with those that are only given, as an alias is
            if not field.name.startswith("_"):
                is_made = field.default_factory is not dataclasses.MISSING
                default = " = …" if is_made else "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
                yield field.name, f"{_text(field.type)}{default}"
    elif hints := getattr(kind, "_fields", ()):
        defaults: Mapping[str, Any] = getattr(kind, "_field_defaults", {})
        annotations = inspect.get_annotations(kind)
        for name in hints:
            default = f" = {defaults[name]!r}" if name in defaults else ""
            yield name, f"{_text(annotations[name])}{default}"


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public properties and methods of a class, and how it is made if that does not follow from its fields.

    What returns nothing changes the object, and is bnfold's own, but for `Outcome.save`.
    """
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("bnfold."):
            found.update(vars(base))
    for name, member in sorted(found.items()):
        is_made = name == "__init__" and not dataclasses.is_dataclass(kind)
        if not callable(getter(member)) or inspect.isclass(member) or (name.startswith("_") and not is_made):
            continue
        is_own = getter(member).__annotations__.get("return") in ("None", None) and name not in ("save", "__init__")
        if not is_own:
            yield name, member


def getter(member: Any) -> Any:
    """Return the function behind a property or a method."""
    return member.fget if isinstance(member, property) else getattr(member, "__func__", member)


def _signature(function: Callable[..., Any]) -> str:
    return str(inspect.signature(function)).replace("'", "")


def _text(hint: Any) -> str:
    if isinstance(hint, typing.ForwardRef):
        return hint.__forward_arg__
    return hint if isinstance(hint, str) else inspect.formatannotation(hint)


def _commands(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    hidden = ("--help",)
    given = [name for each in command.params for name in (*each.opts, *each.secondary_opts) if name not in hidden]
    yield path, sorted(given)
    for name, nested in getattr(command, "commands", {}).items():
        yield from _commands(nested, f"{path} {name}")


def _keys(schema: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each key that the schema names; those of a definition begin with its name."""
    if isinstance(schema, list):
        for each in schema:
            yield from _keys(each, path)
    if not isinstance(schema, dict):
        return
    for name, each in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from _keys(each, f"{path}{name}.")
    for name, each in schema.get("$defs", {}).items():
        yield from _keys(each, f"{name}:")
    for word in ("items", "anyOf", "oneOf", "allOf", "additionalProperties"):
        yield from _keys(schema.get(word), path)


def main() -> None:
    """Write the record."""
    RECORD.write_text(json.dumps(surface(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {RECORD.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
