"""Find the weights that a rewrite made, and perturb them by one unit in the last place.

Two evaluations of such disturbed models show what rounding the new weights can do to any value, through any operator
and at any depth, without knowing what the operators mean.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.ir.elements import Array
from bnfold.ir.tensor import numpy_type
from bnfold.reference.precision import widen
from bnfold.verification.tolerance.bits import same
from bnfold.verification.tolerance.floats import FloatType, float_type, is_float

_BLOCK = 1 << 15
"""Numbers that are moved at a time, which stay in the processor's cache; a multiple of 8."""

_FEW = 100_000
"""Fewer new weights (elements) than this are moved in two groups, for a weight and a bias may cancel each other."""


def disturb(values: Array, dtype: int, seed: int, old: ir.Tensor | None = None) -> Array:
    """Move numbers of the onnx type ``dtype`` to the next one, away from zero or towards it by a seeded coin.

    Zeros stay, and so do what would leave the finite numbers and what ``old``, the original's weight of the same name,
    has in the same place: none was rounded. Where all are one number, all move alike, as they were rounded. Subnormal
    numbers stay, because rounding to them loses more than the type's precision, and that is a fault to be seen, not
    noise. Neighbouring floats have neighbouring bit patterns, whatever their width.
    """
    flat, target = np.ascontiguousarray(values).reshape(-1), numpy_type(dtype)
    alike = flat.size > 1 and flat[0] == flat[-1] and bool((flat == flat[0]).all())
    held = old.numpy().reshape(-1) if old is not None and (old.dtype, old.dims) == (dtype, values.shape) else None
    noise = np.frombuffer(np.random.default_rng(seed).bytes((flat.size + 7) // 8), np.uint8)
    result = np.empty(flat.size, target)
    for start in range(0, flat.size, _BLOCK):
        some = slice(start, start + _BLOCK)
        count = min(_BLOCK, flat.size - start)
        tossed = np.unpackbits(noise[:1], count=1) if alike else np.unpackbits(noise[start // 8 :], count=count)
        block, before = flat[some].astype(target, copy=False), held[some] if held is not None else None
        result[some] = _moved(block, tossed.astype(np.int8) * 2 - 1, before, float_type(dtype))
    return result.reshape(values.shape)


def _moved(block: Array, coins: Array, old: Array | None, kind: FloatType) -> Array:
    bits = block.view(f"i{block.dtype.itemsize}")
    moved = (bits + coins.astype(bits.dtype)).view(block.dtype)
    normal = np.abs(block.astype(np.float64)) >= 2.0**kind.min_exponent
    usable = normal & np.isfinite(block) & np.isfinite(moved)
    if old is not None:
        usable &= bits != np.ascontiguousarray(old).view(bits.dtype)
    return np.where(usable, moved, block)


RoundingKey = tuple[str, str]
"""A weight: the path of its graph, and its name."""


class PerturbedWeights:
    """The weights that the rewritten model made, and copies of models with those weights disturbed.

    New is what the original does not store under the same name with the same bytes. Weights that are all short numbers
    (2, .5, 1: exponents, resize factors, fill values) were not rounded and do not count; moving those would change what
    the model means. Weights are compared only on demand, for that reads them.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self._models = before, after
        self._known: dict[RoundingKey, bool] = {}

    @cached_property
    def _old(self) -> dict[RoundingKey, ir.Tensor]:
        return dict(_weights(self._models[0]))

    @cached_property
    def _stored(self) -> dict[RoundingKey, ir.Tensor]:
        return dict(_weights(self._models[1]))

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {name: path for path, name in self._stored}

    def is_new(self, path: str, name: str) -> bool:
        """Whether the rewritten model made the weight."""
        key = (path, name)
        if key not in self._known:
            tensor = self._stored.get(key)
            self._known[key] = tensor is not None and not same(self._old.get(key), tensor) and not is_short(tensor)
        return self._known[key]

    @cached_property
    def removed(self) -> PerturbedWeights:
        """The same of the weights that the original has and the rewritten model has not."""
        return PerturbedWeights(*self._models[::-1])

    @cached_property
    def new(self) -> list[RoundingKey]:
        """All new weights."""
        return [key for key in self._stored if self.is_new(*key)]

    @property
    def are_renamed(self) -> bool:
        """Whether the original stores every new weight as well, under another name: then none was rounded."""
        return all(any(same(old, self._stored[key]) for old in self._old.values()) for key in self.new)

    @cached_property
    def rows(self) -> dict[str, Array]:
        """The rows of each changed table that the original chooses from, first those that differ."""
        found: dict[str, Array] = {}
        for node in self._models[0].nodes():
            table = node.input(0) if node.is_op("Gather") and not node.has_references else None
            key = (table.graph.path, table.name) if table is not None else ("", "")
            old, new, axis = self._old.get(key), self._stored.get(key), int(node.attr("axis", 0)) if table else 0
            if old is None or new is None or old.dims != new.dims or not -len(old.dims) <= axis < len(old.dims):
                continue
            differs = np.moveaxis(old.numpy() != new.numpy(), axis, 0)
            rows = differs.reshape(len(differs), -1).any(axis=1)
            if rows.any():
                found[key[1]] = np.argsort(~rows, kind="stable")
        return found

    def moved(self, most: int) -> dict[str, Array]:
        """Return new initializers of the main graph that have at most so many numbers, perturbed."""
        graph = self._models[1].graph
        return {
            name: disturb(tensor.numpy(), tensor.dtype, zlib.crc32(name.encode()))
            for (path, name), tensor in self._stored.items()
            if not path
            and tensor.size <= most
            and graph.values[name].tensor_proto is not None
            and is_rounded(graph.values[name])
            and self.is_new(path, name)
        }

    def of(
        self, model: ir.Model, round_number: int, names: Mapping[str, str] | None = None, groups: int | None = None
    ) -> list[reference.Alterations]:
        """Return, for the rewritten model, a copy or a region, what moves each group of its new weights.

        There are so many ``groups``, or else two, and one of many weights. Another round disturbs the same groups in
        other directions. The main graph of a region holds weights that came from any graph of the model; ``names`` has
        those that they have there, where they are others.
        """
        named = [(value, (names or {}).get(value.name, value.name)) for value in _values(model)]
        pairs = [(value, self._home(value.graph.path, name)) for value, name in named]
        found = [(value, key) for value, key in pairs if self.is_new(*key) and is_rounded(value)]
        if groups is None:
            groups = 2 if sum(self._stored[key].size for _, key in found) < _FEW else 1
        shares = [dict(found[share::groups]) for share in range(groups)]
        return [{value: self._mover(key, round_number) for value, key in share.items()} for share in shares if share]

    def _home(self, path: str, name: str) -> RoundingKey:
        """Return the graph of the model that a weight of a region came from, whose own paths begin at the region."""
        return (path if (path, name) in self._stored else self._paths.get(name, ""), name)

    def _mover(self, key: RoundingKey, round_number: int) -> Callable[[Any], Any]:
        dtype, seed, old = self._stored[key].dtype, zlib.crc32(key[1].encode(), round_number), self._old.get(key)
        return lambda held: widen(disturb(held, dtype, seed, old))


def is_rounded(value: ir.Value) -> bool:
    """Whether it is a weight of floats; a factor next to 1 makes an image smaller."""
    tensor = stored(value)
    is_factor = any(slot and node.is_op("Resize", "Upsample") for node, slot in value.uses)
    return tensor is not None and is_float(tensor.dtype) and not is_factor


def _values(model: ir.Model) -> list[ir.Value]:
    return [graph.values[name] for graph in model.graphs() for name in sorted(graph.values)]


def stored(value: ir.Value) -> ir.Tensor | None:
    """Return the tensor of an initializer or of a Constant node that holds one."""
    if value.tensor is not None:
        return value.tensor
    return reference.constant(value) if value.producer is not None and value.producer.is_op("Constant") else None


def _weights(model: ir.Model) -> Iterator[tuple[RoundingKey, ir.Tensor]]:
    for graph in model.graphs():
        for name, value in graph.values.items():
            tensor = stored(value)
            if tensor is not None and is_float(tensor.dtype) and tensor.size:
                yield (graph.path, name), tensor


def is_short(tensor: ir.Tensor) -> bool:
    """Whether every element has at most half the significant bits its type offers."""
    if tensor.size > 64:
        return False
    mantissa, _ = np.frexp(tensor.numpy().astype(np.float64))
    steps = np.ldexp(mantissa, float_type(tensor.dtype).precision // 2)
    return bool(np.all(steps == np.floor(steps)))
