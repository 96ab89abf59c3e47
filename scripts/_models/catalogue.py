"""Every small model, and the page that describes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import onnx

from _models import networks, scopes, versions

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    make.__name__: make for make in (*versions.MODELS, *networks.MODELS, *scopes.MODELS)
}
EXTERNAL = {"external"}

_README = """\
# Models

Written by `scripts/make_models.py`, this page included: every model is built from scratch by the function of its name
in `scripts/_models/`, in the form that exporters of its opset's day gave it (up to opset 8: IR version 3, initializers
listed among the inputs). Weights are He-initialised and statistics are plausible for what reaches each
BatchNormalization; they come from the model's name alone, so the bytes never change. Dims that could be confused
differ. Nothing was trained or taken from elsewhere.

| model | opset | BatchNormalizations | made by | what it exercises |
|---|---|---|---|---|
"""


def write(folder: Path) -> list[Path]:
    """Write every small model and README.md into `folder`; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written, page = [], _README
    for name, make in MODELS.items():
        model = make()
        page += _row(name, make, model)
        written.append(_save(model, folder / f"{name}.onnx"))
    readme = folder / "README.md"
    readme.write_text(page, encoding="utf-8")
    return [*written, readme]


def _save(model: onnx.ModelProto, path: Path) -> Path:
    if path.stem in EXTERNAL:
        data = path.with_name(f"{path.name}.data")
        data.unlink(missing_ok=True)  # onnx appends
        onnx.save(model, path, save_as_external_data=True, location=data.name, size_threshold=256)
    else:
        path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def _row(name: str, make: Callable[[], onnx.ModelProto], model: onnx.ModelProto) -> str:
    purpose = " ".join((inspect.getdoc(make) or "").split())
    source = f"`scripts/_models/{make.__module__.rpartition('.')[2]}.py`"
    return f"| `{name}.onnx` | {model.opset_import[0].version} | {count(model)} | {source} | {purpose} |\n"


def count(model: onnx.ModelProto) -> int:
    """Count BatchNormalizations at any depth."""
    return sum(_count(nodes) for nodes in (model.graph.node, *(function.node for function in model.functions)))


def _count(nodes: list[onnx.NodeProto]) -> int:
    own = sum(node.op_type == "BatchNormalization" for node in nodes)
    return own + sum(_count(a.g.node) for node in nodes for a in node.attribute if a.HasField("g"))
