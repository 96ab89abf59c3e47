"""The external data file of a saved model: what goes into it, where, under which name, and what it replaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from bnfold.errors import BnfoldError, OutputError
from bnfold.ir.storage import locked_file
from bnfold.ir.storage.locked_file import LockedFile
from bnfold.ir.storage.payloads import TOKEN_LENGTH, Payloads
from bnfold.ir.storage.skeleton import insert_payloads
from bnfold.ir.storage.source import FileSource
from bnfold.ir.storage.stored import Stored
from bnfold.ir.storage.stream import PAGE, BytesProgress, is_written, write_payloads
from bnfold.ir.tensor import Tensor, sources_of

LINE = 64
"""Smaller tensors than a page start on a cache line."""

IsOutside = Callable[[Tensor, bool], bool]
"""(tensor, is it in an attribute) -> does it go to the data file."""


def chooser(external_data: str, size_threshold: int, *, everything: bool) -> IsOutside:
    """Say which tensors go to the data file.

    Tensors inside attributes (Constant nodes) stay in the model unless their bytes came from outside, because few
    runtimes look for them elsewhere; ``everything`` moves them too, where nothing else fits protobuf's limit.
    """

    def choose(tensor: Tensor, in_attribute: bool) -> bool:
        if not tensor.nbytes:
            return False
        large = tensor.nbytes >= size_threshold
        origin = _origin(tensor)
        if external_data not in ("auto", "keep"):
            return large and (not in_attribute or (origin is not None and origin.is_external))
        if origin is not None and origin.is_external:
            return True
        if external_data == "keep" and origin is not None:
            return False
        return large and (everything or not in_attribute)

    return choose


def _origin(tensor: Tensor) -> Stored | None:
    """Return the stored tensor that this one is, or is computed from, the first where there are several."""
    base = sources_of(tensor)[0]
    return base if isinstance(base, Stored) else None


def layout(skeleton: bytes, payloads: Payloads, choose: IsOutside) -> dict[bytes, tuple[int, int]]:
    """Return token -> (offset, length) for each payload that goes to the data file; the same bytes get one place."""
    places: dict[bytes, tuple[int, int]] = {}
    shared: dict[object, tuple[int, int]] = {}
    end = 0

    def allot(token: bytes, in_attribute: bool) -> bytes:
        nonlocal end
        tensor = payloads.held(token)
        if choose(tensor, in_attribute):
            identity = tensor.span if isinstance(tensor, Stored) else id(tensor)
            if identity not in shared:
                step = PAGE if tensor.nbytes >= PAGE else LINE
                shared[identity] = (-(-end // step) * step, tensor.nbytes)
                end = sum(shared[identity])
            places[token] = shared[identity]
        return b""

    insert_payloads(skeleton, payloads.nonce, TOKEN_LENGTH, allot)
    return places


def write(path: Path, places: dict[bytes, tuple[int, int]], payloads: Payloads, progress: BytesProgress | None) -> None:
    """Write the payloads at their offsets into an empty file."""
    by_offset = {start: payloads.held(token) for token, (start, _) in places.items()}
    write_payloads(path, [(held, start) for start, held in by_offset.items()], as_stored=False, progress=progress)


def reuse(
    path: Path, places: dict[bytes, tuple[int, int]], payloads: Payloads, progress: BytesProgress | None
) -> LockedFile | None:
    """Return the data file at ``path``, held, if writing it anew would change nothing; what differs is found early."""
    held = locked_file.open_shared(path) if path.is_file() else None
    if held is None:
        return None
    try:
        source = FileSource(path)
        by_offset = {start: payloads.held(token) for token, (start, _) in places.items()}
        is_same = source.size == max(map(sum, places.values()))
        if not is_same or not all(is_written(tensor, source, start) for start, tensor in by_offset.items()):
            held.release()
            return None
    except BaseException:
        held.release()
        raise
    if progress is not None:
        progress(sum(tensor.nbytes for tensor in by_offset.values()))
    return held


def default_name(target: Path) -> str:
    """Return what the data file of a model is called, if nothing else has that name."""
    return f"{target.name}.data"


def check_name(name: str, target: Path) -> None:
    """Raise OutputError for a name that is not one of a file beside the model."""
    if name in ("", ".", "..", target.name) or "/" in name or "\\" in name or "\0" in name:
        raise OutputError(f"{name!r} cannot name the data file: that is a file beside {target.name}, other than it")


def place_data_file(written: LockedFile, wanted: Path) -> tuple[LockedFile, bool]:
    """Give a finished data file its name: ``wanted`` if nothing has it, else one with a short hash of the content.

    Returns what is held under that name and whether it is a new file: one that has the name and the very same content
    is used again. A name is taken before the file gets it, so that two runs at once never share one by chance.
    """
    for candidate in _names(written.path, wanted):
        if written.link(candidate):
            return written, True
        place = locked_file.create(candidate)
        if place is not None:
            with place:
                written.rename(candidate)
            return written, True
        other = locked_file.open_shared(candidate)
        if other is not None and _same_content(written.path, candidate):
            written.remove()
            return other, False
    raise OutputError(f"{wanted}: no name is free for the data file")


def _names(written: Path, wanted: Path) -> Iterator[Path]:
    yield wanted
    import hashlib  # as OpenSSL comes with it, and names are rarely taken

    with written.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    for length in range(8, len(digest) + 1):
        yield wanted.with_name(f"{wanted.stem}.{digest[:length]}{wanted.suffix}")


def _same_content(written: Path, other: Path) -> bool:
    import filecmp

    return other.is_file() and not other.is_symlink() and filecmp.cmp(written, other, shallow=False)


def obsolete(target: Path, name: str) -> list[Path]:
    """Return the data files, by a name of ours, that the model at ``target``, about to be replaced, refers to."""
    families = [Path(known) for known in {name, default_name(target)}]
    ours = re.compile("|".join(rf"{re.escape(one.stem)}(\.[0-9a-f]{{8,}})?{re.escape(one.suffix)}" for one in families))
    if not target.is_file() or not any(ours.fullmatch(path.name) for path in target.parent.iterdir()):
        return []
    return [path for path in _used(target) if ours.fullmatch(path.name) and path.parent == target.resolve().parent]


def used_by_others(target: Path) -> set[Path]:
    """Return the data files that other models in the folder refer to.

    A model is often copied without its data, so several models may share a data file.
    """
    found: set[Path] = set()
    for other in target.parent.glob("*.onnx"):
        with suppress(OSError):
            now = other.stat()
            state = now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
            found.update(_used_by(other, state) if other != target else ())
    return found


@lru_cache
def _used_by(model: Path, _state: tuple[int, ...]) -> tuple[Path, ...]:
    """Return what a model refers to; cached, because rewriting a folder asks once for each pair of models."""
    return tuple(_used(model))


def remove_unused(path: Path, target: Path) -> None:
    """Remove a data file, unless another run holds it or the model that now stands at ``target`` refers to it."""
    with suppress(OSError):
        locked_file.remove_unheld(path, unless=lambda: any(used.samefile(path) for used in _used(target)))


def _used(target: Path) -> list[Path]:
    """Return the data files of the model at ``target``; none of what is no model."""
    if not target.is_file():
        return []
    from bnfold.ir.storage.load import load

    try:
        return load(target).external_files()
    except BnfoldError:
        return []
