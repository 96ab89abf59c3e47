"""Initializers that are inputs too, as older exporters listed them: all, before IR 4 by rule; or some, by choice."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from _patterns.parts import Pattern, conv, image, norm


def _listing(names: Callable[[list[str]], list[str]], *, version: int = 8, output: bool = False) -> Callable[..., None]:
    """List the chosen initializers as inputs too; with ``output`` the first is an output as well."""

    def change(model: onnx.ModelProto) -> None:
        chosen = names([tensor.name for tensor in model.graph.initializer])
        for tensor in model.graph.initializer:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            if tensor.name in chosen:
                model.graph.input.append(info)
            if output and tensor is model.graph.initializer[0]:
                model.graph.output.append(info)
        model.ir_version = version

    return change


def _pattern(name: str, change: Callable[[onnx.ModelProto], None], opset: int = 17) -> Pattern:
    return Pattern(name, lambda b: norm(b, conv(b, image(b))), opset=opset, change=change)


EXACT = [
    _pattern("Conv → BN, every initializer an input too, IR 3", _listing(list, version=3), opset=9),
    _pattern("Conv → BN, every initializer an input too, IR 8", _listing(list)),
    _pattern("the same, one of them an output too", _listing(list, output=True)),
]
TRAPS = [
    _pattern("Conv → BN, the weight alone an input too", _listing(lambda names: names[:1])),
    _pattern("Conv → BN, the scale alone an input too", _listing(lambda names: names[2:3])),
    _pattern("Conv → BN, all initializers but one inputs too", _listing(lambda names: names[:-1])),
]
