"""Sizes of all values of a model, given those of its inputs; and sizes that two models share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import onnx

from bnfold import ir
from bnfold.errors import Unsupported
from bnfold.ir.inferable import GIVES_UP, graph_pairs, inference_input, is_damaged, refusal
from bnfold.ir.shown import shown_to_onnx
from bnfold.ir.time_limit import look_at_clock
from bnfold.ir.types import filled, forget_shapes, is_inferred
from bnfold.ir.value import Known, shape_of
from bnfold.reference.shapes import state_types
from bnfold.verification.inputs.unification import UnifiedDims, learn_shapes

MANY_NODES = 20_000
"""Beyond this, even inferring shapes is not worth its time."""

_MOST_ROUNDS = 4
_LARGEST = 2**63 - 1
"""The largest size that a file can state; damaged operators may imply a larger one."""


def sized(model: ir.Model, shapes: Mapping[str, Known | None], *, strict: bool = False) -> ir.Model:
    """Return a copy whose inputs have these shapes, as far as they are known, and all else what follows from them.

    The reference's walk follows them first, and onnx's inference where that knows nothing. Raises Unsupported if
    ``strict`` and operators are known not to fit together at these sizes.
    """
    copy = model.clone(partial(_state, shapes))
    if len(copy.graph.nodes) > MANY_NODES:
        return copy
    misfit = state_types(copy)
    if strict and misfit is not None:
        raise Unsupported(f"{misfit.label} cannot run at the sizes of what it reads")
    proto = _with_types(copy)
    if proto is not None:
        for graph, message in graph_pairs(copy, _inferred(proto, strict=strict).graph):
            for info in (*message.value_info, *message.output):
                graph.types[info.name] = filled(graph.types.get(info.name), info.type)
    elif strict and any(map(is_damaged, copy.graph.values.values())):
        raise Unsupported("shape inference fails: the dims of a tensor do not fit its bytes")
    return copy


def _with_types(model: ir.Model) -> onnx.ModelProto | None:
    """Return the model as onnx's inference can read it, with the types that are known; None if it cannot."""
    proto = inference_input(model)
    for graph, message in graph_pairs(model, proto.graph) if proto is not None else ():
        made = {value.name for value in graph.values.values() if value.producer is not None}
        types = ((name, kind) for name, kind in graph.types.items() if name in made)
        message.value_info.extend(onnx.helper.make_value_info(name, kind) for name, kind in types)
    return proto


def _inferred(proto: onnx.ModelProto, *, strict: bool) -> onnx.ModelProto:
    """Return it with the types that onnx infers; as it is if onnx gives up. Raises Unsupported if ``strict``."""
    look_at_clock()
    try:
        with shown_to_onnx(proto):
            return onnx.shape_inference.infer_shapes(proto, strict_mode=strict)
    except GIVES_UP as error:
        if not strict:
            return proto
        raise refusal(error) from error


def _state(shapes: Mapping[str, Known | None], proto: onnx.ModelProto) -> None:
    """State these shapes of inputs, and forget all others."""
    for info in proto.graph.input:
        if info.name not in shapes or not info.type.HasField("tensor_type"):
            continue
        info.type.tensor_type.ClearField("shape")
        if (known := shapes[info.name]) is not None:
            info.type.tensor_type.shape.SetInParent()
        for axis, dim in enumerate(known or ()):
            is_size = isinstance(dim, int) and dim <= _LARGEST
            size = {"dim_value": dim} if is_size else {"dim_param": f"{dim or f'?{info.name}.{axis}'}"}
            info.type.tensor_type.shape.dim.add(**size)
    forget_shapes(proto.graph.output)
    del proto.graph.value_info[:]


def fitted(model: ir.Model, shapes: Mapping[str, Known | None]) -> ir.Model | None:
    """Do as `sized`; None where operators are known not to fit together at these sizes."""
    try:
        return sized(model, shapes, strict=True)
    except Unsupported:
        return None


class Followed(NamedTuple):
    """Shapes of inputs as far as they follow, and a copy of the model at these; None if there is none that fits."""

    shapes: dict[str, Known | None]
    model: ir.Model | None = None


def followed(model: ir.Model, shapes: Mapping[str, Known | None]) -> Followed:
    """Return the shapes of inputs, with dims and ranks that are open in ``shapes`` filled in from operators.

    Exporters write a size of 0 for an unknown one.
    """
    told: dict[str, Known | None] = {
        name: None if shape is None else [dim or None for dim in shape] for name, shape in shapes.items()
    }
    for _ in range(_MOST_ROUNDS):
        if all(isinstance(dim, int) for shape in told.values() for dim in (shape if shape is not None else (None,))):
            break
        fits = fitted(model, told)
        copy = sized(model, told) if fits is None else fits
        dims = UnifiedDims()
        dims.follow([*copy.nodes()], guess=True)
        before, told = told, {name: dims.of(copy.graph.values[name]) for name in told}
        if told == before:
            return Followed(told, fits)
    return Followed(told)


