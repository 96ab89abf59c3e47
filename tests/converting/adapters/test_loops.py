"""Loop without a value that it hands on."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest

Lowered = Callable[..., Any]
Text = Callable[..., str]

COUNTED = """{keeps} y = Loop (n, {start}) <body = b (int64 i, bool go) => (bool on, float[2] r) {{
    on = Identity ({go}) f = Cast <to = 1> (i) r = Add (x, f) }}>"""


@pytest.mark.parametrize("target", [10, 8, 7])
@pytest.mark.parametrize("start", ["", "c"])
def test_a_loop_that_collects_results(lowered: Lowered, text: Text, target: int, start: str) -> None:
    keeps = "n = Constant <value_int = 4> () c = Constant <value = bool {1}> ()"
    body = COUNTED.format(keeps=keeps, start="c", go="c")
    proto = onnx.parser.parse_model(text(13, "float[2] x", body, outputs="float[k, 2] y"))
    proto.graph.node[-1].input[1] = start
    outcome = lowered(proto, target)
    assert outcome.results["y"].shape == (4, 2)
    (loop,) = (node for node in outcome.model.graph.nodes if node.op_type == "Loop")
    assert (len(loop.inputs), len(loop.outputs)) == (3, 2)


def test_one_with_a_state_stays(lowered: Lowered, text: Text) -> None:
    body = """n = Constant <value_int = 4> () c = Constant <value = bool {1}> ()
        y = Loop (n, c, x) <body = b (int64 i, bool go, s) => (bool on, float[2] t) {
        on = Identity (go) t = Add (s, s) }>"""
    outcome = lowered(text(13, "float[2] x", body, outputs="float[2] y"), 9)
    assert "Loop" not in [change.op_type for change in outcome.report.changes]


def test_a_loop_in_a_branch(lowered: Lowered, text: Text) -> None:
    inner = COUNTED.format(keeps="n = Constant <value_int = 2> ()", start="c", go="q").replace("y = Loop", "l = Loop")
    inner = inner.replace("bool go", "bool q")
    body = f"""c = Constant <value = bool {{1}}> () y = If (c) <
        then_branch = t () => (float[2, 2] l) {{ {inner} }},
        else_branch = e () => (float[2, 2] z) {{ a = Concat <axis = 0> (x, x) s = Constant <value_ints = [2, 2]> ()
        z = Reshape (a, s) }}>"""
    assert lowered(text(13, "float[2] x", body, outputs="float[2, 2] y"), 9).results["y"].shape == (2, 2)
