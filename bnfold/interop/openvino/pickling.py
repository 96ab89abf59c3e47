"""Pickle a model of an IR, as part of an outcome: with its document in line with the graph, as it would be written."""

from __future__ import annotations

import copyreg
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import onnx

from bnfold import ir
from bnfold.interop.openvino.document import Document
from bnfold.interop.openvino.load import IrModel
from bnfold.interop.openvino.stage import written_back
from bnfold.ir.storage.payloads import Payloads
from bnfold.ir.storage.source import Source

__all__: list[str] = []


def _reduced(model: IrModel) -> tuple[Any, ...]:
    """Return what `pickle` stores of a model. Raises Unsupported as `stage`."""
    constants = [*written_back(model).items()]
    document = model.document.root, model.document.source, model.document.path
    model.sync()
    skeleton = model.proto.SerializeToString()
    return _unpickled, (skeleton, model.payloads.used_in(skeleton), document, constants, [*model.spans.items()])


def _unpickled(
    skeleton: bytes,
    payloads: Payloads,
    document: tuple[ET.Element, Source, Path],
    constants: list[tuple[ET.Element, ir.Tensor]],
    spans: list[tuple[ET.Element, tuple[int, int]]],
) -> IrModel:
    model = IrModel(onnx.ModelProto.FromString(skeleton), payloads)
    model.document, model.scopes = Document(*document), []
    model.written_back, model.spans = dict(constants), dict(spans)
    return model


copyreg.pickle(IrModel, _reduced)
