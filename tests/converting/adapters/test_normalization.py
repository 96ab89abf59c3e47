from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
INPUTS = "float[2, 3, 4, 5] x, float[3] s, float[3] b"


@pytest.mark.parametrize(("opset", "target"), [(1, 6), (1, 15), (6, 15), (6, 22), (1, 28), (22, 15)])
@pytest.mark.parametrize("attrs", ["", "<epsilon = 0.25>"])
def test_instance(upgraded: Converted, text: Text, opset: int, target: int, attrs: str) -> None:
    outcome = upgraded(text(opset, INPUTS, f"y = InstanceNormalization {attrs} (x, s, b)"), target)
    assert outcome.ops == ["InstanceNormalization"]
    assert not outcome.repairs


def test_consumed_inputs_go_silently_and_strays_with_a_word(upgraded: Converted, text: Text) -> None:
    call = "y = InstanceNormalization <consumed_inputs = [0, 0, 0], is_test = 1, spatial = 1> (x, s, b)"
    outcome = upgraded(text(1, INPUTS, call))
    assert outcome.repairs == ["stray-attribute"] * 2
    assert not outcome.model.graph.nodes[0].attrs


def test_an_illegal_instance_normalization_is_an_error(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="has 2 inputs, needs 3"):
        upgraded(text(6, INPUTS, "y = InstanceNormalization (x, s)"))


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_parameters_are_repeated(upgraded: Converted, text: Text, groups: int) -> None:
    inputs = f"float[2, 6, 4] x, float[{groups}] s, float[{groups}] b"
    upgraded(text(18, inputs, f"y = GroupNormalization <num_groups = {groups}> (x, s, b)"), 21)


def test_constant_group_parameters_are_repeated_at_once(upgraded: Converted, text: Text) -> None:
    head = text(18, "float[2, 6, 4] x", "").removesuffix("{  }")
    body = "<float[2] s = {1, 2}, float[2] b = {3, 4}> { y = GroupNormalization <num_groups = 2> (x, s, b) }"
    assert upgraded(head + body, 21).ops == ["GroupNormalization"]


@pytest.mark.parametrize("channels", ["c", "0"])
def test_groups_of_unknown_channels_are_an_error(upgraded: Converted, text: Text, channels: str) -> None:
    inputs = f"float[2, {channels}, 4] x, float[2] s, float[2] b"
    with pytest.raises(ConversionBlocked, match="unknown number of channels"):
        upgraded(text(18, inputs, "y = GroupNormalization <num_groups = 2> (x, s, b)"), 21)
