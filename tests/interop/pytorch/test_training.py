"""Models exported in training mode: refused by the nodes' names, or explained where the module means just that."""

from __future__ import annotations

from typing import Any

import pytest

import bnfold
from bnfold.errors import ExportedInTraining

torch = pytest.importorskip("torch")

from bnfold import pytorch  # noqa: E402 - only now is it known that torch is there
from tests.interop.pytorch import networks  # noqa: E402
from tests.interop.pytorch.networks import MobileNet, ResNet, count  # noqa: E402

nn = torch.nn
PRESERVE = torch.onnx.TrainingMode.PRESERVE
X = networks.example(ResNet)


def own_statistics() -> Any:
    """BatchNorm that never kept statistics: in evaluation mode too it uses each batch's own."""
    norm = nn.BatchNorm2d(5, track_running_stats=False)
    return networks.drawn(nn.Sequential(nn.Conv2d(3, 5, 3), norm, nn.ReLU(), nn.Conv2d(5, 4, 1), nn.BatchNorm2d(4)))


@pytest.mark.parametrize("opset", [9, 13, 15])
@pytest.mark.parametrize("given", [True, False], ids=["with the module", "without"])
def test_a_file_exported_in_training_mode_is_refused(opset: int, given: bool) -> None:
    module = networks.drawn(ResNet()).train()
    data = networks.scripted(module, X, opset_version=opset, training=PRESERVE)
    with pytest.raises(ExportedInTraining, match=r"BatchNormalization /stem/stem.1/.*call module\.eval\(\)") as caught:
        pytorch.optimize(data, module=module if given else None, example_inputs=X)
    assert len(caught.value.nodes) == 7
    assert module.training


def test_force_inference_reads_it_as_inference_which_the_comparison_confirms() -> None:
    module = networks.drawn(ResNet()).train()
    data = networks.scripted(module, X, opset_version=13, training=PRESERVE)
    options = bnfold.Options(policy=bnfold.Policy(force_inference=True))
    outcome = pytorch.optimize(data, module=module, example_inputs=X, options=options)
    assert outcome.status == "verified"
    assert count(outcome.to_proto()) == 0
    assert {repair.kind for repair in outcome.report.repairs} >= {"forced-inference"}


@pytest.mark.parametrize("dynamo", [True, False])
def test_dropout_that_drops_is_refused(dynamo: bool) -> None:
    module = networks.drawn(MobileNet()).train()
    if dynamo:
        program = networks.exported(module, X)
    else:
        program = networks.scripted(module, X, opset_version=13, training=PRESERVE)
    with pytest.raises(ExportedInTraining, match="was exported in training mode") as caught:
        pytorch.optimize(program, module=module)
    assert any(node.startswith("Dropout") for node in caught.value.nodes)


def test_a_program_that_says_inference_although_the_module_trains_is_noted() -> None:
    """The dynamo exporter writes BatchNorm in training mode as inference: what module.eval() computes."""
    module = networks.drawn(ResNet()).train()
    outcome = pytorch.optimize(networks.plainly_exported(module, X), module=module)
    assert outcome.status == "verified"
    begin = "the module is in training mode, the model in inference mode"
    assert [note for note in outcome.notes if note.startswith(begin)]
    assert module.training


@pytest.mark.parametrize("opset", [13, 15])
def test_batch_statistics_that_the_module_means_are_left_and_verified(opset: int) -> None:
    module = own_statistics()
    data = networks.scripted(module, X, opset_version=opset, training=PRESERVE)
    outcome = pytorch.optimize(data, module=module, example_inputs=X)
    assert outcome.status == "verified"
    assert [event.reason and event.reason.code for event in outcome.report.batchnorms] == ["training-mode", None]
    assert outcome.notes == ("1 BatchNormalizations use the batch's own statistics, as the module",)


def test_without_the_module_nobody_knows_that_it_means_them() -> None:
    data = networks.scripted(own_statistics(), X, opset_version=13)
    with pytest.raises(ExportedInTraining, match="force_inference=True"):
        pytorch.optimize(data)
