"""The pass as a whole: which nodes, what it reports, in which graphs, and what it says of the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.decomposing import Form, decompose, left
from bnfold.report.events import BatchNormEvent, Report
from bnfold.semantics import Policy
from tests.conftest import MODELS
from tests.decomposing.cases import OPERATORS, PARAMETERS, STATISTICS, Case, decomposed, evaluated

CASE = Case()
INSTANCE = Case("InstanceNormalization")
ONLY_BATCH = frozenset({"BatchNormalization"})
PATHS = sorted(MODELS.glob("*.onnx"))


def test_what_is_reported() -> None:
    done = decomposed(Case(inputs=frozenset({"bias"})).proto())
    assert done.event is not None
    assert done.event.verdict == "decomposed"
    assert done.event.reason is None
    assert done.event.into == tuple(node.label for node in done.model.graph.nodes)
    assert done.event.into[-1] == "norm"
    assert done.report.cuts == (ir.Cut("", ("x", "bias"), ("y",), "decompose norm"),)


def test_a_cut_ends_at_outputs_that_are_used() -> None:
    case = Case(outputs=("running_mean", ""), attributes={"training_mode": 1})
    assert decomposed(case.proto()).report.cuts[0].outputs == ("y", "running_mean")


def test_a_reason_of_folding_is_forgotten_when_it_is_decomposed() -> None:
    model = ir.load(CASE.proto())
    event = BatchNormEvent("norm", "", 15, "inference", reason=None, detail="of folding")
    decompose(model, {model.graph.nodes[0]: event}, Report(), policy=Policy())
    assert (event.verdict, event.reason, event.detail) == ("decomposed", None, "")


def test_only_the_operators_asked_for() -> None:
    model = ir.load(INSTANCE.proto())
    decompose(model, {}, Report(), policy=Policy(), operators=ONLY_BATCH)
    assert [node.op_type for node in model.graph.nodes] == ["InstanceNormalization"]
    assert left(model, ONLY_BATCH) == []
    assert left(model, OPERATORS) == [("norm", "", "decomposing it was not asked for (--decompose remaining)")]


def test_an_instance_normalization_that_stays_is_noted() -> None:
    model, report = ir.load(Case("InstanceNormalization", opset=6).proto()), Report()
    decompose(model, {}, report, policy=Policy(), operators=OPERATORS)
    (note,) = report.notes
    assert note.startswith("InstanceNormalization 'norm' left as it was: the operator broadcasts")


def test_operators_of_other_domains_are_not_ours() -> None:
    model = CASE.proto()
    model.graph.node[0].domain = "custom"
    model.opset_import.append(helper.make_opsetid("custom", 1))
    loaded = ir.load(model)
    decompose(loaded, {}, Report(), policy=Policy())
    assert loaded.graph.nodes[0].op_type == "BatchNormalization"
    assert left(loaded, OPERATORS) == []


def test_what_cannot_be_decomposed_at_all_is_left_with_a_word() -> None:
    model = CASE.proto()
    model.graph.node[0].op_type = "GroupNormalization"
    found = left(ir.load(model), frozenset({"GroupNormalization"}))
    assert found == [("norm", "", "no decomposition of this operator is known")]


def test_names_that_are_taken_are_not_taken_again() -> None:
    """Fresh values are named after the node; a model may have such names already."""
    model = CASE.proto()
    model.graph.node.append(helper.make_node("Identity", ["y"], ["norm_mul"]))
    model.graph.output[0].name = "norm_mul"
    model.graph.input[0].name = model.graph.node[0].input[0] = "norm_mul_by"
    done = decomposed(model)
    feeds = {"norm_mul_by": CASE.feeds()["x"]}
    assert np.allclose(evaluated(done.model, feeds)["norm_mul"], evaluated(model, feeds)["norm_mul"], atol=1e-5)


def test_constants_are_shared_between_nodes() -> None:
    """Two of them in training mode need the same epsilon and momentum."""
    case = Case(outputs=STATISTICS[:2], attributes={"training_mode": 1}, inputs=frozenset(PARAMETERS))
    model = case.proto()
    second = helper.make_node("BatchNormalization", ["y", *PARAMETERS], ["z"], training_mode=1)
    model.graph.node.append(second)
    model.graph.output[0].name = "z"
    done = decomposed(model)
    names = {"norm_epsilon", "norm_momentum", "norm_remainder", "norm_axes", "norm_axes_1"}
    assert done.initializers.keys() == names  # the axes of Squeeze, and those of Unsqueeze
    expected, actual = evaluated(model, case.feeds())["z"], evaluated(done.model, case.feeds())["z"]
    assert np.allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_names_of_outer_parameters_pass_on_from_inside_a_branch() -> None:
    model, after = ir.load(MODELS / "in_if.onnx"), ir.load(MODELS / "in_if.onnx")
    upgrade(after)
    decompose(after, {}, Report(), policy=Policy())
    after.remove_dead_nodes()
    held = {value.name for value in model.graph.values.values() if value.is_initializer}
    kept = {value.name for value in after.graph.values.values() if value.is_initializer}
    assert kept < held  # the scales and biases of the captured ones are there, means and variances are not


def draw(model: ir.Model) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    feeds = {}
    for value in model.graph.inputs:
        if not value.is_initializer:
            dims = [dim if isinstance(dim, int) else 2 for dim in value.shape or ()]
            dtype = helper.tensor_dtype_to_np_dtype(value.dtype or TensorProto.FLOAT)
            feeds[value.name] = generator.normal(size=dims).astype(dtype)
    return feeds


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
@pytest.mark.parametrize("form", ["mul_add", "depthwise_conv"])
def test_models_in_every_scope(path: Path, form: Form) -> None:
    """Main graphs, branches, loop bodies and functions: nothing is left, and outputs keep names and values."""
    before, after = ir.load(path), ir.load(path)
    upgrade(after)
    decompose(after, {}, Report(), policy=Policy(), form=form, operators=OPERATORS)
    after.remove_dead_nodes()
    assert left(after, OPERATORS) == []
    feeds = draw(before)
    expected, actual = evaluated(before, feeds), evaluated(after, feeds)
    assert expected.keys() == actual.keys()
    half = any(value.dtype == TensorProto.FLOAT16 for value in before.graph.inputs)
    for name, value in expected.items():
        assert np.abs(actual[name] - value).max() <= (2e-3 if half else 1e-6) * max(1, np.abs(value).max())


def test_twice_is_once() -> None:
    done = decomposed(CASE.proto())
    before = done.model.proto.SerializeToString(deterministic=True)
    decompose(done.model, {}, Report(), policy=Policy(), operators=OPERATORS)
    done.model.sync()
    assert done.model.proto.SerializeToString(deterministic=True) == before


def test_a_saved_model_is_complete(tmp_path: Path) -> None:
    done = decomposed(Case(annotation=None, inputs=frozenset(PARAMETERS)).proto())
    ir.save(done.model, tmp_path / "out.onnx")
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)


def test_name_doc_string_and_metadata_go_to_what_makes_the_output() -> None:
    model = CASE.proto()
    model.graph.node[0].doc_string = "stem"
    model.graph.node[0].metadata_props.add(key="scope", value="a/b")
    last = decomposed(model).model.proto.graph.node[-1]
    assert (last.name, last.doc_string) == ("norm", "stem")
    assert [(entry.key, entry.value) for entry in last.metadata_props] == [("scope", "a/b")]


def test_what_had_to_be_decided_is_reported_where_no_upgrade_did() -> None:
    """spatial=0 over one parameter a channel: an exporter's slip, read as spatial=1."""
    case = Case(opset=7, attributes={"spatial": 0})
    done = decomposed(case.proto())
    assert [repair.kind for repair in done.report.repairs] == ["nonspatial-channel-parameters"]
