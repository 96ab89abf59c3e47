"""What exporters leave behind: results that nothing reads, and steps around products, pads and sizes that go."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from fuzz.builder import Builder, Drawn

UNARY = ("Neg", "Abs", "Relu", "Sigmoid", "Tanh")


def half_read(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an If, Loop or Scan with several results, and read one, perhaps not the first."""
    if b.opset < 9 or x.rank < 2 or 0 in x.shape:
        return None
    made: list[Drawn] = b.pick([_if, _loop, _scan])(b, x)
    return made


def _if(b: Builder, x: Drawn) -> list[Drawn]:
    count = int(b.rng.integers(2, 4))
    graphs = []
    for _ in range(2):
        ends = [b.fresh("end") for _ in range(count)]
        nodes = [_unary(b, b.pick([x.name, *ends[:place]]), end) for place, end in enumerate(ends)]
        graphs.append(helper.make_graph(nodes, b.fresh("body"), [], [_info(end, x) for end in ends]))
    told = b.feed(np.array(b.chance(0.5))).name
    return _one_of(b, "If", [told], [x] * count, then_branch=graphs[0], else_branch=graphs[1])


def _loop(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Loop of some states; each follows from any of them, and so may the condition."""
    states = int(b.rng.integers(1, 4))
    starts, ends = ([b.fresh("state") for _ in range(states)] for _ in range(2))
    number, go, goes, seen = (b.fresh("in") for _ in range(4))
    nodes = [_unary(b, b.pick(starts), end) for end in ends]
    if b.chance(0.7):
        nodes.append(helper.make_node("Identity", [go], [goes], name=b.fresh("in")))
    else:
        largest, again = (b.fresh("in") for _ in range(2))
        nodes.append(helper.make_node("ReduceMax", [b.pick(starts)], [largest], name=b.fresh("in"), keepdims=0))
        nodes.append(helper.make_node("Equal" if b.opset >= 11 else "Less", [largest] * 2, [again], name=b.fresh("in")))
        nodes.append(helper.make_node("And", [again, go], [goes], name=b.fresh("in")))
    nodes.append(_unary(b, b.pick([*starts, *ends]), seen))
    inputs = [helper.make_tensor_value_info(number, TensorProto.INT64, [])]
    inputs.append(helper.make_tensor_value_info(go, TensorProto.BOOL, []))
    outputs = [helper.make_tensor_value_info(goes, TensorProto.BOOL, []), *(_info(end, x) for end in (*ends, seen))]
    body = helper.make_graph(nodes, b.fresh("body"), [*inputs, *(_info(start, x) for start in starts)], outputs)
    turns, told = b.weight(np.array(int(b.rng.integers(1, 4)), np.int64), "i"), b.weight(np.array(True), "c")
    return _one_of(b, "Loop", [turns, told, *[x.name] * states], [x] * states, 1, body=body)


def _scan(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a Scan of a value along two inputs; what is returned follows from one of the slices, or from both."""
    slim = Drawn(x.name, x.dtype, x.shape[1:])
    slices, ends = [b.fresh("in") for _ in range(2)], [b.fresh("end") for _ in range(3)]
    nodes = [_unary(b, b.pick([*slices, *ends[:place]]), end) for place, end in enumerate(ends)]
    inputs, outputs = ([_info(name, slim) for name in names] for names in (slices, ends))
    body = helper.make_graph(nodes, b.fresh("body"), inputs, outputs)
    lists: dict[str, Any] = {"scan_output_directions": [int(b.rng.integers(2)) for _ in ends]} if b.chance(0.5) else {}
    return _one_of(b, "Scan", [x.name, x.name], [x] * 3, body=body, num_scan_inputs=2, **lists)


def _unary(b: Builder, source: str, made: str) -> onnx.NodeProto:
    return helper.make_node(b.pick(UNARY), [source], [made], name=b.fresh("in"))


def _info(name: str, x: Drawn) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, x.dtype, [None] * x.rank)


def _one_of(
    b: Builder, op_type: str, inputs: list[str], made: list[Drawn], more: int = 0, **bodies: Any
) -> list[Drawn]:
    """Append a node of several results and ``more`` that nothing reads; return one of the others."""
    names = [b.fresh("v") for _ in range(len(made) + more)]
    b.nodes.append(helper.make_node(op_type, inputs, names, name=b.fresh(op_type.lower()), **bodies))
    chosen = int(b.rng.integers(len(made)))
    b.values.append(Drawn(names[chosen], made[chosen].dtype, made[chosen].shape))
    return b.values[-1:]


