from collections.abc import Callable
from typing import Any

import pytest

Upgraded = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_one_pad_for_each_axis_is_meant_for_both_sides(upgraded: Upgraded, text: Text, op_type: str) -> None:
    call = f"y = {op_type} <kernel_shape = [3, 2], pads = [1, 0]> (x)"
    outcome = upgraded(text(1, "float[1, 2, 5, 6] x", call), compare=False)
    assert outcome.model.graph.nodes[0].attr("pads") == [1, 0, 1, 0]
    assert outcome.repairs == ["half-pads"]


@pytest.mark.parametrize("attrs", ["kernel_shape = 3, pads = [1]", "kernel_shape = [3], pads = 1"])
def test_pads_that_are_no_list_are_left_to_whoever_runs_them(upgraded: Upgraded, text: Text, attrs: str) -> None:
    assert not upgraded(text(1, "float[1, 2, 5] x", f"y = MaxPool <{attrs}> (x)"), compare=False).repairs


@pytest.mark.parametrize("attrs", ["kernel_shape = [3], pads = [1, 0]", "kernel_shape = [3]"])
def test_complete_pads_stay(upgraded: Upgraded, text: Text, attrs: str) -> None:
    assert not upgraded(text(1, "float[1, 2, 5] x", f"y = MaxPool <{attrs}> (x)")).repairs
