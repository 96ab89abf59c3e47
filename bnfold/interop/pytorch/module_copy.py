"""A copy of the user's module to compare with: in evaluation mode, and in float64 if it runs in float64."""

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


class ModuleCopy:
    """A copy of a module that is run in float64, or else in the precision of the module.

    Attributes:
        precision: ``float64``, or ``stored`` if the copy in float64 fails or returns narrower floats.
        notes: The reason if it is not float64.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._copy = _attempt(lambda: _evaluating(module).double(), "cannot be copied")
        self.precision: Literal["float64", "stored"] = "float64"
        self.notes: list[str] = []

    def run(self, inputs: Inputs, leaves: Sequence[Any]) -> list[Array]:
        """Return the tensors that the module returns, in order, with floats as float64. Raises CannotRun."""
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
        """Run the module in its own precision, now and from here on.

        If that fails as well, the cause is the inputs and not float64, so the copy in float64 stays in use.
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
    with suppress(NotImplementedError):  # an ExportedProgram has one mode and refuses eval()
        copied.eval()
    return copied


def _attempt(action: Callable[[], T], what: str) -> T:
    """Call the module, and turn any exception into CannotRun.

    The module is the user's code and may raise anything; an exception says nothing about the model.
    """
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
