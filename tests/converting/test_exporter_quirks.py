import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnfold import reference
from bnfold.errors import ConversionBlocked

ROOT = Path(__file__).parents[2]
Converted = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_one_pad_for_each_axis_is_meant_for_both_sides(upgraded: Converted, text: Text, op_type: str) -> None:
    call = f"y = {op_type} <kernel_shape = [3, 2], pads = [1, 0]> (x)"
    outcome = upgraded(text(1, "float[1, 2, 5, 6] x", call), compare=False)
    assert outcome.model.graph.nodes[0].attr("pads") == [1, 0, 1, 0]
    assert outcome.repairs == ["half-pads"]


@pytest.mark.parametrize("attrs", ["kernel_shape = 3, pads = [1]", "kernel_shape = [3], pads = 1"])
def test_pads_that_are_no_list_are_left_to_whoever_runs_them(upgraded: Converted, text: Text, attrs: str) -> None:
    assert not upgraded(text(1, "float[1, 2, 5] x", f"y = MaxPool <{attrs}> (x)"), compare=False).repairs


@pytest.mark.parametrize("attrs", ["kernel_shape = [3], pads = [1, 0]", "kernel_shape = [3]"])
def test_complete_pads_stay(upgraded: Converted, text: Text, attrs: str) -> None:
    assert not upgraded(text(1, "float[1, 2, 5] x", f"y = MaxPool <{attrs}> (x)")).repairs


@pytest.mark.parametrize(
    ("opset", "inputs", "body", "output", "honest"),
    [
        (1, "float[2, 3] x", "y = Cast <to = 6> (x)", "int32", 6),
        (1, "float[2, 3] x", "r = Constant <value = int64[2] {2, 1}> ()  y = Tile (x, r)", "float", 6),
        (6, "float[2, 3] x, float[3, 4] w", "y = Gemm (x, w)", "float", 11),
        (9, "float[2, 3] x", "s = Constant <value = int64[1] {1}> ()  y = Slice (x, s, s, s)", "float", 10),
        (11, "float[2, 3] x", "s = Constant <value = int64[1] {1}> ()  y = Unsqueeze (x, s)", "float", 13),
        (7, "float[2, 3] x", "m = Constant <value = float {0.5}> ()  y = Clip (x, m)", "float", 11),
        (9, "float[1, 2, 4, 4] x", "y = MaxPool <kernel_shape = [2, 2], ceil_mode = 1> (x)", "float", 10),
        (4, "float[2, 3] x", "r = Constant <value = int64[2] {3, 2}> ()  y = Reshape (x, r)", "float", 5),
    ],
)
def test_what_fits_a_later_version_only_is_read_as_that(
    upgraded: Converted, text: Text, opset: int, inputs: str, body: str, output: str, honest: int
) -> None:
    """An opset stamped too low: the same node at an honest one is its own oracle."""
    outcome = upgraded(text(opset, inputs, body, outputs=f"{output}[] y"), 15, compare=False)
    assert "later-form" in outcome.repairs
    assert any(f"-{honest}, which does" in repair.text for repair in outcome.report.repairs)
    meant = upgraded(text(honest, inputs, body, outputs=f"{output}[] y"), 15)
    np.testing.assert_array_equal(reference.evaluate(outcome.model, meant.feeds)["y"], meant.results["y"])


@pytest.mark.parametrize(
    ("opset", "inputs", "body"),
    [
        (6, "float[2, 3] x", "y = Cast <to = 6> (x)"),  # it fits its own
        (1, "float[2, 3] x", "y = Cast (x)"),  # no version does without
        (9, "float[2, 3] x", "y = Relu <colour = 3> (x)"),  # nor has this
    ],
)
def test_what_fits_its_own_version_or_none_is_no_later_form(
    upgraded: Converted, text: Text, opset: int, inputs: str, body: str
) -> None:
    with suppress(ConversionBlocked):
        assert not upgraded(text(opset, inputs, body, outputs="int32[] y"), 15, compare=False).repairs


def test_no_form_beyond_the_target(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(1, "float[2, 3] x", "y = Cast <to = 6> (x)", outputs="int32[] y"), 5, compare=False)
    assert not outcome.repairs
    assert outcome.model.graph.nodes[0].attr("to") == 6


def test_the_table_of_later_forms_is_up_to_date() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "make_later_forms.py"), "--check"]
    run = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
