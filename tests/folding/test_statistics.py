"""All statistics at once say what each BatchNormalization says alone."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bnfold import ir
from bnfold.folding import recognise
from bnfold.folding.statistics import prefetch
from bnfold.semantics import Policy
from bnfold.semantics import batchnorm as semantics

WIDTHS = (3, 5, 4)


def row_of_norms(**changes: np.ndarray) -> ir.Model:
    """BatchNormalizations of different widths and epsilons, one for each of `WIDTHS`; ``changes`` replace some."""
    rng = np.random.default_rng(2)
    nodes, tensors = [], []
    for index, width in enumerate(WIDTHS):
        drawn = (rng.normal(size=width), rng.normal(size=width), rng.normal(size=width), rng.uniform(0.1, 2, width))
        names = [f"{letter}{index}" for letter in "sbmv"]
        for name, array in zip(names, drawn, strict=True):
            tensors.append(numpy_helper.from_array(changes.get(name, array).astype(np.float32), name))
        nodes.append(helper.make_node("BatchNormalization", [f"x{index}", *names], [f"y{index}"]))
        if index:
            nodes[-1].attribute.append(helper.make_attribute("epsilon", 10.0**-index))
    values = [
        [helper.make_tensor_value_info(f"{letter}{index}", 1, [2, width, 7]) for index, width in enumerate(WIDTHS)]
        for letter in "xy"
    ]
    graph = helper.make_graph(nodes, "g", values[0], values[1], tensors)
    return ir.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8))


def test_it_is_what_each_says_alone() -> None:
    model = row_of_norms()
    known = prefetch(model.graph.nodes)
    assert len(known) == len(WIDTHS)
    for node in model.graph.nodes:
        norm = semantics.read(node, Policy())
        s, t = recognise.statistics(norm)
        assert known[node].holds_for(norm)
        np.testing.assert_array_equal(known[node].s, s)
        np.testing.assert_array_equal(known[node].t, t)


def test_it_no_longer_holds_when_a_parameter_or_epsilon_was_replaced() -> None:
    model = row_of_norms()
    known = prefetch(model.graph.nodes)
    first, second, third = model.graph.nodes
    model.graph.values["m0"].tensor = ir.Exact(onnx.TensorProto.FLOAT, np.zeros(WIDTHS[0]))
    second.set_attr("epsilon", 0.5)
    held = [known[node].holds_for(semantics.read(node, Policy())) for node in (first, second, third)]
    assert held == [False, False, True]


def test_it_has_no_opinion_on_what_is_not_sound() -> None:
    model = row_of_norms(v1=np.array([1, 1, -1, 1, 1]), s2=np.ones(3))
    known = prefetch(model.graph.nodes)
    assert list(known) == [model.graph.nodes[0]]


def test_an_epsilon_that_is_written_as_an_integer_is_left_to_who_reads_it_as_one() -> None:
    """The float field of the attribute then holds zero."""
    model = row_of_norms()
    model.graph.nodes[0].set_attr("epsilon", 1)
    assert list(prefetch(model.graph.nodes)) == model.graph.nodes[1:]
    s, _ = recognise.statistics(semantics.read(model.graph.nodes[0], Policy()))
    scale, var = (model.graph.values[name].tensor for name in ("s0", "v0"))
    assert scale is not None
    assert var is not None
    np.testing.assert_allclose(s, scale.float64() / np.sqrt(var.float64() + 1))
