"""The model as a whole: names, constants by IR version, tidying up, copies, and its files."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import analysis, ir
from bnfold.ir.storage.save import encode
from bnfold.ir.tensor import Scaled
from tests.ir.build import LARGE, chain, everywhere, info, model, weight


def test_fresh_names_are_new_everywhere() -> None:
    inner = helper.make_graph([helper.make_node("Abs", ["x"], ["inner"])], "b", [], [info("inner", "N")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
    proto = model(nodes, [weight("w", 3)], inputs=["x", "c"], value_info=[info("dangling", 3)])
    proto.training_info.add().algorithm.node.append(helper.make_node("Sub", ["w", "gradient"], ["w_new"]))
    loaded = ir.load(proto)
    taken = ("x", "y", "c", "w", "inner", "dangling", "gradient", "w_new")
    assert {loaded.fresh_name(name) for name in taken} == {f"{name}_1" for name in taken}
    assert [loaded.fresh_name("a") for _ in range(4)] == ["a", "a_1", "a_2", "a_3"]
    assert loaded.fresh_name("a_1") == "a_1_1"


def test_the_name_of_something_removed_is_not_given_again() -> None:
    loaded = ir.load(model([helper.make_node("Abs", ["x"], ["v"]), helper.make_node("Neg", ["x"], ["y"])]))
    loaded.graph.remove(loaded.graph.nodes[0])
    loaded.sync()
    assert loaded.fresh_name("v") == "v_1"


def test_twenty_thousand_fresh_names_of_one_hint() -> None:
    loaded = ir.load(model([helper.make_node("Abs", ["x"], ["y"])]))
    assert len({loaded.fresh_name("y") for _ in range(20_000)}) == 20_000


@pytest.mark.parametrize(
    ("version", "frozen", "expected"), [(3, False, True), (4, False, False), (8, False, False), (8, True, True)]
)
def test_an_initializer_that_is_an_input(version: int, frozen: bool, expected: bool) -> None:
    """Constant before IR version 4, when it had to be an input too; a default that callers may override since."""
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Add", ["s", "v"], ["y"])]
    loaded = ir.load(model(nodes, [weight("w", 3), weight("v", 3)], inputs=["x", "w"], ir_version=version))
    loaded.freeze_overridable = frozen
    assert (analysis.constant(loaded.graph.values["w"]) is not None) == expected
    assert analysis.constant(loaded.graph.values["v"]) is not None
    assert analysis.constant(loaded.graph.values["x"]) is None
    assert loaded.clone().freeze_overridable == frozen


def test_tidying_takes_what_edits_left_and_nothing_else() -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["unused before"]),
        helper.make_node("Split", ["w"], ["a", "b"]),
        helper.make_node("Neg", ["a"], ["n"]),
        helper.make_node("Add", ["x", "n"], ["y"]),
        helper.make_node("Mul", ["x", "shared"], ["kept"]),
    ]
    weights = [weight(name, 4) for name in ("w", "unread before", "shared")]
    loaded = ir.load(model(nodes, weights, outputs=["y", "kept"]))
    values = loaded.graph.values
    consumer = values["y"].producer
    assert consumer is not None
    consumer.set_input(1, values["shared"])
    assert loaded.remove_dead_nodes() == ["n", "a", "b", "w"]
    loaded.sync()
    assert [node.op_type for node in loaded.proto.graph.node] == ["Abs", "Add", "Mul"]
    assert [tensor.name for tensor in loaded.proto.graph.initializer] == ["unread before", "shared"]
    assert loaded.remove_dead_nodes() == []


def test_initializers_go_without_a_look_at_nodes() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Sum", ["n", "v", "w"], ["y"])]
    loaded = ir.load(model(nodes, [weight("v", 3), weight("w", 3)]))
    values, (neg, last) = loaded.graph.values, loaded.graph.nodes
    last.set_inputs([values["v"]])
    assert (loaded.remove_unread_initializers(), neg.removed) == (["w"], False)
    assert (loaded.remove_dead_nodes(), neg.removed) == (["n"], True)


def test_tidying_spares_outputs_inputs_and_what_found_a_new_reader() -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Add", ["b", "d"], ["y"]),
    ]
    loaded = ir.load(model(nodes, [weight("d", 3)], inputs=["x", "d"], outputs=["y", "b"]))
    values, (_, _, last) = loaded.graph.values, loaded.graph.nodes
    b, d = values["b"], values["d"]
    last.set_inputs([values["a"]])
    assert loaded.remove_dead_nodes() == []
    last.set_input(0, b)
    assert loaded.remove_dead_nodes() == []
    assert d.is_initializer
    assert len(loaded.graph.nodes) == 3


def test_a_copy_goes_its_own_way() -> None:
    loaded = ir.load(chain(weights=2))
    value = loaded.graph.values["w0"]
    assert value.tensor is not None
    value.tensor = Scaled(value.tensor, [(0, np.full(LARGE, 2.0))])
    copy = loaded.clone()
    mine, theirs = loaded.graph.values["w1"], copy.graph.values["w1"]
    assert mine.tensor is not None
    assert theirs.tensor is not None
    theirs.tensor = Scaled(theirs.tensor, [(0, np.full(LARGE, 3.0))])
    copy.graph.remove(copy.graph.nodes[-1])
    mine.tensor = Scaled(mine.tensor, [(0, np.full(LARGE, 5.0))])
    original = [numpy_helper.to_array(tensor) for tensor in chain(weights=2).graph.initializer]
    for one, factors, nodes in ((loaded, (2, 5), 2), (copy, (2, 3), 1), (loaded, (2, 5), 2)):
        back = onnx.ModelProto.FromString(encode(one))
        assert len(back.graph.node) == nodes
        for tensor, values, factor in zip(back.graph.initializer, original, factors, strict=True):
            np.testing.assert_array_equal(numpy_helper.to_array(tensor), values * np.float32(factor))


def test_syncing_again_adds_nothing() -> None:
    loaded = ir.load(chain(weights=2))
    value = loaded.graph.values["w0"]
    assert value.tensor is not None
    value.tensor = Scaled(value.tensor, [(0, np.full(LARGE, 2.0))])
    loaded.sync()
    skeleton, held = loaded.proto.SerializeToString(), len(list(loaded.payloads.within(encoded(loaded))))
    for _ in range(3):
        loaded.sync()
        encode(loaded)
    assert loaded.proto.SerializeToString() == skeleton
    assert len(list(loaded.payloads.within(encoded(loaded)))) == held == 2


def encoded(loaded: ir.Model) -> bytes:
    return bytes(loaded.proto.SerializeToString())


def test_a_model_that_is_let_go_of_is_freed() -> None:
    loaded = ir.load(everywhere())
    watch = weakref.ref(loaded)
    del loaded
    gc.collect()
    assert watch() is None


def test_the_files_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(chain().SerializeToString())
    assert ir.load(path).external_files() == []
    ir.save(ir.load(path), path, external_data="w.bin")
    loaded = ir.load(path)
    assert loaded.origin.has_external_data
    assert loaded.external_files() == [tmp_path / "w.bin"]
    assert {source.path for source in loaded.payloads.sources()} == {tmp_path / "w.bin"}
    assert (loaded.label, ir.load(chain()).label) == (str(path), "the model")


def test_every_graph_and_every_node() -> None:
    loaded = ir.load(everywhere())
    assert sorted(graph.path for graph in loaded.graphs()) == ["", "local::Local", "s2.else_branch", "s2.then_branch"]
    assert len(list(loaded.nodes())) == 6 + 2 + 2
    assert [isinstance(graph.proto, onnx.FunctionProto) for graph in loaded.graphs()].count(True) == 1
    assert loaded.opset() == 15


def test_a_snapshot_is_the_model_as_it_was() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[2] x) => (float[2] y) {y = Relu (x)}'
    )
    model = ir.load(proto)
    given = model.snapshot()
    model.graph.nodes[0].set_op_type("Neg")
    assert given().graph.nodes[0].op_type == "Relu"
    assert given() is given()
