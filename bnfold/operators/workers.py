"""Registered operators for worker processes: the plugins that this process loaded, and the functions of the others."""

from __future__ import annotations

import hashlib
import inspect
import multiprocessing
import sys
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import NamedTuple

from bnfold.errors import BadSetting
from bnfold.operators import plugins
from bnfold.registered import table
from bnfold.registered.table import RegisteredOperator


class Registrations(NamedTuple):
    """What a worker process has to know: plugins, operators that no plugin registered, and libraries of onnxruntime."""

    plugins: tuple[str, ...]
    operators: tuple[RegisteredOperator, ...]
    libraries: tuple[str, ...]


def registrations_for_workers() -> Registrations:
    """Return what was registered in this process.

    Raises:
        BadSetting: Processes that inherit nothing cannot import the functions of an operator.
    """
    operators = tuple(each for each in table.all_operators() if each not in plugins.REGISTERED)
    if multiprocessing.get_start_method() != "fork":
        for operator in operators:
            for name, function in _functions(operator):
                if problem := _problem(function):
                    what = f"worker processes cannot import the {name} of {operator.name}, which was registered here"
                    helps = "define it at the top level of a module, or take jobs=1"
                    raise BadSetting("jobs", f"{what}: {problem}; {helps}")
    return Registrations(plugins.loaded(), operators, tuple(table.LIBRARIES))


def register_in_worker(given: Registrations) -> None:
    """Register what another process knows; what is registered here already, as its module was imported, stays."""
    plugins.load_plugins(given.plugins)
    for operator in given.operators:
        own = table.registrations(operator.domain, operator.op_type)
        if operator.first_version not in {each.first_version for each in own}:
            table.enter(operator)
    table.LIBRARIES.update(dict.fromkeys(given.libraries))


def _functions(operator: RegisteredOperator) -> Iterator[tuple[str, object]]:
    yield "kernel", operator.kernel
    yield "shape function", operator.shape
    for kind, rule, names in (
        ("rule", operator.affine, ("up", "down")),
        ("step between versions", operator.versions, ("upgrade", "downgrade")),
    ):
        yield from ((f"{kind} ({name})", getattr(rule, name)) for name in names if rule is not None)


def _problem(function: object) -> str:
    """Return why another process cannot have a function; empty if it can."""
    if getattr(function, "__module__", "") == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        return "it was typed in a session, and is in no file"
    try:
        ForkingPickler.dumps(function)
    except Exception as error:  # noqa: BLE001 - whatever objects raise that cannot be pickled
        return " ".join(str(error).split())
    return ""


def registration_of(operator: RegisteredOperator) -> str:
    """Return a text that changes with what was registered, and with the files of its functions."""
    files = {inspect.getsourcefile(function) for _, function in _functions(operator) if inspect.isfunction(function)}
    contents = [Path(file).read_bytes() for file in sorted(filter(None, files)) if Path(file).is_file()]
    names = [
        f"{name} {getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        for name, function in _functions(operator)
        if function is not None
    ]
    numbers = operator.versions.numbers if operator.versions is not None else None
    return f"{operator.name} {numbers} {names} {hashlib.sha256(b''.join(contents)).hexdigest()}"