def reshaped_product(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a MatMul by a matrix between Reshapes, or behind one, and perhaps the Add of a bias."""
    if not x.rank or 0 in x.shape:
        return None
    columns, inner = int(b.rng.integers(1, 4)), x.shape[-1]
    rows = int(np.prod(x.shape[:-1]))
    shape = b.pick([[rows, inner], [1, *x.shape], [*x.shape[:-1], 1, inner], [-1, inner], [1, rows, inner]])
    (flat,) = b.node("Reshape", [x.name, b.integers(shape)])
    (made,) = b.node("MatMul", [flat.name, b.weight(b.numbers([inner, columns]))])
    if b.chance(0.5):
        bias = b.weight(b.numbers([columns]))
        (made,) = b.node("Add", [made.name, bias] if b.chance(0.7) else [bias, made.name])
    return b.node("Reshape", [made.name, b.integers([*x.shape[:-1], columns])]) if b.chance(0.7) else [made]


def expanded_product(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a MatMul by matrices that an Expand brings to the batch, whose size is read from the value."""
    if b.opset < 10 or x.rank < 3 or 0 in x.shape:
        return None
    columns = int(b.rng.integers(1, 4))
    ends = [x.shape[-1], columns]
    sizes = b.derive("Shape", [x.name], TensorProto.INT64, (x.rank,))
    batch = b.derive("Slice", [sizes, b.integers([0]), b.integers([x.rank - 2])], TensorProto.INT64, (x.rank - 2,))
    target = b.derive("Concat", [batch, b.integers(ends)], TensorProto.INT64, (x.rank,), axis=0)
    held = b.weight(b.numbers([*([1] * (x.rank - 2) if b.chance(0.7) else []), *ends]))
    wide = b.derive("Expand", [held, target], x.dtype, (*x.shape[:-2], *ends))
    return b.node("MatMul", [x.name, wide])


def filled_up(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Pad of an axis to a multiple of some number, which is computed from sizes."""
    if b.opset < 13 or not x.rank or 0 in x.shape:
        return None
    axis, unit = int(b.rng.integers(x.rank)), int(b.rng.integers(1, 5))
    kind = TensorProto.INT64
    sizes, units = b.derive("Shape", [x.name], kind, (x.rank,)), b.integers([unit])
    if b.chance(0.5):
        size = b.derive("Gather", [sizes, b.integers([axis])], kind, (1,))
        rest = b.derive("Mod", [size, units], kind, (1,))
    else:
        rests = b.derive("Mod", [sizes, units], kind, (x.rank,), fmod=int(b.chance(0.3)))
        rest = b.derive("Slice", [rests, b.integers([axis]), b.integers([axis + 1])], kind, (1,))
    lack = b.derive("Mod", [b.derive("Sub", [units, rest], kind, (1,)), units], kind, (1,))
    parts = [b.integers([0] * (x.rank + axis)), lack, *([b.integers([0] * (x.rank - axis - 1))] * (axis + 1 < x.rank))]
    pads = b.derive("Concat", parts, kind, (2 * x.rank,), axis=0)
    shape = tuple(size + -size % unit if place == axis else size for place, size in enumerate(x.shape))
    b.values.append(Drawn(b.derive("Pad", [x.name, pads], x.dtype, shape), x.dtype, shape))
    return b.values[-1:]


def zeros_before_pool(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a MaxPool behind a Pad of zeros, mostly of what is never negative."""
    if b.opset < 11 or not 3 <= x.rank <= 4 or 0 in x.shape:
        return None
    source = x
    if b.chance(0.5):
        (source,) = b.node("Relu", [x.name])
    elif b.chance(0.8):
        bounds = [b.pick([0.0, 0.0, -0.5]), b.pick([1.0, 6.0, -1.0])]
        (source,) = b.node("Clip", [x.name, *(b.weight(np.asarray(b.numbers([], n, n))) for n in bounds)])
    width = x.rank - 2
    pads = [[int(b.rng.integers(3)) for _ in range(width)] for _ in range(2)]
    (padded,) = b.node("Pad", [source.name, b.integers([0, 0, *pads[0], 0, 0, *pads[1]])])
    return b.node("MaxPool", [padded.name], kernel_shape=[min(3, size) for size in padded.shape[2:]])
