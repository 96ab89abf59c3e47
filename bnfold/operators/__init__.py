"""Register operators of your own domain, so that models with them are folded across, converted and verified.

    register_operator("com.acme", "Swoosh", kernel=swoosh, shape=same_shape, affine=AffineRule(up=…), versions=(1, 2))

`bnfold.register_operator` is the same function. docs/own_operators.md has a worked example. From the command line,
``--plugin MODULE`` imports a module that registers operators; opening a model never does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bnfold.errors import BadSetting
from bnfold.registered import table
from bnfold.registered.table import RegisteredOperator
from bnfold.registered.types import (
    AffineRule,
    AffineStep,
    ChannelAffine,
    DoesNotApply,
    KernelFunction,
    NodeForm,
    OperatorNode,
    ShapeFunction,
    ValueType,
    Versions,
)

__all__ = [
    "AffineRule",
    "AffineStep",
    "ChannelAffine",
    "DoesNotApply",
    "NodeForm",
    "OperatorNode",
    "ValueType",
    "Versions",
    "register_operator",
    "register_runtime_library",
    "unregister_operator",
]


def register_operator(
    domain: str,
    op_type: str,
    *,
    kernel: KernelFunction | None = None,
    shape: ShapeFunction | None = None,
    affine: AffineRule | None = None,
    versions: Versions | Iterable[int] | None = None,
) -> None:
    """Say what an operator of another domain computes, for this process.

    What is registered is believed where bnfold rewrites, and is the caller's word where it verifies: the same kernel
    computes the model before and after, and verdicts say so. If a model has a function of this domain and name, the
    function counts.

    Args:
        domain: The domain, such as ``com.acme``. Not one of ONNX: its operators mean what ONNX says.
        op_type: The operator.
        kernel: ``kernel(*inputs, **attributes)`` in numpy. Floats of any width arrive as float64, read-only, and
            have to be returned so; inputs that are left out are None, attributes that are not written out are not
            passed. It returns an array, or a tuple of one for each output. It may raise ValueError for inputs that do
            not fit together, and `DoesNotApply` for a form that it does not compute.
        shape: ``shape(*inputs, **attributes)``, with a `ValueType` in place of each array. It returns a list with the
            `ValueType` of each output. It is asked once the rank of every input is known.
        affine: How a scale and a shift of each channel pass the operator, or are absorbed by its weights.
        versions: The versions of the domain in which the operator means this, and how nodes reach them; None for
            every version. Register an operator once for each meaning that it had.

    Raises:
        BadSetting: The domain is ONNX's, bnfold knows the operator, it is registered already in one of these versions
            (`unregister_operator` takes that back), or an argument is none of the above.

    Examples:
        >>> import numpy as np
        >>> import bnfold
        >>> bnfold.register_operator("com.acme", "Double", kernel=lambda x: 2 * x, shape=lambda x: [x])
        >>> bnfold.operators.unregister_operator("com.acme", "Double")
    """
    _check_name(domain, op_type)
    for name, function in (("kernel", kernel), ("shape", shape)):
        if function is not None and not callable(function):
            raise BadSetting(name, f"{function!r} is no function")
    if affine is not None:
        _check_rule(affine)
    if kernel is None and shape is None and affine is None:
        raise BadSetting("kernel", "give at least one of kernel, shape and affine")
    chosen = _versions(versions)
    operator = RegisteredOperator(domain, op_type, kernel, shape, affine, chosen, _module(kernel, shape, affine))
    for other in table.registrations(domain, op_type):
        if (both := _shared(chosen, other.versions)) is not None:
            by = f" by {other.module}" if other.module else ""
            problem = f"{operator.name} is registered already for {both}{by}"
            raise BadSetting("versions", f"{problem}; bnfold.operators.unregister_operator takes that back")
    table.enter(operator)


def unregister_operator(domain: str, op_type: str) -> None:
    """Take back all that was registered for an operator.

    Raises:
        BadSetting: Nothing was.
    """
    if not table.remove(domain, op_type):
        raise BadSetting("op_type", f"{domain}::{op_type} is not registered")


def register_runtime_library(path: str | os.PathLike[str]) -> None:
    """Let onnxruntime load a library of custom operators wherever bnfold runs or opens a model, in this process.

    It is what ``SessionOptions.register_custom_ops_library`` takes. A model whose operators it has is then verified
    with an independent runtime, beside the kernels that are registered.

    Args:
        path: The library's file. It is loaded in the processes that run onnxruntime, and not here.

    Raises:
        BadSetting: There is no such file.
    """
    file = Path(path).absolute()
    if not file.is_file():
        raise BadSetting("path", f"there is no file {file}")
    table.LIBRARIES[str(file)] = None


def _check_name(domain: object, op_type: object) -> None:
    for name, text in (("domain", domain), ("op_type", op_type)):
        if not isinstance(text, str):
            raise BadSetting(name, f"{text!r} is no text")
    assert isinstance(domain, str)
    if domain in ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training") or domain.startswith("ai.onnx.preview"):
        own = "onnx's own domain" if domain in ("", "ai.onnx") else f"the domain {domain}"
        why = "what its operators mean is ONNX's to say, and a later version of it may define this one"
        raise BadSetting("domain", f"{op_type!r} cannot be registered in {own}: {why}; choose a domain of your own")
    if not op_type:
        raise BadSetting("op_type", "it is empty")
    from bnfold.folding.ops.registry import INTEGERS
    from bnfold.ir.node import OF_ONNXRUNTIME
    from bnfold.reference.dispatch import has_own_kernel

    is_known = domain == "com.microsoft" and op_type in INTEGERS | OF_ONNXRUNTIME
    if is_known or has_own_kernel(domain, str(op_type)):
        raise BadSetting("op_type", f"bnfold knows {domain}::{op_type} already")


def _check_rule(rule: object) -> None:
    if not isinstance(rule, AffineRule):
        raise BadSetting("affine", f"{rule!r} is no AffineRule")
    for name, function in (("up", rule.up), ("down", rule.down)):
        if function is not None and not callable(function):
            raise BadSetting("affine", f"{name}={function!r} is no function")
    if rule.up is None and rule.down is None:
        raise BadSetting("affine", "give up or down, or leave it out")
    if rule.axis is not None and (isinstance(rule.axis, bool) or not isinstance(rule.axis, int)):
        raise BadSetting("affine", f"axis={rule.axis!r} is neither a whole number nor None")


def _versions(versions: Versions | Iterable[int] | None) -> Versions | None:
    if versions is None:
        return None
    given = versions if isinstance(versions, Versions) else Versions(_numbers(versions))
    numbers = _numbers(given.numbers)
    wrong = [each for each in numbers if isinstance(each, bool) or not isinstance(each, int) or each < 1]
    if wrong or not numbers:
        raise BadSetting("versions", f"{wrong[0]!r} is no version: 1, 2, …" if wrong else "there are none")
    for name, step in (("upgrade", given.upgrade), ("downgrade", given.downgrade)):
        if step is not None and not callable(step):
            raise BadSetting("versions", f"{name}={step!r} is no function")
    return Versions(tuple(sorted(set(numbers))), given.upgrade, given.downgrade)


def _numbers(given: object) -> tuple[Any, ...]:
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise BadSetting("versions", f"{given!r} is neither Versions nor a list of numbers, such as (1, 2)")
    return tuple(given)


def _shared(one: Versions | None, other: Versions | None) -> str | None:
    """Return the versions that two registrations share, in words; None if there are none."""
    if one is None and other is None:
        return "every version"
    sets = [set(each.numbers) for each in (one, other) if each is not None]
    numbers = sorted(set.intersection(*sets))
    return f"version {', '.join(map(str, numbers))}" if numbers else None


def _module(*parts: object) -> str:
    """Return the name of the module that says what the operator is: that of the first function."""
    for part in parts:
        function = (part.up or part.down) if isinstance(part, AffineRule) else part
        if name := getattr(function, "__module__", ""):
            return str(name)
    return ""
