"""Kernels are registered for exact versions, once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold.errors import BnfoldError
from bnfold.reference.registry import (
    NO_SCHEMA,
    Call,
    CannotEvaluate,
    KernelDeclined,
    find_kernel,
    int_list,
    kernel,
    normal_axis,
    registered,
)


def test_a_second_kernel_for_a_version_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="two kernels for :Conv-11"):
        kernel("Conv", 11)(lambda call: call)


def test_only_the_exact_version_is_found() -> None:
    assert find_kernel("", "BatchNormalization", 9) is not None
    assert find_kernel("", "BatchNormalization", 8) is None
    assert find_kernel("my", "BatchNormalization", 9) is None


def test_every_kernel_is_for_a_version_that_exists() -> None:
    versions = {
        (schema.domain, schema.name, schema.since_version) for schema in onnx.defs.get_all_schemas_with_history()
    }
    newest = onnx.defs.onnx_opset_version()  # of the installed package; kernels may know later texts
    unknown = {entry for entry in registered() if NO_SCHEMA < entry[2] <= newest} - versions
    assert unknown == set()


def test_every_version_of_the_normalisations_has_a_kernel() -> None:
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.name in ("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization"):
            assert find_kernel(schema.domain, schema.name, schema.since_version) is not None


def test_an_attribute_is_what_the_node_says_or_the_schema_or_the_kernel() -> None:
    call = Call("LeakyRelu", 6, {"alpha": 0.5}, {"alpha": 0.01, "beta": 2.0})
    assert (call.attr("alpha"), call.attr("beta"), call.attr("gamma", 3)) == (0.5, 2.0, 3)
    assert call.has("alpha")
    assert not call.has("beta")


def test_axes_count_from_both_ends() -> None:
    assert [normal_axis(axis, 3) for axis in (0, 2, -1, -3)] == [0, 2, 2, 0]
    for axis in (3, -4):
        with pytest.raises(KernelDeclined, match="outside rank 3"):
            normal_axis(axis, 3)


def test_integers_out_of_tensors_and_lists() -> None:
    assert int_list(np.array([1, 2])) == int_list([1, 2]) == [1, 2]
    with pytest.raises(KernelDeclined, match="in 2 axes"):
        int_list(np.array([[1], [2]]))


def test_the_error_names_operator_version_node_and_reason() -> None:
    error = CannotEvaluate("my:Op", 3, "here", "because")
    assert isinstance(error, BnfoldError)
    assert str(error) == "bnfold's reference implementation cannot compute my:Op-3 (node 'here'): because"
