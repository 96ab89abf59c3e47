"""Legal models that nobody expects: every command takes them, the numbers hold, and what is not ours survives."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import reference
from bnfold.errors import Unsupported
from bnfold.ir import load
from bnfold.settings import ONE_JOB, VerifyOptions
from tests.machine import here
from tests.strange import STRANGE

QUICK = VerifyOptions(depth="none")
MODES: dict[str, bnfold.Options] = {
    "optimize": bnfold.Options(),
    "fold": bnfold.Options(target_opset="keep", **ONE_JOB),
    "upgrade": bnfold.Options(fold=False, target_opset=21, **ONE_JOB),
    "decompose": bnfold.Options(fold=False, target_opset="keep", decompose="all", **ONE_JOB),
}
CANNOT_RUN = {
    "a_foreign_domain_only", "a_model_of_functions_only", "custom_operators", "map_types", "no_outputs",
    "optional_types", "sequences",
}  # fmt: skip
"""No inputs can be drawn for these, or an operator is nobody's."""


def feeds(proto: onnx.ModelProto) -> dict[str, Any]:
    """Random inputs of the declared shapes; unknown dims have size 2."""
    draw = np.random.default_rng(3)
    stored = {tensor.name for tensor in proto.graph.initializer}
    made = {}
    for value in proto.graph.input:
        if value.name not in stored:
            dims = [dim.dim_value if dim.HasField("dim_value") else 2 for dim in value.type.tensor_type.shape.dim]
            made[value.name] = draw.normal(size=dims).astype(np.float32)
    return made


def evaluated(proto: onnx.ModelProto, given: dict[str, Any]) -> dict[str, Any]:
    return reference.evaluate(load(proto), given)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STRANGE)
def test_what_comes_out_computes_the_same_and_keeps_the_rest(name: str, mode: str, tmp_path: Path) -> None:
    before = STRANGE[name]()
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(before.SerializeToString())
    if name == "training_info" and mode == "upgrade":
        with pytest.raises(Unsupported, match="training graphs"):
            bnfold.optimize(source, output, options=MODES[mode])
        assert not output.exists()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = bnfold.optimize(source, output, options=MODES[mode], verify=VerifyOptions(runtime="none"))
    assert outcome.verdict is not None
    assert outcome.verdict.status != "failed"
    after = onnx.load(output)
    same_interface(before, after)
    untouched(before, after, mode)
    if name not in CANNOT_RUN:
        given = feeds(before)
        expected, found = evaluated(before, given), evaluated(after, given)
        assert expected.keys() == found.keys()
        for value, array in expected.items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(found[value], array, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(found[value], array)
    again = bnfold.optimize(output, options=MODES[mode], verify=QUICK).to_proto()
    assert again == after


def same_interface(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Inputs (but for initializers that had to be listed) and outputs: names, types, texts, order."""
    stored = {tensor.name for tensor in before.graph.initializer} if before.ir_version < 4 else set()
    assert list(after.graph.input) == [value for value in before.graph.input if value.name not in stored]
    assert list(after.graph.output) == list(before.graph.output)


def untouched(before: onnx.ModelProto, after: onnx.ModelProto, mode: str) -> None:
    """What no rewrite owns is as it was."""
    for field in ("metadata_props", "training_info", "domain", "model_version", "doc_string", "producer_name"):
        assert getattr(after, field) == getattr(before, field)
    for field in ("name", "doc_string", "metadata_props", "quantization_annotation"):
        assert getattr(after.graph, field, None) == getattr(before.graph, field, None)
    # A sparse weight that folding needs is stored with its zeros.
    assert [*after.graph.sparse_initializer] in ([], [*before.graph.sparse_initializer])
    assert [(one.domain, one.name) for one in after.functions] == [(one.domain, one.name) for one in before.functions]
    foreign = [node for node in before.graph.node if node.domain not in ("", "ai.onnx")]
    left = [node for node in after.graph.node if node.domain not in ("", "ai.onnx")]
    called = {(one.domain, one.name) for one in before.functions}
    for old, new in zip(foreign, left, strict=True):
        if (old.domain, old.op_type) in called:  # a call may lose inputs that its function does not read
            assert (old.op_type, [*old.output], [*old.attribute]) == (new.op_type, [*new.output], [*new.attribute])
            assert {*new.input} <= {*old.input}
        else:
            assert new == old
    needed = {node.domain for node in load(before).nodes()} - {"", "ai.onnx"}
    domains = {one.domain: one.version for one in before.opset_import if one.domain in needed}
    assert domains.items() <= {one.domain: one.version for one in after.opset_import}.items()
    if mode == "fold":
        assert after.ir_version >= before.ir_version
        kept = {node.SerializeToString(deterministic=True) for node in after.graph.node}
        for node in before.graph.node:
            if node.op_type not in ("Conv", "BatchNormalization", "Mul", "Add"):
                assert node.SerializeToString(deterministic=True) in kept or node.output[0] not in made(after)


def made(proto: onnx.ModelProto) -> set[str]:
    """The values of the main graph that a node makes."""
    return {name for node in proto.graph.node for name in node.output}


@pytest.mark.parametrize("name", STRANGE)
def test_inspect_and_verify_take_it(name: str, tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    source.write_bytes(STRANGE[name]().SerializeToString())
    for command in (
        ("inspect", source),
        ("inspect", "--json", source),
        ("verify", "--allow-unverified", "--runtime", "none", source, source),
    ):
        process = here(*command)
        assert process.returncode == 0, process.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"in.onnx"}


LEFT = {
    "an_output_in_the_middle": {"graph-output"},
    "training_info": {"dynamic-weight"},
    **{f"rank_{rank}": {"graph-input"} for rank in range(1, 9)},
}
"""Where a BatchNormalization stays, and why."""


def test_what_can_be_folded_is() -> None:
    """Strangeness elsewhere is no reason to leave a Conv → BatchNormalization alone."""
    left: dict[str, set[str]] = {}
    for name, build in STRANGE.items():
        for event in bnfold.optimize(build(), verify=QUICK).report.batchnorms:
            if event.verdict not in ("folded", "removed"):
                assert event.reason is not None
                left.setdefault(name, set()).add(event.reason.code)
    assert left == LEFT


def test_a_weight_that_training_changes_is_left_alone() -> None:
    """Its training graph would go on to change the folded one by the step of the old one."""
    before = STRANGE["training_info"]()
    assert bnfold.fold(before, verify=QUICK).to_proto() == before
