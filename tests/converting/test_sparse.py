"""Sparse tensors below opset 11, where there are none, and where a BatchNormalization folds into one."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.converting import convert
from bnfold.ir.sparse import store_dense

WEIGHT = np.where(np.arange(108).reshape(4, 3, 3, 3) % 3, 0, np.arange(108).reshape(4, 3, 3, 3)).astype(np.float32)


def sparse(name: str, array: np.ndarray[Any, Any], *, flat: bool) -> onnx.SparseTensorProto:
    at = np.flatnonzero(array) if flat else np.argwhere(array)
    values = numpy_helper.from_array(array[array != 0], name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(at.astype(np.int64), f"{name}_at"), array.shape)


def network(*, opset: int = 13, flat: bool = True) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f'<ir_version: 7, opset_import: ["" : {opset}]> g (float[n, 3, 8, 8] x) => (float[n, 4, 6, 6] y) '
        "<float[4] s = {1, 2, 3, 4}> { c = Conv (x, w) y = BatchNormalization (c, s, s, s, s) }"
    )
    proto.graph.sparse_initializer.append(sparse("w", WEIGHT, flat=flat))
    return proto


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_initializers_are_stored_with_their_zeros_below_opset_11(flat: bool) -> None:
    model = ir.load(network(flat=flat))
    report = convert(model, 9)
    assert [repair.kind for repair in report.repairs] == ["sparse-weights"]
    model.sync()
    assert not model.proto.graph.sparse_initializer
    stored = model.graph.values["w"].tensor
    assert stored is not None
    np.testing.assert_array_equal(stored.numpy(), WEIGHT)
    assert model.proto.ir_version == 4


def test_they_stay_sparse_where_the_target_has_them() -> None:
    model = ir.load(network())
    assert not convert(model, 11).repairs
    assert model.proto.graph.sparse_initializer


@pytest.mark.parametrize("target", [9, 13, "keep"])
def test_a_batch_normalization_folds_into_a_sparse_weight(target: Any) -> None:
    outcome = bnfold.optimize(network(), target_opset=target)
    assert outcome.verified
    assert [node.op_type for node in outcome.to_proto().graph.node] == ["Conv"]


def test_a_batch_normalization_folds_into_a_sparse_constant() -> None:
    proto = network()
    proto.graph.ClearField("sparse_initializer")
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse("w", WEIGHT, flat=True)))
    outcome = bnfold.optimize(proto)
    assert outcome.verified
    assert "BatchNormalization" not in [node.op_type for node in outcome.to_proto().graph.node]


def test_without_a_fold_they_stay() -> None:
    proto = network()
    proto.graph.node[0].CopyFrom(helper.make_node("Relu", ["x"], ["c"]))
    proto.graph.node.append(helper.make_node("Neg", ["w"], ["v"]))
    proto.graph.output.append(helper.make_tensor_value_info("v", 1, WEIGHT.shape))
    proto.graph.node[1].input[:] = ["c", "k", "k", "k", "k"]
    proto.graph.input.append(helper.make_tensor_value_info("k", 1, [3]))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    outcome = bnfold.optimize(proto, verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.to_proto().graph.sparse_initializer


@pytest.mark.parametrize("options", [{"ir_version": 5}, {"opset": 13, "ir_version": 4}])
def test_an_ir_version_without_them(options: dict[str, Any]) -> None:
    outcome = bnfold.convert(network(), **options)
    assert outcome.verified
    assert outcome.report.ir_after == options["ir_version"]
    assert not outcome.to_proto().graph.sparse_initializer


def test_one_whose_indices_lie_outside_stays_sparse() -> None:
    proto = network()
    proto.graph.sparse_initializer[0].indices.CopyFrom(numpy_helper.from_array(np.full(36, 500), "at"))
    model = ir.load(proto)
    assert store_dense(model) == []
    assert model.proto.graph.sparse_initializer
