"""External data with wrong places, lengths and contents: changes to a model and the files beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from fuzz.parts import Files, Links, pick, tensors

SECRET = b"bnfold must not read this: 7d3f9a"
SECRET_FILE = "secret.bin"
"""A file in the folder above the model's."""


def move_out(model: onnx.ModelProto, files: Files, links: Links, rng: np.random.Generator) -> None:
    """Move some tensors into one data file or several, and then apply one of the tricks."""
    found = [tensor for tensor in tensors(model) if tensor.HasField("raw_data") and tensor.raw_data]
    if not found:
        return
    names = ["data.bin", "more.bin", "ünï code.bin"][: int(rng.integers(1, 4))]
    moved = []
    for tensor in found:
        if rng.random() < 0.7:
            name = pick(rng, names)
            offset = len(files.get(name, b""))
            _refer(tensor, name, offset, len(tensor.raw_data))
            files[name] = files.get(name, b"") + tensor.raw_data
            tensor.ClearField("raw_data")
            moved.append(tensor)
    for _ in range(int(rng.integers(0, 3))):
        tensor = pick(rng, moved)
        if tensor is not None:
            pick(rng, TRICKS)(tensor, files, links, rng)


def _refer(tensor: onnx.TensorProto, location: str, offset: int | str, length: int | str) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _entry(tensor: onnx.TensorProto, key: str) -> Any:
    found = next((entry for entry in tensor.external_data if entry.key == key), None)
    return found if found is not None else tensor.external_data.add(key=key)


def _elsewhere(tensor: onnx.TensorProto, files: Files, _: Links, rng: np.random.Generator) -> None:
    """Name a place outside the folder, a device, or no place."""
    places = (
        f"../{SECRET_FILE}",
        f"./../{SECRET_FILE}",
        f"a/../../{SECRET_FILE}",
        "/etc/passwd",
        "/dev/zero",
        "/dev/stdin",
    )
    more = (
        "..",
        ".",
        "",
        "/",
        "missing.bin",
        "model.onnx",
        "a\0b",
        "x" * 5000,
        "file:///etc/passwd",
        "data.bin/",
        "~/x",
    )
    _entry(tensor, "location").value = str(pick(rng, places + more))
    if rng.random() < 0.5:
        _refer(tensor, _entry(tensor, "location").value, 0, len(SECRET))
        tensor.data_type, tensor.dims[:] = TensorProto.UINT8, [len(SECRET)]
    del files


def _through_link(tensor: onnx.TensorProto, _: Files, links: Links, rng: np.random.Generator) -> None:
    """Name a link that leads outside, nowhere, to itself, to a device."""
    targets = (f"../{SECRET_FILE}", "/dev/zero", "/dev/stdin", "link.bin", "nowhere", "/etc/passwd", "..", "data.bin")
    links["link.bin"] = str(pick(rng, targets))
    _entry(tensor, "location").value = "link.bin"
    if rng.random() < 0.7:
        _refer(tensor, "link.bin", 0, len(SECRET))
        tensor.data_type, tensor.dims[:] = TensorProto.UINT8, [len(SECRET)]


def _numbers(tensor: onnx.TensorProto, _: Files, __: Links, rng: np.random.Generator) -> None:
    """Write offsets past the end, overlapping spans, counts that are no numbers."""
    told = ("0", "1", "-1", "999999999", str(2**62), str(2**64), "", " 4", "0x10", "1e3", "٣", "9" * 5000, "None")
    _entry(tensor, str(pick(rng, ("offset", "length")))).value = str(pick(rng, told))


def _entries(tensor: onnx.TensorProto, _: Files, __: Links, rng: np.random.Generator) -> None:
    """Write entries twice, unknown ones or none; add a payload inside; claim larger dims."""
    kind = int(rng.integers(4))
    if kind == 0:
        tensor.external_data.add(key="location", value=f"../{SECRET_FILE}")
    elif kind == 1:
        del tensor.external_data[int(rng.integers(len(tensor.external_data)))]
    elif kind == 2:
        tensor.raw_data = b"\0" * 64
    else:
        tensor.dims[:] = [2**31, 2**31]


def _damaged_file(tensor: onnx.TensorProto, files: Files, _: Links, rng: np.random.Generator) -> None:
    """Truncate a data file."""
    name = _entry(tensor, "location").value
    if name in files:
        files[name] = files[name][: int(rng.integers(len(files[name]) + 1))]


Trick = Callable[[onnx.TensorProto, Files, Links, np.random.Generator], None]
TRICKS: tuple[Trick, ...] = (_elsewhere, _elsewhere, _through_link, _through_link, _numbers, _entries, _damaged_file)
