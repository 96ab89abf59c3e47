import numpy as np
import pytest
from onnx import defs, parser

from bnfold import ir
from bnfold.semantics import Unreadable
from bnfold.semantics.instancenorm import DEFAULT_EPSILON, VERSIONS, slots, strays, version_of


def node(opset: int, call: str) -> ir.Node:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[2, 3, 4] x, float[3] s, float[3] b) => (float[2, 3, 4] y) {{ {call} }}"""
    return ir.load(parser.parse_model(text)).graph.nodes[0]


def test_every_version_of_the_installed_onnx_is_known() -> None:
    known = {s.since_version for s in defs.get_all_schemas_with_history() if s.name == "InstanceNormalization"}
    assert known == set(VERSIONS)


@pytest.mark.parametrize(("opset", "version"), [(1, 1), (5, 1), (6, 6), (21, 6), (22, 22), (28, 22)])
def test_every_version(opset: int, version: int) -> None:
    norm = node(opset, "y = InstanceNormalization <epsilon = 0.25> (x, s, b)")
    assert version_of(norm) == version
    assert [value.name for value in slots(norm)] == ["x", "s", "b", "y"]
    assert not strays(norm)


def test_default_epsilon_is_the_float32_one() -> None:
    assert float(np.float32(1e-5)) == DEFAULT_EPSILON


def test_consumed_inputs_belong_to_version_1_only() -> None:
    call = "y = InstanceNormalization <consumed_inputs = [0, 0, 0]> (x, s, b)"
    assert not strays(node(1, call))
    assert [repair.kind for repair in strays(node(6, call))] == ["stray-attribute"]


def test_attributes_that_never_belonged_are_reported() -> None:
    norm = node(1, "y = InstanceNormalization <is_test = 1, spatial = 1> (x, s, b)")
    assert [repair.kind for repair in strays(norm)] == ["stray-attribute"] * 2


@pytest.mark.parametrize("call", ["y = InstanceNormalization (x, s)", "y, z = InstanceNormalization (x, s, b)"])
def test_illegal_forms(call: str) -> None:
    with pytest.raises(Unreadable, match="needs"):
        slots(node(6, call))
