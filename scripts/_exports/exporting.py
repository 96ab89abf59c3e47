"""Write a network as ONNX files, one for every exporter and opset, each with its inputs beside it."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from _exports.network import Built, Network
from _exports.sequences import SEQUENCES
from _exports.vision import VISION

NETWORKS = (*VISION, *SEQUENCES)


class ExportFormat(NamedTuple):
    """An exporter and the opset that it writes."""

    exporter: str
    opset: int


FORMS = (ExportFormat("dynamo", 23), ExportFormat("dynamo", 18), ExportFormat("torchscript", 17))


def path_of(folder: Path, network: Network, form: ExportFormat) -> Path:
    """Return where a network is written."""
    return folder / f"{network.name}.{form.exporter}{form.opset}.onnx"


def exported(folder: Path, network: Network) -> Iterator[tuple[ExportFormat, str]]:
    """Write what is not there yet; yield each form, and what its exporter said if it failed."""
    folder.mkdir(parents=True, exist_ok=True)
    for form in FORMS:
        path = path_of(folder, network, form)
        failed = path.with_suffix(".failed")
        if not path.exists() and not failed.exists():
            _export(network, form, path, failed)
        yield form, failed.read_text(encoding="utf-8") if failed.exists() else ""


def _export(network: Network, form: ExportFormat, path: Path, failed: Path) -> None:
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # TorchScript has no ONNX form of it
    said = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        warnings.simplefilter("ignore")
        try:
            built = network.build()
            built.module.eval()
            with torch.no_grad():
                _randomize(built.module)
                _write(built, form, path)
        except Exception as error:  # noqa: BLE001 - other people's programs
            path.unlink(missing_ok=True)
            failed.write_text((str(error).strip() or repr(error)).splitlines()[0][:200], encoding="utf-8")
            return
    np.savez(path.with_suffix(".npz"), **{name: value.numpy() for name, value in built.inputs.items()})


def _randomize(module: torch.nn.Module) -> None:
    """Add noise to every weight: what is initialised to zeros or ones would hide mistakes."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.add_(torch.rand_like(buffer))


def _write(built: Built, form: ExportFormat, path: Path) -> None:
    arguments, names = tuple(built.inputs.values()), list(built.inputs)
    axes = {name: dict(built.dynamic[name]) for name in names if name in built.dynamic}
    if form.exporter == "torchscript":
        torch.onnx.export(
            built.module, arguments, path, input_names=names, opset_version=form.opset, dynamo=False, dynamic_axes=axes
        )
        return
    shapes = tuple(axes.get(name, {}) for name in names) if axes else None
    program = torch.onnx.export(
        built.module, arguments, input_names=names, opset_version=form.opset, dynamo=True, dynamic_shapes=shapes
    )
    assert program is not None
    program.save(path, external_data=False)
