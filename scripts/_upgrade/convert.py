"""Script: `convert.py TOOL` upgrades one model for every line "IN<tab>OUT<tab>OPSET" that it reads.

It answers each with one line of JSON. A converter that kills the process takes only this child with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable


def bnfold(source: str, out: str, target: int) -> None:
    """Upgrade with bnfold."""
    from bnfold import ir
    from bnfold.converting import convert

    model = ir.load(source)
    convert(model, target)
    ir.save(model, out)


def version_converter(source: str, out: str, target: int) -> None:
    """Upgrade with the converter of the onnx package."""
    import onnx
    from onnx import version_converter as converter

    onnx.save(converter.convert_version(onnx.load(source), target), out)


def onnxscript(source: str, out: str, target: int) -> None:
    """Upgrade with the converter of onnxscript, which falls back on the onnx package's."""
    import onnx_ir
    from onnxscript import version_converter as converter

    model = onnx_ir.load(source)
    converter.convert_version(model, target, fallback=True)
    reached = model.opset_imports.get("", 0)
    if reached != target:
        raise RuntimeError(f"left at opset {reached} without an error")
    onnx_ir.save(model, out)


TOOLS: dict[str, Callable[[str, str, int], None]] = {
    "bnfold": bnfold,
    "onnx.version_converter": version_converter,
    "onnxscript": onnxscript,
}


def main() -> None:
    """Serve until the input ends. Output of converters goes to standard error."""
    convert, answers = TOOLS[sys.argv[1]], sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        source, out, target = line.rstrip("\n").split("\t")
        try:
            convert(source, out, int(target))
            error = ""
        except Exception as caught:  # noqa: BLE001 - the reason is the result
            error = str(caught) or type(caught).__name__
        print(json.dumps({"error": error}), file=answers, flush=True)


if __name__ == "__main__":
    main()
