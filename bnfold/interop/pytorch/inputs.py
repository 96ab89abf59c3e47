"""What the module is called with, and the same as the graph's inputs: examples, and more drawn after their pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.ir.elements import Array
from bnfold.settings import VerifyOptions
from bnfold.verification.engine import candidates, random_value

VARIATIONS: tuple[Callable[[int, int], int], ...] = (
    lambda axis, size: size + 1 if axis == 0 else 2 * size,
    lambda _, size: size + 1,
    lambda _, size: 2 * size,
    lambda _, size: size,
)
"""Other sizes for dynamic dims, by axis and the example's size. A module may refuse some: a U-Net wants even sides."""


class Inputs:
    """The structure of a call (args and kwargs, however nested) and which of its leaves is which input of the graph.

    Args:
        args: Positional arguments of ``forward``.
        kwargs: Keyword arguments.
        graph_inputs: The graph's inputs, in order.

    Raises:
        BadInput: The call and the graph do not have the same number of tensors.
    """

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], graph_inputs: Sequence[ir.Value]) -> None:
        import torch
        from torch.utils import _pytree

        names = [value.name for value in graph_inputs]
        if set(names) == set(kwargs) and not args:  # named after the parameters: then their order does not matter
            kwargs = {name: kwargs[name] for name in names}
        self.leaves, self._structure = _pytree.tree_flatten((tuple(args), dict(kwargs)))
        self._unflatten = _pytree.tree_unflatten
        self.values = list(graph_inputs)
        self.slots = [slot for slot, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        if len(self.slots) != len(names):
            raise BadInput(
                f"the example inputs hold {len(self.slots)} tensors, the model has {len(names)} inputs: {names}"
            )
        for value, slot in zip(graph_inputs, self.slots, strict=True):
            if not value.takes(shape := tuple(self.leaves[slot].shape)):
                wanted = tuple(value.shape or ())
                raise BadInput(f"the example for input {value.name!r} has the shape {shape}, the model wants {wanted}")

    def call(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of ``forward``."""
        args, kwargs = self._unflatten(list(leaves), self._structure)
        return args, kwargs

    def feeds(self, leaves: Sequence[Any]) -> dict[str, Array]:
        """Return the same for the graph; floats as float64, exactly."""
        return {value.name: as_array(leaves[slot]) for value, slot in zip(self.values, self.slots, strict=True)}

    def shapes(self, leaves: Sequence[Any]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input of the graph."""
        return {value.name: tuple(leaves[slot].shape) for value, slot in zip(self.values, self.slots, strict=True)}

    def draws(self, seed: int, sample: int) -> Iterator[list[Any]]:
        """Yield seeded values like the examples.

        Of other sizes where dims are dynamic, the examples' own sizes at last.
        """
        tried: list[list[tuple[int, ...]]] = []
        first = (sample - 1) % (len(VARIATIONS) - 1)
        for variation in (*VARIATIONS[first:-1], *VARIATIONS[:first], VARIATIONS[-1]):
            shapes = self._varied(variation)
            if shapes not in tried:
                tried.append(shapes)
                yield self._drawn(shapes, seed, sample)

    def _varied(self, variation: Callable[[int, int], int]) -> list[tuple[int, ...]]:
        """Return sizes by symbol, so that dims that inputs share stay shared.

        Where one is a formula, none is varied.
        """
        examples = [tuple(self.leaves[slot].shape) for slot in self.slots]
        declared = [value.shape or [None] * len(example) for value, example in zip(self.values, examples, strict=True)]
        symbols = [dim for dims in declared for dim in dims if isinstance(dim, str)]
        if not all(symbol.isidentifier() for symbol in symbols):
            return examples
        sizes: dict[str, int] = {}
        for dims, example in zip(declared, examples, strict=True):
            for axis, (dim, size) in enumerate(zip(dims, example, strict=True)):
                if isinstance(dim, str):
                    sizes.setdefault(dim, variation(axis, size))
        return [
            tuple(sizes[dim] if isinstance(dim, str) else size for dim, size in zip(dims, example, strict=True))
            for dims, example in zip(declared, examples, strict=True)
        ]

    def _drawn(self, shapes: Sequence[tuple[int, ...]], seed: int, sample: int) -> list[Any]:
        leaves = list(self.leaves)
        for index, (value, slot, shape) in enumerate(zip(self.values, self.slots, shapes, strict=True)):
            leaves[slot] = _like(leaves[slot], value, shape, (seed, sample, index))
        return leaves


def _like(example: Any, value: ir.Value, shape: tuple[int, ...], key: tuple[int, int, int]) -> Any:
    """Draw floats as `verification` draws them; whole numbers (indices, masks) are drawn from those of the example."""
    import torch

    seed, sample, index = key
    if example.is_floating_point():
        numbers = np.asarray(random_value(value, shape, seed, sample - 1), np.float64)
        return torch.from_numpy(numbers).to(example.dtype)
    pool = example.flatten()
    if not pool.numel():
        return example
    picks = np.random.default_rng([seed, sample, index]).integers(0, pool.numel(), shape)
    return pool[torch.from_numpy(np.asarray(picks))]


def as_array(tensor: Any) -> Array:
    """Return a tensor for numpy, which has no bfloat16: floats of any width as float64."""
    plain = tensor.detach().cpu()
    return np.asarray(plain.double().numpy() if plain.is_floating_point() else plain.numpy())


def made_up(model: ir.Model, checks: VerifyOptions) -> Iterator[Inputs]:
    """Make up inputs if no example is at hand: recorded ones, or those that `verification` would try.

    Raises BadInput for an input of unknown rank, or if ``checks.inputs`` names one that is not there.
    """
    import torch

    values = model.required_inputs()
    for feeds, *_ in candidates(model, replace(checks, samples=1)):
        yield Inputs([_tensor(torch, np.asarray(feeds[value.name])) for value in values], {}, values)


def _tensor(torch: Any, array: Any) -> Any:
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def examples(model: ir.Model, example: Any) -> Inputs:
    """Return inputs from what a caller gives: a tensor, a sequence of positional, or a mapping of keyword arguments."""
    import torch

    values = model.required_inputs()
    if isinstance(example, torch.Tensor):
        return Inputs([example], {}, values)
    if isinstance(example, Mapping):
        return Inputs([], example, values)
    return Inputs(list(example), {}, values)
