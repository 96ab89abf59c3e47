"""Recorded inputs: a numpy archive, or a folder as onnx's own tests have it (input_0.pb, output_0.pb)."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.ir.elements import Array


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded run; ``outputs`` may be empty or incomplete."""

    feeds: dict[str, Array]
    outputs: dict[str, Array] = field(default_factory=dict)


def load_data(path: Path, model: ir.Model) -> list[Recorded]:
    """Return the runs recorded at ``path``: an .npz archive (one run, arrays by input name) or a folder.

    A folder holds input_*.pb files itself, or test_data_set_* folders that do. Raises BadInput where nothing usable is
    there, an input of the model is missing, or a shape or type does not fit.
    """
    if path.is_dir():
        folders = sorted(path.glob("test_data_set_*")) or [path]
        runs = [_folder(folder, model) for folder in folders]
    elif path.exists():
        runs = [Recorded(_archive(path))]
    else:
        raise BadInput(f"{path}: no such file or folder of recorded inputs")
    return [_conform(path, run, model) for run in runs]


def _archive(path: Path) -> dict[str, Array]:
    if not zipfile.is_zipfile(path):
        raise BadInput(f"{path}: not an .npz archive, whose arrays have the names of inputs")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path}: not an .npz archive of plain arrays ({error})") from error


def _folder(folder: Path, model: ir.Model) -> Recorded:
    inputs = [value.name for value in model.required_inputs()]
    return Recorded(
        _numbered(folder, "input", inputs), _numbered(folder, "output", [value.name for value in model.graph.outputs])
    )


def _numbered(folder: Path, kind: str, names: list[str]) -> dict[str, Array]:
    """Return arrays of kind_0.pb, kind_1.pb …, by the name a tensor carries, or else the model's name at that place."""
    found = {
        int(match[1]): file for file in folder.iterdir() if (match := re.fullmatch(rf"{kind}_(\d+)\.pb", file.name))
    }
    arrays: dict[str, Array] = {}
    for index, file in sorted(found.items()):
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(file.read_bytes())
            array = onnx.numpy_helper.to_array(tensor)
        except (DecodeError, ValueError, TypeError, KeyError) as error:
            raise BadInput(f"{file}: not a recorded tensor") from error
        name = tensor.name if tensor.name in names or index >= len(names) else names[index]
        arrays[name] = array
    return arrays


def _conform(path: Path, run: Recorded, model: ir.Model) -> Recorded:
    """Return the run with every array in the type that the model declares: numpy makes float64 and int64."""
    feeds = dict(run.feeds)
    for value in model.required_inputs():
        if value.name not in feeds:
            missing = [other.name for other in model.required_inputs() if other.name not in run.feeds]
            wanted, there = (", ".join(map(repr, names)) for names in (missing, sorted(run.feeds)))
            raise BadInput(f"{path}: has no array for input {wanted}; its arrays are {there}")
        feeds[value.name] = _fitting(path, value, feeds[value.name])
    return Recorded(feeds, run.outputs)


def _fitting(path: Path, value: ir.Value, array: Array) -> Array:
    rank = None if value.shape is None else len(value.shape)
    if rank is not None and rank != array.ndim:
        raise BadInput(f"{path}: input {value.name!r} has rank {rank}, the recorded array has shape {array.shape}")
    if not value.dtype or value.dtype == onnx.TensorProto.STRING:
        return array
    wanted = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
    if array.dtype != wanted and not np.can_cast(array.dtype, wanted, "same_kind"):
        raise BadInput(f"{path}: input {value.name!r} is of type {wanted}, the recorded array of type {array.dtype}")
    return array.astype(wanted)
