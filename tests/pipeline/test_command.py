"""`bnfold run`: whatever a command does, OUT is what it was, or a model that computes the same."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from bnfold.cli.commands import main
from bnfold.pipeline import external_tools
from tests.pipeline import programs

pytestmark = pytest.mark.measures_children

pytest.importorskip("onnxruntime")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.onnx"
    onnx.save(programs.model(), path)
    return path


def run(source: Path, command: list[str], *words: str, out: str = "out.onnx") -> Result:
    arguments = ["run", str(source), str(source.parent / out), *words, "--", *command]
    return CliRunner().invoke(main, arguments)


def test_a_command_that_computes_the_same_is_put_in_place(source: Path) -> None:
    result = run(source, programs.command(programs.HARMLESS))
    assert result.exit_code == 0, result.stderr
    assert "original" in result.stderr
    assert onnx.load(source.parent / "out.onnx").graph.node == onnx.load(source).graph.node
    found = json.loads(run(source, programs.command(programs.HARMLESS), "--json", "-q").stdout)
    assert (found["status"], found["batchnorms"], found["opset"]) == ("verified", 1, 17)


@pytest.mark.parametrize("fault", programs.FAULTS)
def test_one_that_does_not_leaves_everything_as_it_was(fault: str, source: Path) -> None:
    before = source.read_bytes()
    (source.parent / "out.onnx").write_bytes(b"older")
    words = ["--step-seconds", "2"] if fault == "a hang" else []
    result = run(source, programs.command(programs.FAULTS[fault]), *words)
    assert result.exit_code == 1
    first, *rest = result.stderr.splitlines()
    is_compared = fault in ("one weight", "an output dropped", "an input renamed")
    assert [line.partition(" ")[0] for line in rest] == ["next:"] * is_compared
    assert f"not written: {Path(sys.executable).name}: {programs.REASONS[fault]}" in first
    assert source.read_bytes() == before
    assert (source.parent / "out.onnx").read_bytes() == b"older"
    assert len(list(source.parent.iterdir())) == 2


def test_one_that_writes_to_its_input_changes_a_copy(source: Path) -> None:
    before = source.read_bytes()
    text = programs.FAULTS["one weight"] + "\nonnx.save(m, sys.argv[1])"
    assert run(source, programs.command(text)).exit_code == 1
    assert source.read_bytes() == before


def test_what_cannot_be_compared_is_refused_with_a_code_of_its_own(source: Path) -> None:
    model = onnx.load(source)
    model.graph.node[0].domain = "elsewhere"
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))
    onnx.save(model, source)
    result = run(source, programs.command(programs.FAULTS["one weight"]))
    assert result.exit_code == 3, result.stderr
    assert "unverified" in result.stderr
    assert not (source.parent / "out.onnx").exists()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["no-such-program", "{input}", "{output}"], "there is no program no-such-program"),
        (["cp", "{input}"], "the command has to name both files"),
        (["{input}", "{output}"], "the command has to name both files"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(command: list[str], line: str, source: Path) -> None:
    result = run(source, command)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert line in result.stderr


def test_what_only_one_file_can_do(source: Path) -> None:
    copy = programs.command(programs.HARMLESS)
    assert run(source.parent, copy).exit_code == 2
    assert run(source, copy, "--tolerance", "much").exit_code == 2
    assert run(source, copy, out="in.onnx").exit_code == 2
    assert run(source, copy, "--in-place", out="in.onnx").exit_code == 0
    assert run(source.parent / "model.xml", copy).exit_code == 2


def test_memory_is_limited(source: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("the system has no such limit")
    most = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 0.95)
    result = run(source, programs.command(f"import sys, numpy; numpy.empty({most}, 'u1'); assert sys.argv"))
    assert "MemoryError" in result.stderr


def test_without_the_limit_the_same_program_gets_its_memory(source: Path, tmp_path: Path) -> None:
    """What is reserved and not written costs nothing, so the test above fails where nothing limits."""
    if sys.platform != "linux":
        pytest.skip("the system has no such limit")
    most = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 0.5)
    text = f"import numpy; numpy.empty({most}, 'u1')\n{programs.HARMLESS}"
    (tmp_path / "here").mkdir()
    from bnfold import ir

    assert external_tools.command(programs.command(text)).run(ir.load(source), tmp_path / "here", 600).opset() == 17


HALF = """
import sys, onnx, numpy as np
from onnx import numpy_helper as nh, helper
m = onnx.load(sys.argv[1]); g = m.graph
for t in g.initializer:
    if t.data_type == 1: t.CopyFrom(nh.from_array((nh.to_array(t) * FACTOR).astype(np.float16), t.name))
made = {o.name for o in g.output}
half = lambda name: name + '_half' if name == 'x' or name in made else name
for n in g.node:
    n.input[:] = map(half, n.input); n.output[:] = map(half, n.output)
g.node.insert(0, helper.make_node('Cast', ['x'], ['x_half'], to=10))
g.node.extend(helper.make_node('Cast', [half(name)], [name], to=1) for name in made)
onnx.save(m, sys.argv[2])
"""


@pytest.mark.parametrize(
    ("factor", "tolerance", "code"),
    [("1", "", 1), ("1", "float16", 0), ("1", "1e-2", 0), ("1", "1e-5", 1), ("1.1", "float16", 1), ("1e6", "0.5", 1)],
)
def test_a_step_may_round_as_far_as_it_was_allowed_to(factor: str, tolerance: str, code: int, source: Path) -> None:
    words = ["--tolerance", tolerance] if tolerance else []
    result = run(source, programs.command(HALF.replace("FACTOR", factor)), *words)
    assert result.exit_code == code, result.stderr
    assert (source.parent / "out.onnx").exists() == (code == 0)
    if code == 0:
        assert "within tolerance" in result.stderr


def test_a_tolerance_is_for_numbers_and_not_for_labels_or_the_interface(source: Path) -> None:
    drop = programs.command(programs.FAULTS["an output dropped"])
    assert run(source, drop, "--tolerance", "0.9").exit_code == 1
    narrow = programs.HARMLESS.replace("\nonnx.save", "\ng.input[0].type.tensor_type.shape.dim[0].dim_value = 1" + NEW)
    model = onnx.load(source)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, source)
    other = programs.HARMLESS.replace("\nonnx.save", NEW)
    assert run(source, programs.command(other), "--tolerance", "0.9").exit_code == 0
    assert run(source, programs.command(narrow), "--tolerance", "0.9").exit_code == 1
    onnx.save(labels(), source)
    assert run(source, programs.command(other), "--tolerance", "0.9").exit_code == 1
    result = run(source, programs.command(other.replace("1.2", "-1.2")), "--tolerance", "0.9")
    assert result.exit_code == 1
    assert "elements differ, and none may" in result.stderr


NEW = """
t = g.initializer[0]
t.CopyFrom(nh.from_array((nh.to_array(t) * numpy.float32(1.2)).astype(numpy.float32), t.name))
onnx.save"""


def labels() -> onnx.ModelProto:
    """The place of the largest; the weight decides."""
    weight: Any = numpy_helper.from_array(np.array([3, 2.9, 2.8], np.float32), "w")
    nodes = [
        helper.make_node("Sub", ["w", "x"], ["d"]),
        helper.make_node("ArgMax", ["d"], ["y"], axis=1, keepdims=0),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 3])]
    made = [helper.make_tensor_value_info("y", TensorProto.INT64, [64])]
    graph = helper.make_graph(nodes, "g", given, made, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
