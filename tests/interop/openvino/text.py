"""IR files written out by hand, for what OpenVINO would not write or where it is not installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

NAMES = {"float32": ("f32", "FP32"), "float16": ("f16", "FP16"), "int64": ("i64", "I64"), "bool": ("boolean", "BOOL")}
Port = tuple[int, int]


class Text:
    """An IR while it is being written; every method that adds a layer gives the port that it makes."""

    def __init__(self, version: int = 11) -> None:
        self.version = version
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.data = b""
        self.dims: dict[Port, tuple[Sequence[int], str]] = {}

    def layer(
        self,
        kind: str,
        inputs: Sequence[Port] = (),
        dims: Sequence[int] | None = None,
        *,
        name: str = "",
        opset: str = "opset1",
        precision: str = "FP32",
        names: str = "",
        **data: Any,
    ) -> Port:
        number = len(self.layers)
        text = " ".join(f'{key}="{value}"' for key, value in data.items())
        ports = "".join(_port(index, *self.dims[source]) for index, source in enumerate(inputs))
        output = "" if dims is None else f"<output>{_port(len(inputs), dims, precision, names)}</output>"
        self.layers.append(
            f'\t\t<layer id="{number}" name="{name or f"{kind}_{number}"}" type="{kind}" version="{opset}">\n'
            f"\t\t\t<data {text}/><input>{ports}</input>{output}\n\t\t</layer>\n"
        )
        for index, (layer, port) in enumerate(inputs):
            self.edges.append(
                f'\t\t<edge from-layer="{layer}" from-port="{port}" to-layer="{number}" to-port="{index}"/>\n'
            )
        made = (number, len(inputs))
        self.dims[made] = (dims or (), precision)
        return made

    def parameter(self, dims: Sequence[int], *, name: str = "x") -> Port:
        return self.layer(
            "Parameter", (), dims, name=name, names=name, shape=",".join(map(str, dims)), element_type="f32"
        )

    def constant(self, array: npt.NDArray[np.generic], *, name: str = "") -> Port:
        element, precision = NAMES[array.dtype.name]
        offset = len(self.data)
        self.data += array.tobytes()
        shape = ",".join(map(str, array.shape))
        return self.layer(
            "Const", (), array.shape, name=name, precision=precision,
            element_type=element, shape=shape, offset=offset, size=array.nbytes,
        )  # fmt: skip

    def norm(self, x: Port, *, name: str = "bn", opset: str = "opset5", seed: int = 0, **data: Any) -> Port:
        """A BatchNormInference over channels; ``data`` is its epsilon, as it stands in the file."""
        dims, _ = self.dims[x]
        gamma, beta, mean, variance = (self.constant(array) for array in statistics(dims[1], seed))
        inputs = [gamma, beta, x, mean, variance] if opset == "opset1" else [x, gamma, beta, mean, variance]
        return self.layer("BatchNormInference", inputs, dims, name=name, opset=opset, **data)

    def result(self, x: Port) -> None:
        self.layer("Result", (x,))

    def __str__(self) -> str:
        layers, edges = "".join(self.layers), "".join(self.edges)
        return (
            f'<?xml version="1.0"?>\n<net name="net" version="{self.version}">\n\t<layers>\n{layers}\t</layers>\n'
            f"\t<edges>\n{edges}\t</edges>\n</net>\n"
        )

    def save(self, path: Path) -> Path:
        path.write_text(str(self), encoding="utf-8")
        path.with_suffix(".bin").write_bytes(self.data)
        return path


def statistics(channels: int, seed: int) -> list[npt.NDArray[np.float32]]:
    """Gamma (of both signs), beta, mean and variance."""
    rng = np.random.default_rng([seed, channels])
    gamma, beta, mean = (rng.standard_normal(channels).astype(np.float32) for _ in range(3))
    return [gamma, beta, mean, rng.uniform(0.2, 2.0, channels).astype(np.float32)]


def _port(index: int, dims: Sequence[int], precision: str, names: str = "") -> str:
    inner = "".join(f"<dim>{dim}</dim>" for dim in dims)
    label = f' names="{names}"' if names else ""
    return f'<port id="{index}" precision="{precision}"{label}>{inner}</port>'


def convolution_and_norm(**data: Any) -> Text:
    """A model: x → Convolution → BatchNormInference → Result."""
    text = Text()
    x = text.parameter((2, 3, 7, 5))
    kernel = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    made = text.layer(
        "Convolution", (x, text.constant(kernel, name="kernel")), (2, 4, 5, 3), name="conv",
        strides="1,1", dilations="1,1", pads_begin="0,0", pads_end="0,0", auto_pad="explicit",
    )  # fmt: skip
    text.result(text.norm(made, **(data or {"epsilon": "0.001"})))
    return text
