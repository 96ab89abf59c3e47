"""The names of new nodes: each has one, no two the same, after the node that it replaces or serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.pipeline import passes
from bnfold.settings import Options
from tests import corpus as real

WAYS: dict[str, dict[str, Any]] = {
    "upgraded": {"fold": False, "target_opset": 21},
    "folded": {"decompose": "remaining", "overridable": "freeze"},
    "decomposed": {"fold": False, "decompose": "all", "overridable": "freeze"},
}


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Those of all graphs and functions."""
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    for body in bodies:
        for node in body:
            yield node
            bodies += [attribute.g.node for attribute in node.attribute if attribute.HasField("g")]


def rewritten(source: onnx.ModelProto | Path, **options: Any) -> onnx.ModelProto:
    model = ir.load(source)
    passes.rewrite(model, Options(**options))
    after: onnx.ModelProto = onnx.ModelProto.FromString(ir.encode(model))
    return after


def check(before: onnx.ModelProto, after: onnx.ModelProto) -> set[str]:
    """The names of new nodes, after a look at them. Names that a file gave twice stay so."""
    old, new = (Counter(node.name for node in nodes(model)) for model in (before, after))
    added = {name for name in new if name not in old}
    assert new[""] <= old[""]
    assert {name: count for name, count in new.items() if name and count > max(old[name], 1)} == {}
    labels = {name for node in nodes(before) for name in (node.name, *node.output) if name}
    assert [name for name in added if not any(name.startswith(label) for label in labels)] == []
    return added


@pytest.mark.large
@pytest.mark.parametrize("way", WAYS)
def test_new_nodes_of_real_models_have_names_of_their_own(corpus: Path, way: str) -> None:
    """Each model goes one of the ways: all of them would take minutes."""
    added = 0
    for path in [*real.models(corpus)][[*WAYS].index(way) :: len(WAYS)]:
        try:
            after = rewritten(path, **WAYS[way])
        except BnfoldError:
            continue
        assert after == rewritten(path, **WAYS[way])
        added += len(check(onnx.load(path, load_external_data=False), after))
    assert added


def model(body: str, opset: int = 15, **arrays: Any) -> onnx.ModelProto:
    """A graph in onnx's text, with stored arrays."""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {body}')
    held = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
    return proto


STATISTICS: dict[str, Any] = {"s": [1, 2], "b": [3, 4], "m": [0, 1], "v": [1, 2]}
SHIFTED = """(float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z) {{
    [norm1] n = BatchNormalization (x, s, b, m, v) [pad] p = Conv <pads = [1,1,1,1]> (n, w) y = Relu (p)
    [{}] z = Neg (x) }}"""
"""A shift in front of padding stays as an Add."""


@pytest.mark.parametrize(("taken", "name"), [("other", "norm1_shift"), ("norm1_shift", "norm1_shift_1")])
def test_what_stays_of_a_normalisation_is_named_after_it(taken: str, name: str) -> None:
    proto = model(SHIFTED.format(taken), **STATISTICS, w=np.ones((2, 2, 3, 3)))
    after = rewritten(proto, decompose="remaining")
    assert check(proto, after) == {name}
    (added,) = [node for node in nodes(after) if node.name == name]
    assert added.op_type == "Add"


def test_a_node_without_a_name_gives_that_of_what_it_makes() -> None:
    proto = model("(float[1,2,4] x) => (float[1,2,4] y) { y = BatchNormalization (x, s, b, m, v) }", **STATISTICS)
    after = rewritten(proto, decompose="all")
    names = [node.name for node in nodes(after)]
    assert len(names) > 1
    assert len({*names}) == len(names)
    assert all(name.startswith("y_") for name in names)


def test_kept_nodes_keep_their_names_and_a_written_out_one_hands_on_its_own() -> None:
    proto = model(
        "(float[1,2,4] x) => (float[1,2,4] y) { [r] t = Relu (x) [norm] y = BatchNormalization (t, s, b, m, v) }",
        **STATISTICS,
    )
    after = rewritten(proto, decompose="all", fold=False)
    assert {"r", "norm"} < {node.name for node in nodes(after)}
    assert check(proto, after)


BODY = """(float[2,3] x, bool c) => (float[2,3] y) {
    y = If (c) <then_branch = t () => (float[2,3] a) { [soft] a = Softmax <axis = 0> (x) },
                else_branch = e () => (float[2,3] b) { [soft] b = Softmax <axis = 0> (x) }> }"""


def test_bodies_share_no_names() -> None:
    proto = model(BODY, opset=11)
    after = rewritten(proto, target_opset=13)
    added = check(proto, after)
    assert len(added) > 2
    assert Counter(node.name for node in nodes(after))["soft"] == 2


FUNCTION = """<ir_version: 8, opset_import: ["" : 10, "d" : 1]>
    g (float[2,3] x) => (float[2,3] y) { h = d.F (x) y = Hardmax <axis = 0> (h) }
    <opset_import: ["" : 10], domain: "d"> F (p) => (q) { r = Hardmax <axis = 1> (p) q = Relu (r) }"""


def test_functions_share_no_names_with_the_graph() -> None:
    proto = onnx.parser.parse_model(FUNCTION)
    assert len(check(proto, rewritten(proto, target_opset=13))) > 1
