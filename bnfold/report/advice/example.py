"""The form that all entries have, and what their examples are put together from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """``example`` is a whole model, on which ``command`` shows the reason; ``remedy`` is what its owner can do."""

    meaning: str
    remedy: str
    example: str
    command: str = "bnfold inspect model.onnx"


PARAMETERS = "float[2] s = {2, 3}, float[2] b = {1, 1}, float[2] m = {0, 0}, float[2] v = {1, 1}"
WEIGHT = "float[2,2,1,1] w = {1, 2, 3, 4}"
KEEP = "bnfold inspect model.onnx --target-opset keep"


def model(
    interface: str, *lines: str, constants: str = f"{WEIGHT}, {PARAMETERS}", opset: int = 15, more: str = ""
) -> str:
    """Return a model in ONNX's textual form, its constants on lines of their own."""
    listed = constants.replace("}, ", "},\n   ")
    body = "\n".join(f"  {line}" for line in lines)
    imports = f'"": {opset}' + (', "local": 1' if "local." in body else "")
    text = f"<ir_version: 8, opset_import: [{imports}]>\nexample {interface}\n  <{listed}>\n{{\n{body}\n}}"
    return f"{text}\n{more}" if more else text


def norm(x: str, y: str, attributes: str = "") -> str:
    """Return a BatchNormalization with the usual parameters."""
    return f"{y} = BatchNormalization{attributes} ({x}, s, b, m, v)"


ONE = "(float[1,2,4,4] x) => (float[1,2,4,4] y)"
