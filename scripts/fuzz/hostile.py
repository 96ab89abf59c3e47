"""Changes to a model that no exporter would make, one function each: graphs from an untrusted source.

A change takes the model, the files of its folder and the dice, and works in place. Without a place for it, it changes
nothing.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from fuzz.hostile_values import reshape_info, resize_tensor, retype, retype_tensor, special_numbers
from fuzz.parts import INTEGERS, Change, graphs, names, nodes, pick


def flip_attribute(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Give an attribute another value, another kind of value, or none."""
    holder = pick(rng, [node for node in nodes(model) if node.attribute])
    if holder is None:
        return
    attribute = pick(rng, holder.attribute)
    kind = int(rng.integers(6))
    if kind == 0:
        holder.attribute.remove(attribute)
    elif kind == 1:
        attribute.type = int(rng.integers(0, 15))
    elif kind == 2:
        attribute.ref_attr_name = str(pick(rng, ["alpha", "", attribute.name]))
    elif kind == 3:
        holder.attribute.add().CopyFrom(attribute)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = pick(rng, INTEGERS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = pick(rng, (0.0, -1.0, 1e38, float("nan"), float("inf"), 1e-45))
    elif attribute.ints and rng.random() < 0.7:
        attribute.ints[int(rng.integers(len(attribute.ints)))] = pick(rng, INTEGERS)
    elif attribute.ints:
        del attribute.ints[int(rng.integers(len(attribute.ints)))]
    else:
        attribute.s = bytes(pick(rng, (b"", b"SAME_UPPER", b"VALID", b"\xff\xfe", b"linear", b"nearest")))


def flip_node_attribute(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Give a node an attribute of other operators."""
    node = pick(rng, nodes(model))
    if node is None:
        return
    name = pick(
        rng, ("axis", "axes", "group", "spatial", "is_test", "training_mode", "epsilon", "perm", "transA", "pads")
    )
    value = pick(rng, INTEGERS)
    made = onnx.helper.make_attribute(name, [value, value] if name in ("axes", "perm", "pads") else value)
    node.attribute.append(made)


def drop_input(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, [node for node in nodes(model) if node.input])
    if node is not None and rng.random() < 0.5:
        node.input[int(rng.integers(len(node.input)))] = ""
    elif node is not None:
        del node.input[int(rng.integers(len(node.input))) :]


def add_input(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, nodes(model))
    if node is not None:
        node.input.extend([pick(rng, names(model))] * int(rng.integers(1, 4)))


def rewire(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Read any value instead of another: cycles, and inputs of every wrong shape and kind."""
    node = pick(rng, [node for node in nodes(model) if node.input])
    if node is not None:
        node.input[int(rng.integers(len(node.input)))] = pick(rng, names(model))


def dangle(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Read a name without a producer, or remove the producer."""
    graph = pick(rng, graphs(model))
    if graph.node and rng.random() < 0.5:
        del graph.node[int(rng.integers(len(graph.node)))]
        return
    node = pick(rng, [node for node in graph.node if node.input])
    if node is not None:
        node.input[int(rng.integers(len(node.input)))] = "nobody makes this"


def duplicate_name(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Give a value two producers, or an output the name of another one."""
    node = pick(rng, [node for node in nodes(model) if node.output])
    if node is None:
        return
    if rng.random() < 0.3:
        model.graph.node.add().CopyFrom(node)
    else:
        node.output[int(rng.integers(len(node.output)))] = pick(rng, names(model))


def rename_outputs(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Make outputs of inputs, of initializers, or list them twice; drop the names of inputs."""
    end = pick(rng, [*model.graph.output, *model.graph.input])
    if end is None:
        return
    if rng.random() < 0.3:
        model.graph.output.add().CopyFrom(end)
    else:
        end.name = str(pick(rng, [*names(model), ""]))


def rename_operator(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Put another operator on the same inputs, known or not, of any domain."""
    node = pick(rng, nodes(model))
    if node is None:
        return
    others = [
        "BatchNormalization",
        "Conv",
        "Identity",
        "Nobody",
        "",
        "If",
        "Loop",
        "Scan",
        "Reshape",
        "Constant",
        "Gemm",
    ]
    node.op_type = str(pick(rng, [*others, *(other.op_type for other in nodes(model))]))
    node.domain = str(pick(rng, ["", "", "", "ai.onnx", "ai.onnx.ml", "nobody", "com.microsoft"]))


def swap_nodes(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Break the topological order."""
    graph = pick(rng, graphs(model))
    if len(graph.node) > 1:
        first, second = (int(rng.integers(len(graph.node))) for _ in range(2))
        kept = onnx.NodeProto()
        kept.CopyFrom(graph.node[first])
        graph.node[first].CopyFrom(graph.node[second])
        graph.node[second].CopyFrom(kept)


def opsets(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Drop, double or raise opset imports; set any IR version."""
    kind = int(rng.integers(5))
    if kind == 0:
        del model.opset_import[:]
    elif kind == 1:
        model.opset_import.add(domain=str(pick(rng, ["", "ai.onnx", "nobody"])), version=pick(rng, INTEGERS))
    elif kind == 2:
        model.ir_version = pick(rng, (0, 1, 2, 3, 4, 7, 10, 99, 2**62, -1))
    elif model.opset_import:
        model.opset_import[0].version = int(rng.integers(0, 30)) if kind == 3 else pick(rng, INTEGERS)


def nest(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Put the graph inside an If inside an If, and so on."""
    if model.ByteSize() > 1 << 16 or not model.graph.output:
        return
    condition = onnx.helper.make_tensor("nested condition", TensorProto.BOOL, [], [bool(rng.random() < 0.5)])
    model.graph.initializer.append(condition)
    for depth in range(int(rng.choice([1, 2, 5, 20, 30]))):
        inner = onnx.GraphProto()
        inner.CopyFrom(model.graph)
        del inner.input[:], inner.initializer[:]
        if depth:
            del inner.node[:-1]
        del model.graph.node[:]
        ends = [output.name for output in model.graph.output]
        made = model.graph.node.add(op_type="If", input=[condition.name], output=ends)
        for branch in ("then_branch", "else_branch")[: 1 + (depth < 3)]:
            made.attribute.add(name=branch, type=onnx.AttributeProto.GRAPH).g.CopyFrom(inner)
        if model.ByteSize() > 1 << 20:
            return


def recursive_function(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Put a function that calls itself, or two that call each other, in place of a node."""
    node = pick(rng, [node for node in model.graph.node if node.input and node.output])
    if node is None:
        return
    count = int(rng.integers(1, 3))
    inputs, outputs = [f"a{i}" for i in range(len(node.input))], [f"b{i}" for i in range(len(node.output))]
    for index in range(count):
        call = onnx.helper.make_node(f"f{(index + 1) % count}", inputs, outputs, domain="local")
        body = onnx.helper.make_function("local", f"f{index}", inputs, outputs, [call], list(model.opset_import))
        model.functions.append(body)
    node.op_type, node.domain = "f0", "local"
    model.opset_import.add(domain="local", version=1)


def many(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Give a node very many consumers, or make a very long chain."""
    node = pick(rng, [node for node in model.graph.node if node.input and node.output])
    if node is None:
        return
    name = node.output[0]
    for index in range(int(rng.choice([10, 100, 1000]))):
        source = f"chain {index - 1}" if index and rng.random() < 0.9 else name
        model.graph.node.add(
            op_type=str(pick(rng, ["Relu", "Identity", "Add"])), input=[source], output=[f"chain {index}"]
        )


def branch_off(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Add a copy of a convolution, with the same input or a copy of it, and the sum of both."""
    graph = pick(rng, [graph for graph in graphs(model) if any(node.op_type == "Conv" for node in graph.node)])
    if graph is None:
        return
    at = pick(rng, [index for index, node in enumerate(graph.node) if node.op_type == "Conv" and node.output])
    if at is None:
        return
    others, made = list(graph.node), onnx.NodeProto()
    made.CopyFrom(others[at])
    end = made.output[0]
    others[at].output[0], made.output[0], made.name = f"{end}_one", f"{end}_two", f"{made.name}_two"
    operands = [f"{end}_one", f"{end}_two", *(made.input[:1] if rng.random() < 0.4 else ())]
    total = onnx.helper.make_node(pick(rng, ["Sum", "Add", "Sub"]) if len(operands) == 2 else "Sum", operands, [end])
    del graph.node[:]
    graph.node.extend([*others[: at + 1], made, total, *others[at + 1 :]])


CHANGES: tuple[Change, ...] = (
    branch_off,
    branch_off,
    flip_attribute,
    flip_attribute,
    flip_node_attribute,
    drop_input,
    add_input,
    rewire,
    rewire,
    dangle,
    duplicate_name,
    rename_outputs,
    retype,
    reshape_info,
    reshape_info,
    resize_tensor,
    retype_tensor,
    special_numbers,
    special_numbers,
    rename_operator,
    swap_nodes,
    opsets,
    nest,
    recursive_function,
    many,
)
