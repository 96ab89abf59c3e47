"""Which weights a rewrite made, and the same model with those weights moved to neighbouring numbers.

Two evaluations of such disturbed models show what rounding the new weights can do to any value, through any operator
and at any depth, without knowing what the operators mean.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bnfold import ir
from bnfold.verify.floats import FLOAT_TYPES, float_type

Array = npt.NDArray[Any]


class Disturbed(ir.Tensor):
    """``base`` with every element moved to the next number of its type, away from zero or towards it by a seeded coin.

    Zeros stay, and so does what would leave the finite numbers: neither was rounded. Subnormal numbers stay, because
    rounding to them loses more than the type's precision, and that is a fault to be seen, not noise.
    """

    __slots__ = ("base", "seed")

    def __init__(self, base: ir.Tensor, seed: int) -> None:
        super().__init__(base.dtype, base.dims)
        self.base, self.seed = base, seed

    def numpy(self) -> Array:
        """Neighbouring floats have neighbouring bit patterns, whatever their width."""
        values = np.ascontiguousarray(self.base.numpy()).reshape(-1)
        bits = values.view(f"i{values.dtype.itemsize}")
        noise = np.frombuffer(np.random.default_rng(self.seed).bytes((values.size + 7) // 8), np.uint8)
        steps = np.unpackbits(noise, count=values.size).astype(bits.dtype) * 2 - 1
        moved = (bits + steps).view(values.dtype)
        normal = np.abs(values.astype(np.float64)) >= 2.0 ** float_type(self.dtype).min_exponent
        usable = normal & np.isfinite(values) & np.isfinite(moved)
        return np.where(usable, moved, values).reshape(self.dims)


class Draws:
    """The weights that the rewritten model made, by graph path, and copies of models with those weights disturbed."""

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self.fresh = new_weights(before, after)
        self._everywhere = frozenset(name for names in self.fresh.values() for name in names)
        self.elements = sum(
            tensor.size
            for graph in after.graphs()
            for name in self.fresh.get(graph.path, ())
            if (tensor := stored(graph.values[name])) is not None
        )

    def of(self, model: ir.Model, groups: int, round_number: int) -> list[ir.Model]:
        """Copies of (a copy of) the rewritten model, each with one of ``groups`` shares of the new weights moved.

        Another round disturbs the same shares in other directions.
        """
        return _copies(model, groups, self.fresh, round_number)

    def of_region(self, region: ir.Model, groups: int, round_number: int) -> list[ir.Model]:
        """The same for a region, whose main graph holds weights that came from any graph of the model."""
        return _copies(region, groups, {**self.fresh, "": self._everywhere}, round_number)


def _copies(model: ir.Model, groups: int, weights: Mapping[str, Collection[str]], round_number: int) -> list[ir.Model]:
    found = [
        (graph.path, name)
        for graph in model.graphs()
        if graph.path in weights
        for name in sorted(graph.values)
        if name in weights[graph.path]
    ]
    shares = [found[share::groups] for share in range(groups)]
    return [_disturbed(model, frozenset(share), round_number) for share in shares if share]


def _disturbed(model: ir.Model, weights: Collection[tuple[str, str]], seed: int) -> ir.Model:
    """A copy of ``model`` whose ``weights`` (graph path, name) are disturbed; all other tensors are shared."""
    copy = model.clone()
    graphs = {graph.path: graph for graph in copy.graphs()}
    for path, name in sorted(weights):
        value = graphs[path].values[name]
        tensor = stored(value)
        if tensor is not None:
            value.tensor = Disturbed(tensor, zlib.crc32(name.encode(), seed))
    return copy


def new_weights(before: ir.Model, after: ir.Model) -> dict[str, set[str]]:
    """The float weights of ``after`` that ``before`` does not store under the same name with the same bytes.

    Weights that are all short numbers (2, .5, 1: exponents, resize factors, fill values) were not rounded and are left
    out; moving those would change what the model means.
    """
    old = {(graph.path, name): tensor for graph in before.graphs() for name, tensor in _weights(graph)}
    found: dict[str, set[str]] = {}
    for graph in after.graphs():
        for name, tensor in _weights(graph):
            if not same(old.get((graph.path, name)), tensor) and not _is_short(tensor):
                found.setdefault(graph.path, set()).add(name)
    return found


def stored(value: ir.Value) -> ir.Tensor | None:
    """The tensor of an initializer or of a Constant node that holds one."""
    if value.tensor is not None:
        return value.tensor
    node = value.producer
    if node is None or not node.is_op("Constant") or not node.has_attr("value"):
        return None
    return value.graph.model.tensor(node.attr("value"))


def same(old: ir.Tensor | None, new: ir.Tensor) -> bool:
    """Whether two tensors have the same type, dims and values, bit for bit."""
    if old is None or (old.dtype, old.dims) != (new.dtype, new.dims):
        return False
    if old is new:
        return True
    return all(np.array_equal(_bits(a), _bits(b)) for a, b in zip(old.blocks(), new.blocks(), strict=True))


def _bits(block: Array) -> Array:
    return block if block.dtype.kind == "O" else np.ascontiguousarray(block).view(np.uint8)


def _weights(graph: ir.Graph) -> Iterator[tuple[str, ir.Tensor]]:
    for name, value in graph.values.items():
        tensor = stored(value)
        if tensor is not None and tensor.dtype in FLOAT_TYPES and tensor.size:
            yield name, tensor


def _is_short(tensor: ir.Tensor) -> bool:
    """Whether every element has at most half the significant bits its type offers."""
    if tensor.size > 64:
        return False
    mantissa, _ = np.frexp(tensor.numpy().astype(np.float64))
    steps = np.ldexp(mantissa, float_type(tensor.dtype).precision // 2)
    return bool(np.all(steps == np.floor(steps)))
