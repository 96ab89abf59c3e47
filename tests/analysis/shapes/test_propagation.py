"""Inference of models with long lists: of which onnx, left alone, writes down every number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bnfold import ir
from bnfold.analysis.shapes.propagation import needs_propagation
from tests.ir.build import info, model
from tests.machine import unmeasured

LONG = 1 << 40
_INFER = """
import resource, sys
from bnfold import analysis, ir
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
model = ir.load(sys.argv[1])
analysis.infer_shapes(model, strict=True)
print({name: value.shape for name, value in model.graph.values.items()})
"""


def _long(*nodes: onnx.NodeProto, **constants: list[int]) -> onnx.ModelProto:
    stored = [helper.make_tensor(name, TensorProto.INT64, [len(held)], held) for name, held in constants.items()]
    proto = model([helper.make_node("Cast", ["x"], ["long"], to=TensorProto.FLOAT), *nodes], stored)
    proto.graph.input[0].CopyFrom(info("x", LONG))
    proto.graph.output[0].CopyFrom(info(nodes[-1].output[0], None, None) if nodes else info("long", LONG))
    return proto


def _shapes(proto: onnx.ModelProto, folder: Path) -> str:
    onnx.save(proto, folder / "model.onnx")
    command = [sys.executable, "-c", _INFER, str(folder / "model.onnx")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured())
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux's means")
def test_a_long_list_takes_no_memory(tmp_path: Path) -> None:
    """In the second model sizes are computed, which needs the numbers of short lists; in the third, in a branch."""
    assert f"'long': ({LONG},)" in _shapes(_long(), tmp_path)
    computed = [
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("Concat", ["one", "size"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["long", "sizes"], ["row"]),
    ]
    assert f"'row': (1, {LONG})" in _shapes(_long(*computed, one=[1]), tmp_path)
    branch = helper.make_graph(
        [helper.make_node("Add", ["long", "long"], ["sum"]), helper.make_node("Reshape", ["sum", "sizes"], ["inner"])],
        "branch",
        [],
        [info("inner", None, None)],
    )
    nested = [*computed, helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)]
    proto = _long(*nested, one=[1])
    proto.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    assert f"'y': (1, {LONG})" in _shapes(proto, tmp_path)


def test_numbers_are_followed_where_a_size_is_computed() -> None:
    reshape = helper.make_node("Reshape", ["long", "sizes"], ["y"])
    computed = _long(helper.make_node("Shape", ["x"], ["sizes"]), reshape)
    assert needs_propagation(ir.load(computed))
    assert not needs_propagation(ir.load(_long(reshape, sizes=[-1])))
    assert not needs_propagation(ir.load(_long(helper.make_node("Identity", ["one"], ["sizes"]), reshape, one=[-1])))
