"""GroupNormalization in place of the five nodes that exporters write, where they mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import bnfold
from bnfold.passes import SimplifyPass
from bnfold.settings import Options
from tests.simplifying.small import model, operators, simplified

GROUPS, CHANNELS = 2, 6
PARTS = {
    "flat": "f = Reshape (x, groups)",
    "norm": "n = InstanceNormalization <epsilon = 0.001> (f, s, t)",
    "back": "r = Reshape (n, whole)",
    "mul": "m = Mul (r, gamma)",
    "add": "y = Add (m, beta)",
}
AFTER = ["GroupNormalization"]


def exported(*, opset: int = 21, head: str = "", dtype: Any = np.float32, **changed: Any) -> onnx.ModelProto:
    """The five nodes; ``changed`` replaces a node by its name, or a constant."""
    constants = {
        "groups": np.array([0, GROUPS, -1]),
        "whole": np.array([3, CHANNELS, 4, 5]),
        "s": np.array([0.5, 2], dtype),
        "t": np.array([-1, 3], dtype),
        "gamma": np.linspace(-2, 1, CHANNELS).astype(dtype).reshape(CHANNELS, 1, 1),
        "beta": np.linspace(-1, 1, CHANNELS).astype(dtype).reshape(1, CHANNELS, 1, 1),
    }
    kind = {"float16": "float16", "float64": "double"}.get(np.dtype(dtype).name, "float")
    outputs = "(float y, float m)" if changed.pop("reads_inner", False) else f"({kind} y)"
    nodes: dict[str, str] = {name: str(changed.pop(name, text)) for name, text in PARTS.items()}
    made = model(f"({kind}[{head or '3,6,4,5'}] x) => {outputs}", " ".join(nodes.values()), opset=opset)
    made.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in {**constants, **changed}.items())
    return made


def assert_close(before: onnx.ModelProto, after: onnx.ModelProto, tolerance: float = 1e-5) -> None:
    kind = onnx.helper.tensor_dtype_to_np_dtype(before.graph.input[0].type.tensor_type.elem_type)
    x = np.random.default_rng(0).normal(3, 2, (3, CHANNELS, 4, 5)).astype(kind)
    made = [np.array(ReferenceEvaluator(proto).run(None, {"x": x})) for proto in (before, after)]
    np.testing.assert_allclose(made[1], made[0], tolerance, tolerance)


SAME = {
    "known sizes": exported(),
    "the other way round": exported(mul="m = Mul (gamma, r)", add="y = Add (beta, m)"),
    "an open batch": exported(head="N,6,4,5", whole=np.array([0, CHANNELS, 4, 5])),
    "open sizes, restored by Shape": exported(head="N,6,H,W", back="d = Shape (x) r = Reshape (n, d)"),
    "groups of known images": exported(groups=np.array([3, GROUPS, 3, 20])),
    "one number for all channels": exported(gamma=np.array([2], np.float32)),
    "float16": exported(dtype=np.float16),
}


@pytest.mark.parametrize("case", SAME)
def test_five_nodes_become_one(case: str) -> None:
    before = SAME[case]
    after, report = simplified(before, group_norm=True)
    assert [name for name in operators(after) if name != "Shape"] == AFTER
    assert [event.rewrite.title for event in report.simplified if event.operator == "Add"] == AFTER
    assert_close(before, after, 4e-3 if case == "float16" else 1e-5)
    assert "GroupNormalization" not in operators(simplified(before)[0])


OTHERS = {
    "an older opset": exported(opset=20),
    "a value between them is read": exported(reads_inner=True),
    "a number for each element of a channel": exported(gamma=np.ones((6, 4, 5), np.float32)),
    "a number for each image": exported(beta=np.ones((3, 1, 1, 1), np.float32)),
    "a scale along the last axis": exported(gamma=np.ones(5, np.float32)),
    "another batch": exported(groups=np.array([1, GROUPS * 3, -1]), s=np.ones(6, np.float32), t=np.ones(6, np.float32)),
    "channels that no groups divide": exported(
        groups=np.array([3, 4, 30]), s=np.ones(4, np.float32), t=np.ones(4, np.float32)
    ),
    "another shape at the end": exported(whole=np.array([3, CHANNELS, 5, 4])),
    "the sizes of another value": exported(head="N,6,H,W", back="d = Shape (x) e = Neg (d) r = Reshape (n, e)"),
    "part of the sizes": exported(head="N,6,H,W", back="d = Shape <start = 1> (x) r = Reshape (n, d)"),
    "double": exported(dtype=np.float64),
    "only scaled": exported(add="y = Relu (m)"),
    "only moved": exported(mul="", add="y = Add (r, beta)"),
    "no normalisation": exported(norm="n = Relu (f)"),
    "channels that are not known": exported(head="N,C,H,W"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_others_stay(case: str) -> None:
    assert "GroupNormalization" not in operators(simplified(OTHERS[case], group_norm=True)[0])


def test_the_option_is_verified_and_says_which_opset_it_needs() -> None:
    before = exported(opset=18)
    outcome = bnfold.optimize(before, group_norm=True)
    assert any("target_opset=21" in note for note in outcome.report.notes)
    outcome = bnfold.optimize(before, group_norm=True, target_opset=21)
    assert (outcome.status, operators(outcome.to_proto())) == ("verified", AFTER)
    assert outcome.report.notes == []


def test_the_pass_takes_the_option() -> None:
    assert SimplifyPass(Options(group_norm=True)).options.group_norm