def _suggest_types(model: ir.Model) -> None:
    """Give values the types that follow. A declared name of a size stands for one number among inner values.

    Inputs keep theirs: what they are run at has to follow from operators, and not from a name.
    """
    values = [value for graph in model.graphs() for value in graph.values.values() if value.producer is not None]
    named = {value: value.shape for value in values if value.shape is not None and str in map(type, value.shape)}
    state_types(model)
    numbers: dict[str, int] = {}
    for value, declared in named.items():
        pairs = zip(declared or (), value.shape or (), strict=False)
        numbers.update((name, size) for name, size in pairs if isinstance(name, str) and isinstance(size, int))
    for value in named if numbers else ():
        dims = [numbers.get(dim, dim) if isinstance(dim, str) else dim for dim in value.shape or ()]
        if value.type is not None and tuple(dims) != value.shape:
            value.graph.types[value.name] = onnx.helper.make_tensor_type_proto(value.dtype or 0, dims)


def _is_known(value: ir.Value) -> bool:
    """Whether the type is known, and each dim is a size or a name that a file gave."""
    shape = value.shape
    if shape is None or value.dtype is None:
        return False
    return not any(dim is None or is_inferred(dim) for dim in shape)


class SharedShapes:
    """The graphs of two models by path, the original first. Creating this fills in the shapes of both models.

    The rewritten model may have old broadcasting replaced, so that more sizes follow from it than from the original.
    Sizes that follow from consumers and not from inference may be wrong, if these are faulty: they are ``claimed``.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        old, new = self.graphs = [{graph.path: graph for graph in model.graphs()} for model in (before, after)]
        for model in (before, after):
            _suggest_types(model)
        self._claimed: dict[str, dict[str, onnx.TypeProto]] = {}
        self._alone: dict[str, dict[str, onnx.TypeProto]] = {}
        self._inferred: dict[str, dict[str, onnx.TypeProto]] = {}
        values = [value for graph in old.values() for value in graph.values.values()]
        if all(_is_known(value) and str not in map(type, value.shape or ()) for value in values):
            return  # there is nothing to learn
        self._inferred = {path: dict(graph.types) for path, graph in old.items()}
        learn_shapes(before)
        if all(map(_is_known, values)):
            return  # the rewritten model has nothing to add
        inferred = {path: dict(graph.types) for path, graph in new.items()}
        learn_shapes(after)
        both = [path for path in old if path in new]
        self._claimed = {path: _share_types(old[path], new[path], inferred[path]) for path in both}
        self._alone = {path: _types_alone(old[path], new[path], inferred[path]) for path in both}

    def inferred(self, value: ir.Value) -> Known | None:
        """Return a value's shape as declared or inferred in the original.

        Consumers may suggest a size where they take a 1 as well.
        """
        kind = self._inferred.get(value.graph.path, {}).get(value.name)
        return value.shape if kind is None else shape_of(kind)

    def claimed(self, path: str) -> frozenset[str]:
        """Return the values in a graph of the original with sizes that the rewritten model may state wrongly."""
        return frozenset(self._claimed.get(path, ())) | frozenset(self._alone.get(path, ()))

    @contextmanager
    def without_claims(self, path: str) -> Iterator[None]:
        """Open these sizes again, within the block."""
        known = []
        for graphs, claimed in zip(self.graphs, (self._claimed, self._alone), strict=True):
            if path in graphs and path in claimed:
                types = graphs[path].types
                known.append((types, {name: types[name] for name in claimed[path]}))
                types.update(claimed[path])
        try:
            yield
        finally:
            for types, held in known:
                types.update(held)


def _share_types(old: ir.Graph, new: ir.Graph, inferred: Mapping[str, onnx.TypeProto]) -> dict[str, onnx.TypeProto]:
    claimed = {}
    for name, kind in list(old.types.items()):
        told = filled(kind, new.types.get(name, kind), names=False)
        if told != kind:
            old.types[name] = told
            if new.types[name] != inferred.get(name):
                claimed[name] = kind
    return claimed


def _types_alone(old: ir.Graph, new: ir.Graph, inferred: Mapping[str, onnx.TypeProto]) -> dict[str, onnx.TypeProto]:
    """Return values unknown in the original whose consumers in the rewritten model determine sizes; as inferred."""
    return {
        name: inferred.get(name, onnx.TypeProto())
        for name, kind in new.types.items()
        if name in old.values and name not in old.types and kind != inferred.get(name)
    }
