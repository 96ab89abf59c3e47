"""Weights that only one branch of an If reads, or only the body of a Loop or Scan; callers may override some.

And Ifs that depend on a rank, as in exported scripts of PyTorch.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from fuzz.builder import Builder, Drawn


def one_branch(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an If whose branches have weights of their own; one may have none."""
    if b.opset < 9 or not x.rank:
        return None
    then = _body(b, x.name, x.shape)
    other = _body(b, x.name, x.shape, plain=b.chance(0.3))
    condition = b.pick([_by_numbers, _by_numbers, _by_size, _by_caller, _by_flags, _stored])(b, x)
    graphs = [helper.make_graph(nodes, b.fresh("body"), [], [_info(nodes, x)], held) for nodes, held in (then, other)]
    return _behind(b, "If", [condition], x, then_branch=graphs[0], else_branch=graphs[1])


def ranked(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an axis that a caller takes out again or not, a choice by the rank, and what takes a single rank.

    In half of the cases the rank is that of one branch, so that the choice is known.
    """
    if b.opset < 13 or x.rank < 2 or 0 in x.shape or x.dtype == TensorProto.FLOAT16:
        return None
    rows, columns = x.shape[0], int(np.prod(x.shape[1:]))
    (long,) = b.node("Reshape", [x.name, b.integers([rows, columns, 1])])
    told = b.feed(np.array(True)).name
    slim = _choice(b, told, x.dtype, (rows, columns), _axes("Squeeze", long.name, 2), _same(long.name))
    shape = b.derive("Shape", [slim], TensorProto.INT64, (2,))
    rank = b.derive("Size", [shape], TensorProto.INT64, ())
    flat = b.derive("Equal", [rank, b.weight(np.array(2, np.int64), "i")], TensorProto.BOOL, ())
    again = _choice(b, flat, x.dtype, (rows, columns), _same(slim), _axes("Unsqueeze", slim, 0))
    deep = b.derive("Unsqueeze", [again, b.integers([0])], x.dtype, (1, rows, columns))
    if b.chance(0.3):  # which takes any rank
        return b.node("Softsign", [deep])
    many, gates = int(b.rng.integers(1, 4)), {"RNN": 1, "GRU": 3, "LSTM": 4}
    kind = b.pick([*gates])
    weights = [b.weight(b.numbers([1, gates[kind] * many, size])) for size in (columns, many)]
    return b.node(kind, [deep, *weights], hidden_size=many)


Made = tuple[list[onnx.NodeProto], list[onnx.TensorProto]]


def _choice(b: Builder, condition: str, dtype: int, shape: tuple[int, ...], then: Made, other: Made) -> str:
    """Append an If of two branches of one node each."""
    graphs = []
    for nodes, held in (then, other):
        end = helper.make_tensor_value_info(name := b.fresh("end"), dtype, None)
        nodes[-1].output[:] = [name]
        named = [b.fresh("held") for _ in held]
        nodes[-1].input.extend(named)
        for tensor, own in zip(held, named, strict=True):
            tensor.name = own
        graphs.append(helper.make_graph(nodes, b.fresh("body"), [], [end], held))
    return b.derive("If", [condition], dtype, shape, then_branch=graphs[0], else_branch=graphs[1])


def _axes(op_type: str, value: str, axis: int) -> Made:
    return [helper.make_node(op_type, [value], [""])], [onnx.numpy_helper.from_array(np.array([axis]))]


def _same(value: str) -> Made:
    return [helper.make_node("Identity", [value], [""])], []


def looped(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Loop of up to three turns that reads the same weight each time; the number of turns may be an input."""
    if b.opset < 9 or not x.rank or 0 in x.shape:
        return None
    turns = np.array(int(b.rng.integers(1, 4)), np.int64)
    count = b.weight(turns, "i") if b.chance(0.8) else b.feed(turns).name
    number, go, value, goes = (b.fresh("in") for _ in range(4))
    nodes, held = _body(b, value, x.shape)
    ends = [helper.make_tensor_value_info(goes, TensorProto.BOOL, []), _info(nodes, x)]
    starts = [
        helper.make_tensor_value_info(number, TensorProto.INT64, []),
        helper.make_tensor_value_info(go, TensorProto.BOOL, []),
        helper.make_tensor_value_info(value, x.dtype, [None] * x.rank),
    ]
    goon = helper.make_node("Identity", [go], [goes], name=b.fresh("in"))
    body = helper.make_graph([goon, *nodes], b.fresh("body"), starts, ends, held)
    return _behind(b, "Loop", [count, "", x.name], x, body=body)


def scanned(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Scan along an axis, whose body reads a weight."""
    if b.opset < 9 or x.rank < 2 or 0 in x.shape:
        return None
    axis, value = int(b.rng.integers(x.rank)), b.fresh("in")
    slim = Drawn(value, x.dtype, x.shape[:axis] + x.shape[axis + 1 :])
    nodes, held = _body(b, value, slim.shape)
    starts = [helper.make_tensor_value_info(value, x.dtype, [None] * slim.rank)]
    body = helper.make_graph(nodes, b.fresh("body"), starts, [_info(nodes, slim)], held)
    where = {"scan_input_axes": [axis], "scan_output_axes": [axis]} if axis or b.chance(0.5) else {}
    return _behind(b, "Scan", [x.name], x, body=body, num_scan_inputs=1, **where)


def _body(
    b: Builder, value: str, shape: tuple[int, ...], *, plain: bool = False
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Build one or two nodes that keep the shape, and the weights that the body itself stores."""
    if plain:
        return [helper.make_node("Neg", [value], [b.fresh("in")], name=b.fresh("in"))], []
    nodes, held = [], []
    for _ in range(int(b.rng.integers(1, 3))):
        made = b.fresh("in")
        if len(shape) > 1 and b.chance(0.3):
            names = [b.own(b.numbers([shape[1]], 0.5, 2.0)) for _ in range(4)]
            nodes.append(helper.make_node("BatchNormalization", [value, *names], [made], name=b.fresh("in")))
        else:
            array = b.numbers([size if b.chance(0.5) else 1 for size in shape], 0.5, 2.0)
            name = b.fresh("held") if b.chance(0.2) else b.own(array)
            if name.startswith("held"):
                held.append(onnx.numpy_helper.from_array(array, name))
            op = b.pick(["Mul", "Add", "Sub", "Div", "Max"])
            nodes.append(helper.make_node(op, [value, name], [made], name=b.fresh("in")))
        value = made
    return nodes, held


def _info(nodes: list[onnx.NodeProto], x: Drawn) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(nodes[-1].output[0], x.dtype, [None] * x.rank)


def _behind(b: Builder, op_type: str, inputs: list[str], x: Drawn, **attributes: object) -> list[Drawn]:
    made = Drawn(b.derive(op_type, inputs, x.dtype, x.shape, **attributes), x.dtype, x.shape)
    b.values.append(made)
    return [made]


def _by_numbers(b: Builder, x: Drawn) -> str:
    """Compare the largest or the first number with another one."""
    largest = b.derive("ReduceMax", [x.name], x.dtype, (), keepdims=0)
    return b.derive("Greater", [largest, b.weight(b.numbers([], 0.0, 3.0))], TensorProto.BOOL, ())


def _by_size(b: Builder, x: Drawn) -> str:
    """Compare the value's number of elements with the present one, or with half of it."""
    count = b.derive("Size", [x.name], TensorProto.INT64, ())
    bound = int(np.prod(x.shape)) // int(b.pick([1, 2]))
    return b.derive("Greater", [count, b.weight(np.array(bound, np.int64), "i")], TensorProto.BOOL, ())


def _by_caller(b: Builder, _: Drawn) -> str:
    return b.feed(np.array(b.chance(0.5))).name


def _by_flags(b: Builder, x: Drawn) -> str:
    """Combine a boolean of the caller with another one, or with a number of elements."""
    second = b.pick([_by_caller, _by_size])(b, x)
    return b.derive(b.pick(["And", "Or", "Xor"]), [_by_caller(b, x), second], TensorProto.BOOL, ())


def _stored(b: Builder, _: Drawn) -> str:
    return b.own(np.array(b.chance(0.5)))
