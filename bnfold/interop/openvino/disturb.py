"""Copies of an IR whose constants are moved to neighbouring numbers: what rounding can do to its results."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bnfold import analysis, ir
from bnfold.interop.openvino.document import Document, Layer, weights_path
from bnfold.ir.elements import FLOATS, TP, Array, to_raw
from bnfold.verification.engine import disturb, is_short


def floats(document: Document) -> list[ir.Stored]:
    """Return the float constants; what several layers share is there once."""
    found = [tensor for tensor in map(document.tensor, document.constants()) if tensor is not None]
    return list({tensor.span: tensor for tensor in found if tensor.dtype in FLOATS and tensor.size}.values())


def new_weights(before: Document, after: Document) -> list[ir.Stored]:
    """Return the float constants of ``after`` that ``before`` does not have; short numbers were not rounded."""
    known = set(map(_weight, floats(before)))
    return [tensor for tensor in floats(after) if _weight(tensor) not in known and not is_short(tensor)]


def by_body(document: Document, weights: Sequence[ir.Stored]) -> dict[str, list[ir.Stored]]:
    """Return those of ``weights`` that stand in bodies, by the body's name: a run may never enter one."""
    spans = {(tensor.span.offset, tensor.span.length): tensor for tensor in weights}
    groups: dict[str, list[ir.Stored]] = {}
    for owner in document.root.iter("layer"):
        for body in owner:
            for layer in body.iterfind("layers/layer[@type='Const']"):
                if (held := spans.get(document.span(Layer(layer)))) is not None:
                    groups.setdefault(f"{owner.get('name', '')}.{body.tag}", []).append(held)
    return groups


def single_precision(document: Document) -> list[ir.Stored]:
    """Return the constants that are stored in float32 and were rounded to it."""
    return [tensor for tensor in floats(document) if tensor.dtype == TP.FLOAT and not is_short(tensor)]


def _weight(tensor: ir.Stored) -> tuple[bytes, int]:
    """Return a digest of a constant's bytes, and its element type."""
    digest = hashlib.sha256()
    for block in tensor.blocks():
        digest.update(to_raw(block, tensor.dtype))
    return digest.digest(), tensor.dtype


def disturbed(document: Document, weights: Iterable[ir.Stored], seed: int, folder: Path) -> Path:
    """Return a copy of the model in ``folder``, each of ``weights`` moved by one unit in the last place, up or down."""
    path = folder / document.path.name
    shutil.copyfile(document.path, path)
    beside = weights_path(document.path)
    if beside.exists():
        shutil.copyfile(beside, weights_path(path))
        with weights_path(path).open("r+b") as out:
            for number, tensor in enumerate(weights):
                out.seek(tensor.span.offset)
                out.write(to_raw(disturb(tensor.numpy(), tensor.dtype, seed + number), tensor.dtype))
    return path


def disturbed_feeds(samples: Sequence[dict[str, Array]], seed: int) -> list[dict[str, Array]]:
    """Return the same inputs, floats moved to a neighbouring number."""
    rng = np.random.default_rng(seed)
    return [{name: _moved(array, rng) for name, array in sample.items()} for sample in samples]


def _moved(array: Array, rng: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    towards = np.where(rng.integers(0, 2, array.shape) == 1, np.inf, -np.inf).astype(array.dtype)
    return np.where(np.isfinite(array), np.nextafter(array, towards), array).astype(array.dtype)


def longest_sum(model: ir.Model) -> int:
    """Return how many products a convolution or a matrix product of the model adds up for one element, at most."""
    longest = 0
    for node in model.nodes():
        for slot, value in enumerate(node.inputs[:2] if node.is_op("Conv", "ConvTranspose", "MatMul") else ()):
            held = analysis.constant(value)
            if held is None or len(held.dims) < 2 or 0 in held.dims:
                continue
            if node.is_op("MatMul"):
                length = held.dims[-2 if slot else -1]
            else:
                length = held.size // held.dims[0 if node.is_op("Conv") else 1]
            longest = max(longest, length)
    return longest
