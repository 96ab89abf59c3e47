from collections.abc import Callable
from typing import Any

import pytest

from bnfold import reference
from bnfold.errors import ConversionBlocked
from bnfold.semantics import Policy
from tests.converting.conftest import run

Converted = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("target", [6, 7, 10, 12, 15, 28])
def test_inference(upgraded: Converted, text: Text, opset: int, target: int) -> None:
    outcome = upgraded(text(opset, "float[2, 3] x", "y = Dropout <is_test = 1, ratio = 0.25> (x)"), target)
    assert outcome.ops == ["Dropout"]
    assert not outcome.repairs


@pytest.mark.parametrize("opset", [7, 10])
def test_from_7_on_dropout_copies(upgraded: Converted, text: Text, opset: int) -> None:
    assert upgraded(text(opset, "float[2, 3] x", "y = Dropout <ratio = 0.25> (x)")).ops == ["Dropout"]


def test_the_default_ratio_needs_no_input(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(10, "float[2, 3] x", "y = Dropout (x)"))
    assert len(outcome.model.graph.nodes[0].inputs) == 1


def test_an_absent_is_test_is_reported(upgraded: Converted, text: Text) -> None:
    assert upgraded(text(6, "float[2, 3] x", "y = Dropout (x)")).repairs == ["absent-is-test"]
    with pytest.raises(ConversionBlocked, match="no is_test"):
        upgraded(text(6, "float[2, 3] x", "y = Dropout (x)"), policy=Policy(legacy_mode="error"))


def test_training_needs_version_12(upgraded: Converted, text: Text) -> None:
    source = text(6, "float[2, 3] x", "y = Dropout <is_test = 0, ratio = 0.25> (x)")
    outcome = upgraded(source, 12, compare=False)
    assert outcome.model.graph.nodes[0].inputs[2].tensor.numpy()
    with pytest.raises(ConversionBlocked, match="may drop at random"):
        upgraded(source, 10)


def test_training_by_policy(upgraded: Converted, text: Text) -> None:
    source = text(6, "float[2, 3] x", "y = Dropout (x)")
    outcome = upgraded(source, policy=Policy(legacy_mode="training"), compare=False)
    assert outcome.repairs == ["absent-is-test"]
    assert outcome.model.graph.nodes[0].inputs[2].tensor.numpy()


def test_training_forced_to_inference(upgraded: Converted, text: Text) -> None:
    source = text(6, "float[2, 3] x", "y = Dropout <is_test = 0> (x)")
    referee = reference.Policy(force_inference=True)
    outcome = upgraded(source, policy=Policy(force_inference=True), referee=referee, compare=False)
    assert outcome.repairs == ["forced-inference"]
    assert len(outcome.model.graph.nodes[0].inputs) == 1


@pytest.mark.parametrize("opset", [6, 7])
@pytest.mark.parametrize(("target", "said"), [(10, []), (12, ["undefined-mask"]), (22, ["undefined-mask"])])
def test_a_mask_that_is_read_keeps_its_type(
    upgraded: Converted, text: Text, opset: int, target: int, said: list[str]
) -> None:
    """No text before 12 says what it holds in inference: onnxruntime makes it of zeros, and from 12 on of ones."""
    attrs = "<is_test = 1>" if opset == 6 else ""
    source = text(opset, "float[2, 3] x", f"y, m = Dropout {attrs} (x)", outputs="float[2, 3] y, float[2, 3] m")
    outcome = upgraded(source, target, compare=False)
    assert outcome.ops == ["Dropout", "Cast"]
    assert outcome.repairs == said
    assert run(outcome.model.proto, outcome.feeds)["m"].tolist() == [[float(target >= 12)] * 3] * 2


def test_a_boolean_mask_that_is_read_is_reported(upgraded: Converted, text: Text) -> None:
    source = text(10, "float[2, 3] x", "y, m = Dropout (x)", outputs="float[2, 3] y, bool[2, 3] m")
    assert upgraded(source, 13, compare=False).repairs == ["undefined-mask"]


@pytest.mark.parametrize("target", [13, 22])
def test_a_mask_of_version_12_keeps_its_meaning(upgraded: Converted, text: Text, target: int) -> None:
    source = text(12, "float[2, 3] x", "y, m = Dropout (x)", outputs="float[2, 3] y, bool[2, 3] m")
    outcome = upgraded(source, target)
    assert not outcome.repairs
    assert run(outcome.model.proto, outcome.feeds)["m"].all()
    assert outcome.results["m"].all()


def test_a_mask_that_nobody_reads_goes(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(6, "float[2, 3] x", "y, m = Dropout <is_test = 1> (x)"))
    assert len(outcome.model.graph.nodes[0].outputs) == 1
    assert not outcome.repairs
