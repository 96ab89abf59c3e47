"""What runs, in which order, and when each value is forgotten."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.reference.schedule import Schedule, read_by, schedule

TEXT = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[3] x, bool c) => (float[3] y, float[3] z)
    <float[3] w = {1, 2, 3}>
    {
        a = Mul (x, w)
        b = Neg (a)
        y = If (c) <
            then_branch = t () => (float[3] p) { p = Add (a, w) },
            else_branch = e () => (b) { unused = Neg (x) }
        >
        z = Exp (x)
    }
"""


def graph() -> ir.Graph:
    return ir.load(onnx.parser.parse_model(TEXT)).graph


def plan(whole: ir.Graph, wanted: list[str], given: tuple[str, ...] = ("x", "c")) -> tuple[list[str], list[list[str]]]:
    """Operators in order, and the names that are forgotten after each."""
    made: Schedule = schedule(whole, [whole.values[name] for name in wanted], [whole.values[name] for name in given])
    return [node.op_type for node in made.nodes], [[value.name for value in last] for last in made.last_reads]


def test_a_node_reads_what_its_bodies_capture() -> None:
    node = next(node for node in graph().nodes if node.op_type == "If")
    assert sorted(value.name for value in read_by(node)) == ["a", "b", "c", "w", "x"]


def test_captured_values_live_until_the_node_with_the_bodies() -> None:
    nodes, forgotten = plan(graph(), ["y", "z"])
    assert nodes == ["Mul", "Neg", "If", "Exp"]
    assert [sorted(names) for names in forgotten] == [[], [], ["a", "b", "c", "w"], ["x"]]


def test_only_what_is_wanted_runs() -> None:
    assert plan(graph(), ["z"])[0] == ["Exp"]
    assert plan(graph(), ["b"], given=("a",)) == (["Neg"], [["a"]])
    assert plan(graph(), ["a"], given=("a",)) == ([], [])


def test_an_output_that_nobody_reads_is_forgotten_at_once() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4] x) => (float[2] y) { y, rest = Split (x) }
    """)
    assert plan(ir.load(model).graph, ["y"], given=("x",)) == (["Split"], [["rest", "x"]])
