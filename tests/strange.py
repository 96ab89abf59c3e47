"""Models that are legal and that nobody expects, each around one BatchNormalization, with what has to survive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Build = Callable[[], onnx.ModelProto]
STRANGE: dict[str, Build] = {}
PARAMETERS = ("s", "b", "m", "v")
NEWEST = helper.VERSION_TABLE[-1][1]
"""The IR version that the installed onnx writes."""


def strange(build: Build) -> Build:
    """Enter a builder in the table under its own name."""
    STRANGE[build.__name__.rstrip("_")] = build
    return build


def entered(name: str) -> Callable[[Build], Build]:
    """Enter a builder under this name."""

    def enter(build: Build) -> Build:
        STRANGE[name] = build
        return build

    return enter


def held(channels: int = 3, prefix: str = "", dtype: Any = np.float32) -> list[TensorProto]:
    """The parameters of a BatchNormalization: scales of both signs, means off zero."""
    draw = np.random.default_rng(channels)
    values = {
        "s": draw.uniform(0.5, 2, channels) * np.where(np.arange(channels) % 2, -1, 1),
        "b": draw.normal(size=channels),
        "m": draw.normal(size=channels),
        "v": draw.uniform(0.5, 2, channels),
    }
    return [numpy_helper.from_array(array.astype(dtype), f"{prefix}{name}") for name, array in values.items()]


def weight(name: str = "w", *dims: int) -> TensorProto:
    """Of a convolution from 2 to 3 channels, if nothing else is said."""
    dims = dims or (3, 2, 1, 1)
    return numpy_helper.from_array(np.random.default_rng(7).normal(size=dims).astype(np.float32), name)


def norm(x: str = "c", y: str = "y", prefix: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("BatchNormalization", [x, *(prefix + name for name in PARAMETERS)], [y], **attributes)


def conv(x: str = "x", y: str = "c", w: str = "w") -> onnx.NodeProto:
    return helper.make_node("Conv", [x, w], [y])


def info(name: str, dims: Sequence[Any] | None = (2, 2, 4, 5), dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


Y = (2, 3, 4, 5)


def model(
    nodes: Sequence[onnx.NodeProto] = (),
    tensors: Sequence[TensorProto] | None = None,
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    *,
    opset: int = 15,
    ir_version: int = 8,
    imports: Sequence[onnx.OperatorSetIdProto] = (),
) -> onnx.ModelProto:
    """Conv, BatchNormalization, and whatever differs."""
    graph = helper.make_graph(
        list(nodes) or [conv(), norm()],
        "g",
        [info("x")] if inputs is None else inputs,
        [info("y", Y)] if outputs is None else outputs,
        [weight(), *held()] if tensors is None else tensors,
    )
    opsets = [helper.make_opsetid("", opset), *imports]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


NAMES = (
    "ünïcödé",
    "名前",
    "🦊",
    "a b\tc\n",
    "%s{0}\\",
    "\u202eright to left",
    "a\u0301",
    "x" * 5000,
    "/",
    "..",
    "-",
    "'\"`",
)


@strange
def names_of_any_unicode() -> onnx.ModelProto:
    made, nodes, value = model(), [], "x"
    for name in NAMES:
        nodes.append(helper.make_node("Identity", [value], [name], name=f"{name} node", doc_string=name))
        value = name
    nodes += [helper.make_node("Conv", [value, "w"], ["ç"], name="卷积"), norm("ç", "выход", name="批量归一化")]
    made.graph.output[0].name = "выход"
    made.graph.name = made.producer_name = made.domain = "名前"
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


@strange
def node_names_that_are_empty_or_the_same() -> onnx.ModelProto:
    nodes = [conv(), norm("c", "d"), helper.make_node("Relu", ["d"], ["e"]), conv("e", "f", "w2"), norm("f", "y", "2")]
    for node in nodes[2:]:
        node.name = "same"
    return model(nodes, [weight(), weight("w2", 3, 3, 1, 1), *held(), *held(prefix="2")])


@strange
def everything_unused() -> onnx.ModelProto:
    nodes = [conv(), norm(), helper.make_node("Relu", ["unused input"], ["unused value"]), norm("c", "unused norm")]
    made = model(nodes, [weight(), *held(), weight("unused weight", 4000)], [info("x"), info("unused input", (7,))])
    made.graph.value_info.append(info("nobody makes this", (1,)))
    made.opset_import.append(helper.make_opsetid("unused.domain", 3))
    made.functions.append(
        helper.make_function("f", "Unused", ["a"], ["b"], [conv("a", "b")], [helper.make_opsetid("", 15)])
    )
    return made


@strange
def an_output_that_is_an_input() -> onnx.ModelProto:
    return model(outputs=[info("y", Y), info("x")])


@strange
def outputs_that_are_initializers() -> onnx.ModelProto:
    return model(outputs=[info("w", (3, 2, 1, 1)), info("y", Y), info("s", (3,))])


@strange
def an_output_listed_twice() -> onnx.ModelProto:
    return model(outputs=[info("y", Y), info("y", Y)])


@strange
def an_output_in_the_middle() -> onnx.ModelProto:
    return model(outputs=[info("c", Y), info("y", Y)])


@strange
def no_inputs() -> onnx.ModelProto:
    return model(tensors=[weight(), weight("x", 2, 2, 4, 5), *held()], inputs=[])


@strange
def no_outputs() -> onnx.ModelProto:
    return model(outputs=[])


@strange
def no_nodes() -> onnx.ModelProto:
    made = model(outputs=[info("x")])
    del made.graph.node[:]
    return made


@strange
def optional_inputs_and_outputs_omitted() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w", ""], ["c"]),
        helper.make_node("BatchNormalization", ["c", *PARAMETERS], ["n"]),
        helper.make_node("Clip", ["n", "", "top"], ["k"]),
        helper.make_node("Dropout", ["k", "", ""], ["d", ""]),
        helper.make_node("MaxPool", ["d"], ["y", ""], kernel_shape=[1, 1]),
    ]
    return model(nodes, [weight(), *held(), numpy_helper.from_array(np.array(3, np.float32), "top")])


@strange
def trailing_names_that_are_empty() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w", ""], ["c"]),
        helper.make_node("BatchNormalization", ["c", *PARAMETERS], ["y", "", ""]),
    ]
    return model(nodes)


@strange
def zero_sized_batch() -> onnx.ModelProto:
    return model(inputs=[info("x", (0, 2, 4, 5))], outputs=[info("y", (0, 3, 4, 5))])


@strange
def zero_channels() -> onnx.ModelProto:
    tensors = [weight("w", 0, 2, 1, 1), *held(0)]
    return model(tensors=tensors, outputs=[info("y", (2, 0, 4, 5))])


@strange
def zero_sized_constants() -> onnx.ModelProto:
    nodes = [helper.make_node("Concat", ["x", "none"], ["j"], axis=0), conv("j"), norm()]
    return model(nodes, [weight(), *held(), weight("none", 0, 2, 4, 5)])


def _ranked(rank: int) -> Build:
    def build() -> onnx.ModelProto:
        dims = (3, 2, 1, 2, 1, 3, 2, 1)[:rank]
        channels = dims[1] if rank > 1 else 1
        nodes = [
            helper.make_node("Mul", ["x", "k"], ["a"]),
            norm("a", "y") if rank else helper.make_node("Identity", ["a"], ["y"]),
        ]
        tensors = [numpy_helper.from_array(np.array(-1.5, np.float32), "k"), *held(channels)]
        return model(nodes, tensors, [info("x", dims)], [info("y", dims)])

    return build


for _rank in range(9):
    entered(f"rank_{_rank}")(_ranked(_rank))


@strange
def no_shapes_at_all() -> onnx.ModelProto:
    return model(outputs=[info("y", None)], inputs=[info("x", ["N", "C", "H", None])])


def thin(name: str, dims: Sequence[int]) -> onnx.SparseTensorProto:
    """Every second value, as a sparse tensor."""
    values = np.arange(1, 4, dtype=np.float32)
    indices = numpy_helper.from_array(np.arange(0, 6, 2, dtype=np.int64), f"{name}_indices")
    return helper.make_sparse_tensor(numpy_helper.from_array(values, name), indices, dims)


@strange
def sparse_weight() -> onnx.ModelProto:
    made = model(tensors=held())
    made.graph.sparse_initializer.append(thin("w", [3, 2, 1, 1]))
    return made


@strange
def sparse_constant() -> onnx.ModelProto:
    return model(
        [helper.make_node("Constant", [], ["z"], sparse_value=thin("", [6])), conv(), norm(),
         helper.make_node("Size", ["z"], ["size"])],
        outputs=[info("y", Y), info("size", (), TensorProto.INT64)],
    )  # fmt: skip


@strange
def sequences() -> onnx.ModelProto:
    nodes = [
        conv(),
        norm("c", "n"),
        helper.make_node("SequenceConstruct", ["n", "n"], ["q"]),
        helper.make_node("ConcatFromSequence", ["q"], ["y"], axis=0),
        helper.make_node("SequenceLength", ["given"], ["length"]),
    ]
    made = model(nodes, outputs=[info("y", (4, 3, 4, 5)), info("length", (), TensorProto.INT64)])
    made.graph.input.append(helper.make_tensor_sequence_value_info("given", TensorProto.FLOAT, None))
    return made


@strange
def optional_types() -> onnx.ModelProto:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 2, 4, 5))
    nodes = [
        helper.make_node("OptionalHasElement", ["maybe"], ["has"]),
        helper.make_node("OptionalGetElement", ["maybe"], ["e"]),
        conv("e"),
        norm(),
    ]
    given = helper.make_value_info("maybe", helper.make_optional_type_proto(tensor))
    return model(nodes, inputs=[given], outputs=[info("y", Y), info("has", (), TensorProto.BOOL)])


@strange
def map_types() -> onnx.ModelProto:
    nodes = [conv(), norm(), helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[1, 2])]
    made = model(nodes, inputs=[info("x"), info("p", (3, 2))], imports=[helper.make_opsetid("ai.onnx.ml", 3)])
    made.graph.output.append(onnx.ValueInfoProto(name="z"))
    kind = made.graph.output[-1].type.sequence_type.elem_type.map_type
    kind.key_type = TensorProto.INT64
    kind.value_type.tensor_type.elem_type = TensorProto.FLOAT
    return made


def _function(name: str, nodes: Sequence[onnx.NodeProto], domain: str = "mine") -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("mine", 1), helper.make_opsetid("yours", 2)]
    return helper.make_function(domain, name, ["a"], ["z"], list(nodes), imports)


def _inside() -> list[onnx.NodeProto]:
    constants = [helper.make_node("Constant", [], [one.name], value=one) for one in (weight(), *held())]
    return [*constants, conv("a"), norm("c", "z")]


@strange
def functions_that_call_functions() -> onnx.ModelProto:
    made = model(
        [helper.make_node("Outer", ["x"], ["y"], domain="mine")], [],
        imports=[helper.make_opsetid("mine", 1), helper.make_opsetid("yours", 2)],
    )  # fmt: skip
    call = helper.make_node("Inner", ["a"], ["i"], domain="yours")
    made.functions.append(_function("Outer", [call, helper.make_node("Neg", ["i"], ["z"])]))
    made.functions.append(_function("Inner", _inside(), "yours"))
    return made


@strange
def a_model_of_functions_only() -> onnx.ModelProto:
    made = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 15), helper.make_opsetid("mine", 1)])
    made.functions.append(_function("Only", _inside()))
    return made


@strange
def a_function_by_the_name_of_an_operator() -> onnx.ModelProto:
    """Its meaning is its body's, not the operator's."""
    nodes = [conv(), helper.make_node("BatchNormalization", ["c", *PARAMETERS], ["y"], domain="mine")]
    made = model(nodes, imports=[helper.make_opsetid("mine", 1)])
    body = [helper.make_node("Add", ["a", "b"], ["z"])]
    made.functions.append(
        helper.make_function(
            "mine", "BatchNormalization", ["a", "s", "b0", "b1", "b"], ["z"],
            [helper.make_node("Abs", ["a"], ["z"])], [helper.make_opsetid("", 15)],
        )
    )  # fmt: skip
    assert body
    return made


@strange
def custom_operators() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Mystery", ["x"], ["q"], domain="com.example", secret=[1.5, 2.5], text="ü"),
        conv("q"),
        norm(),
        helper.make_node("MadeUp", ["y"], ["after"]),
    ]
    made = model(nodes, outputs=[info("after", None)], imports=[helper.make_opsetid("com.example", 7)])
    made.graph.value_info.append(info("q"))
    return made


@strange
def training_info() -> onnx.ModelProto:
    made = model()
    training = made.training_info.add()
    step = helper.make_graph([helper.make_node("Sub", ["w", "rate"], ["w_new"])], "step", [], [info("w_new", None)])
    step.initializer.append(numpy_helper.from_array(np.array(0.1, np.float32), "rate"))
    training.algorithm.CopyFrom(step)
    training.update_binding.add(key="w", value="w_new")
    return made


@strange
def quantization_annotations() -> onnx.ModelProto:
    made = model()
    for name in ("x", "y", "w"):
        annotation = made.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    return made


@strange
def metadata_everywhere() -> onnx.ModelProto:
    made = model(opset=21, ir_version=10)
    made.metadata_props.add(key="ключ", value="значение")
    made.doc_string, made.producer_name, made.producer_version, made.model_version = "model", "me", "1.2", -7
    made.graph.doc_string = "graph"
    for holder in (made.graph, *made.graph.node, *made.graph.initializer, *made.graph.input, *made.graph.output):
        holder.metadata_props.add(key="kept", value=f"{holder.name} is kept")
        holder.doc_string = "text"
    return made


@strange
def named_dims_and_denotations() -> onnx.ModelProto:
    made = model(inputs=[info("x", ["batch", 2, "height", "width"])], outputs=[info("y", ["batch", 3, "height", None])])
    made.graph.input[0].type.denotation = "IMAGE"
    made.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return made


@strange
def unknown_fields() -> onnx.ModelProto:
    """Of a future onnx, at every level: field 2000 with a text."""
    extra = b"\x82\x7d\x06future"
    made = model()
    for message in (made, made.graph, *made.graph.node, *made.graph.initializer, *made.graph.input):
        message.MergeFromString(extra)
    return made


for _version in range(1, NEWEST + 1):
    _opset = 1 if _version < 3 else 9 if _version < 8 else 15

    def _of_version(version: int = _version, opset: int = _opset) -> onnx.ModelProto:
        made = model(opset=opset, ir_version=version)
        if opset < 6:
            for node, name in zip(made.graph.node, ("c", "n"), strict=True):
                node.name = name
            attributes = {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}
            made.graph.node[1].attribute.extend(helper.make_attribute(*item) for item in attributes.items())
        if version < 4:
            made.graph.input.extend(info(one.name, one.dims) for one in made.graph.initializer)
        if version < 3:
            del made.opset_import[:]
        return made

    entered(f"ir_version_{_version}")(_of_version)


@strange
def opset_imports_missing() -> onnx.ModelProto:
    made = model()
    del made.opset_import[:]
    return made


@strange
def opset_imports_doubled() -> onnx.ModelProto:
    return model(imports=[helper.make_opsetid("ai.onnx", 15), helper.make_opsetid("", 15), helper.make_opsetid("d", 1)])


@strange
def opset_imports_doubled_and_different() -> onnx.ModelProto:
    return model(imports=[helper.make_opsetid("", 9)])


@strange
def domain_spelled_out() -> onnx.ModelProto:
    made = model()
    for node in made.graph.node:
        node.domain = "ai.onnx"
    return made


@strange
def a_foreign_domain_only() -> onnx.ModelProto:
    made = model([helper.make_node("Mystery", ["x"], ["y"], domain="d")], [], imports=[helper.make_opsetid("d", 1)])
    del made.opset_import[0]
    return made


@strange
def strings_and_bools() -> onnx.ModelProto:
    nodes = [conv(), norm(), helper.make_node("Identity", ["texts"], ["out"])]
    texts = TensorProto(
        name="texts", data_type=TensorProto.STRING, dims=[3], string_data=["ü".encode(), b"a\x00b", b""]
    )
    return model(nodes, [weight(), *held(), texts], outputs=[info("y", Y), info("out", (3,), TensorProto.STRING)])


@strange
def nan_and_infinity_in_weights() -> onnx.ModelProto:
    values = numpy_helper.to_array(weight()).copy()
    values[0, 0], values[1, 0], values[2, 0] = np.nan, np.inf, -0.0
    return model(tensors=[numpy_helper.from_array(values, "w"), *held()])


@strange
def nodes_out_of_order() -> onnx.ModelProto:
    return model([norm(), conv()])
