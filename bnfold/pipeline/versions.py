"""The versions of what a result may depend on."""

from __future__ import annotations

from bnfold.pipeline import simplifiers

ONNXRUNTIMES = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-qnn",
    "onnxruntime-training", "onnxruntime-rocm", "onnxruntime-migraphx", "onnxruntime-silicon", "ort-nightly",
)  # fmt: skip
"""The packages that install a module ``onnxruntime``; whichever is there serves."""


def versions() -> dict[str, str]:
    """Return the versions that results depend on; an onnxruntime variant counts under its own name."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in dict.fromkeys(("bnfold", "onnx", "numpy", *ONNXRUNTIMES, *simplifiers.TOOLS, "openvino")):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
