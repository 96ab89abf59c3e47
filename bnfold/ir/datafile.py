"""The external data file of a saved model: its layout, its name, and what becomes of the one it replaces."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from bnfold.ir.lower import lower
from bnfold.ir.stream import Progress, write_payload
from bnfold.ir.model import TOKEN_LENGTH, Payloads
from bnfold.ir.tensor import Scaled, Stored, Tensor

PAGE = 4096
"""Tensors of a page or more start on a page, so that a runtime can map them."""


def layout(skeleton: bytes, payloads: Payloads, *, everything: bool) -> dict[bytes, tuple[int, int]]:
    """token -> (offset, length) for each payload that goes to the data file.

    Tensors inside attributes (Constant nodes) stay in the model unless their bytes came from outside, because few
    runtimes look for them elsewhere; ``everything`` moves them too, where nothing else fits protobuf's limit.
    """
    places: dict[bytes, tuple[int, int]] = {}
    end = 0

    def allot(token: bytes, in_attribute: bool) -> bytes:
        nonlocal end
        tensor = payloads.held(token)
        if everything or not in_attribute or _was_outside(tensor):
            start = -(-end // PAGE) * PAGE
            places[token] = (start, tensor.nbytes)
            end = start + tensor.nbytes
        return b""

    lower(skeleton, payloads.nonce, TOKEN_LENGTH, allot)
    return places


def write(path: Path, places: dict[bytes, tuple[int, int]], payloads: Payloads, progress: Progress | None) -> None:
    """Write the payloads at their offsets into a new file."""
    with open(path, "xb") as out:
        for token, (start, _) in places.items():
            out.seek(start)
            write_payload(payloads.held(token), out, as_stored=False, progress=progress)


def _was_outside(tensor: Tensor) -> bool:
    base = tensor.base if isinstance(tensor, Scaled) else tensor
    return isinstance(base, Stored) and base.is_external


def free_name(target: Path, written: Path) -> Path:
    """``OUT.data`` if nothing has that name, else with a short hash of the content."""
    plain = target.with_name(f"{target.name}.data")
    if not os.path.lexists(plain):
        return plain
    with open(written, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    for length in range(8, len(digest) + 1):
        candidate = target.with_name(f"{target.name}.{digest[:length]}.data")
        if not os.path.lexists(candidate):
            return candidate
    return target.with_name(f"{target.name}.{digest}.{os.getpid()}.data")


def obsolete(target: Path, new: Path | None) -> list[Path]:
    """The data files in bnfold's own naming that the model at ``target``, about to be replaced, refers to."""
    if not target.is_file():
        return []
    from bnfold.errors import BnfoldError
    from bnfold.ir.load import load

    try:
        used = load(target).external_files()
    except BnfoldError:
        return []  # what stands there is no model of ours
    ours = re.compile(re.escape(target.name) + r"(\.[0-9a-f]{8,})?\.data")
    return [path for path in used if path != new and ours.fullmatch(path.name) and path.parent == target.resolve().parent]
