"""The module to compare with: a copy in evaluation mode, in float64 if it runs in that; the caller's stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

from bnfold.interop.pytorch.inputs import Inputs, as_array
from bnfold.ir.elements import Array

T = TypeVar("T")


class CannotRun(Exception):
    """The module cannot be copied, or does not take these inputs; the message says why."""


class Twin:
    """See the module's text.

    Attributes:
        precision: ``float64``, or ``stored`` after the copy in float64 failed or gave narrower floats.
        notes: Why it is not float64, where it is not.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._copy = _attempt(lambda: _evaluating(module).double(), "cannot be copied")
        self.precision: Literal["float64", "stored"] = "float64"
        self.notes: list[str] = []

    def run(self, inputs: Inputs, leaves: Sequence[Any]) -> list[Array]:
        """Return the tensors that the module returns, in order, floats as float64. Raises CannotRun."""
        if self.precision == "float64":
            try:
                outputs = self._outputs(inputs, [_double(leaf) for leaf in leaves])
            except CannotRun as obstacle:
                return self._in_own_precision(inputs, leaves, f"it does not run in float64 ({obstacle})")
            narrow = next((output.dtype for output in outputs if _is_narrow(output)), None)
            if narrow is not None:
                return self._in_own_precision(inputs, leaves, f"its copy in float64 returns {narrow}")
        else:
            outputs = self._outputs(inputs, leaves)
        return [as_array(output) for output in outputs]

    def _in_own_precision(self, inputs: Inputs, leaves: Sequence[Any], why: str) -> list[Array]:
        """Work from now on as the module is.

        If it does not run on these inputs either, they are to blame, not float64.
        """
        in_float64 = self._copy
        self._copy = _attempt(lambda: _evaluating(self._module), "cannot be copied")
        try:
            outputs = self._outputs(inputs, leaves)
        except CannotRun:
            self._copy = in_float64
            raise
        self.precision = "stored"
        self.notes.append(f"the module was run in its own precision: {why}")
        return [as_array(output) for output in outputs]

    def _outputs(self, inputs: Inputs, leaves: Sequence[Any]) -> list[Any]:
        import torch
        from torch.utils import _pytree

        own = [leaf.detach().cpu().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = inputs.call(own)  # copies, because a module may write to what it is given
        with torch.no_grad():
            result = _attempt(lambda: self._copy(*args, **kwargs), "does not run")
        return [leaf for leaf in _pytree.tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]


def _evaluating(module: Any) -> Any:
    copied = copy.deepcopy(module).cpu()
    with suppress(NotImplementedError):  # of an ExportedProgram, which has one mode, whatever it says
        copied.eval()
    return copied


def _attempt(action: Callable[[], T], what: str) -> T:
    """Run the module, which is the user's code and may raise anything: that says nothing about the model."""
    try:
        return action()
    except Exception as error:
        first = (str(error).strip() or "no message").splitlines()[0]
        raise CannotRun(f"the module {what}: {type(error).__name__}: {first}") from error


def _double(leaf: Any) -> Any:
    import torch

    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.is_floating_point():
        return leaf.double()
    return leaf.to(torch.complex128) if leaf.is_complex() else leaf


def _is_narrow(output: Any) -> bool:
    return bool(output.is_floating_point()) and output.element_size() < 8
