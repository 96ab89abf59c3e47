"""The referee on real models: every one evaluates, or is refused for a reason that is listed here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from tests.corpus import models
from tests.reference.models import Array

SIZES = ((2, 48), (32, 96), (64, 240), (32, 1000))
REFUSALS = {
    "Azure-Samples+": "com.microsoft:LegacyPadding",  # an operator of a private converter, never described
    "three_layer_bn_keras.504ea6f1": "parameters of shape (64,)",  # a transposed matrix: its channels are the batch
    "three_layer_bn_keras.4e055300": "perm [0, 3, 1, 2] for rank 2",  # four axes to permute of a matrix
    "resnet18_dynamo": "its data does not fit",  # the weights are not in the file
    "batch_norm_invalid_bias_rank": "differ in shape",  # made to be invalid, as are the next two
    "instance_norm_invalid_type": "of type int32",
    "instance_norm_nonbroadcastable": "4 scales",
}


def feeds(proto: onnx.ModelProto, unknown: int, largest: int) -> dict[str, Array]:
    """Normal numbers for float inputs, small ones for the others; variances positive."""
    rng, stored = np.random.default_rng(0), {tensor.name for tensor in proto.graph.initializer}
    inputs = [info for info in proto.graph.input if info.name not in stored]
    return {info.name: draw(rng, info, unknown, largest) for info in inputs}


def draw(rng: np.random.Generator, info: onnx.ValueInfoProto, unknown: int, largest: int) -> Array:
    tensor = info.type.tensor_type
    sizes = [
        dim.dim_value if dim.dim_value > 0 else unknown if axis else 2 for axis, dim in enumerate(tensor.shape.dim)
    ]
    if len(sizes) == 4 and min(sizes[2:]) > 32:  # an image: most networks take a smaller one as well
        sizes = [min(sizes[0], 2), sizes[1], *(min(size, largest) for size in sizes[2:])]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind in "biu":
        return rng.integers(0, 2, sizes).astype(dtype)
    numbers = rng.standard_normal(sizes)
    return (np.abs(numbers) + 0.5 if "var" in info.name.lower() else numbers).astype(dtype)


def attempt(path: Path, sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The outputs for the first sizes of unknown dims and of images that the model takes."""
    proto = onnx.load(path, load_external_data=False)
    error: BnfoldError | None = None
    for unknown, largest in sizes:
        try:
            return reference.evaluate(ir.load(path), feeds(proto, unknown, largest))
        except reference.CannotEvaluate as refusal:
            error = refusal
    raise error or AssertionError


@pytest.mark.large
def test_every_real_model_evaluates_or_is_refused_for_a_known_reason(corpus: Path) -> None:
    paths = list(models(corpus, "net", "net-noweights", "exporter-op", "fixture", everything=True))
    unexpected: list[str] = []
    for path in paths:
        reason = next((reason for mark, reason in REFUSALS.items() if mark in str(path)), None)
        try:
            results = attempt(path, SIZES)
        except BnfoldError as error:
            if reason is None or reason not in str(error):
                unexpected.append(f"{path}: {error}")
            continue
        if reason is not None:
            unexpected.append(f"{path} is not refused any more")
        if not all(value.dtype == np.float64 for value in results.values() if value.dtype.kind == "f"):
            unexpected.append(f"{path}: not in float64")
    assert not unexpected
    assert len(paths) > 100
