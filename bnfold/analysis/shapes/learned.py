"""Types of what operators of ai.onnx.ml make: onnx infers few of them, and none behind a value without a type."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from bnfold.ir.elements import TP
from bnfold.ir.graph import Graph
from bnfold.ir.node import Node
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.ir.value import shape_of

DimSequence = Sequence[int | str | None]

_KEEPING = ("Binarizer", "Imputer", "LabelEncoder", "CategoryMapper", "Normalizer", "Scaler")
"""The result has the shape of the input."""

_ROWS = ("LinearRegressor", "SVMRegressor", "TreeEnsemble", "TreeEnsembleRegressor")
_CLASSES = ("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier")
_FLOATS = ("FeatureVectorizer", "Normalizer", "OneHotEncoder", "Scaler", *_ROWS)


def state_learned(graph: Graph, message: onnx.GraphProto) -> None:
    """Declare the results of the graph's operators of the domain that have no type yet."""
    infos = (*message.input, *message.value_info, *message.output)
    known = {info.name: info.type for info in infos if info.type.WhichOneof("value")}
    for node in graph.nodes:
        read = node.input(0)
        if node.domain != MACHINE_LEARNING:
            continue
        for value, kind in zip(
            node.outputs, types_made(node, None if read is None else known.get(read.name)), strict=False
        ):
            if value is not None and kind is not None and value.name not in known:
                known[value.name] = kind
                message.value_info.add(name=value.name, type=kind)


def types_made(node: Node, read: onnx.TypeProto | None) -> list[onnx.TypeProto | None]:
    """Return the types of an operator's results, so far as they follow from its attributes and the type it reads."""
    if node.has_references:
        return []
    kinds = _element_types(node, read.tensor_type.elem_type if read is not None else 0)
    shapes = _shapes(node, shape_of(read) if read is not None else None)
    return [
        onnx.helper.make_tensor_type_proto(kind, shape) if kind else None
        for kind, shape in zip(kinds, shapes, strict=False)
    ]


def _element_types(node: Node, read: int) -> list[int]:
    if node.op_type in _FLOATS and node.op_type != "TreeEnsemble":
        return [TP.FLOAT]
    if node.op_type in _CLASSES:
        return [TP.STRING if node.attr("classlabels_strings") else TP.INT64, TP.FLOAT]
    if node.op_type in ("ArrayFeatureExtractor", "Binarizer", "Imputer"):
        return [read]
    found = [kind for name, kind in _STATED.items() if node.find(name) is not None]
    tensor = next((node.attr(name) for name in ("leaf_weights", "values_tensor") if node.find(name) is not None), None)
    if tensor is not None or found:
        return [found[0] if tensor is None else tensor.data_type]
    turns = read and node.op_type in ("LabelEncoder", "CategoryMapper")
    return [TP.INT64 if read == TP.STRING else TP.STRING] if turns else []


_STATED = {"values_floats": TP.FLOAT, "values_int64s": TP.INT64, "values_strings": TP.STRING}


def _shapes(node: Node, read: DimSequence | None) -> list[DimSequence | None]:
    """Return shapes, with dynamic sizes where they do not follow; None if the rank does not."""
    rows = read[0] if read is not None and len(read) == 2 else None
    if node.op_type in _KEEPING:
        return [read]
    if node.op_type in _ROWS:
        return [[rows, int(node.attr("targets" if node.op_type == "LinearRegressor" else "n_targets", 1))]]
    if node.op_type in _CLASSES:
        return [[rows], [rows, None]]
    if node.op_type == "OneHotEncoder":
        count = len(node.attr("cats_strings") or node.attr("cats_int64s") or ())
        return [None if read is None else [*read, count]]
    return [[rows, None] if node.op_type == "FeatureVectorizer" else None]
