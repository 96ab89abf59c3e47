"""Two names for one file: what a run writes must be nothing that it reads, and nothing else that it writes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from bnfold import ir
from bnfold.errors import OutputError, SameFile, WrongUsage
from bnfold.ir.storage.external import resolved
from bnfold.pipeline import formats
from bnfold.settings import OutputOptions

Named = tuple[str, Path]
"""What a file is to the run, and where it is."""


def refuse(written: Iterable[Named], kept: Iterable[Named]) -> None:
    """Make sure that every file of ``written`` is another one than those before it, and than all of ``kept``.

    Raises:
        SameFile: Two of them are one, by name or through links.
    """
    owners = {key: role for role, path in kept for key in _identities(path)}
    for role, path in written:
        keys = _identities(path)
        for key in keys & owners.keys():
            raise SameFile(f"{path}: {role} would overwrite {owners[key]}; choose another name")
        owners |= dict.fromkeys(keys, role)


def refuse_for_one(
    source: object, model: ir.Model, delivery: OutputOptions | None, data: Path | None, reports: Sequence[Path] = ()
) -> None:
    """Refuse, as `refuse`, for one model, as it was loaded from ``source``; ``data`` is what it is verified on.

    Raises:
        SameFile: Two names lead to one file.
    """
    kept: list[Named] = [("the recorded inputs", data)] if data is not None else []
    written: list[Named] = []
    in_place = False
    if delivery is not None:
        in_place = isinstance(source, Path) and delivery.in_place and same(source, delivery.path)
        written += _results(delivery, kept)
    if isinstance(source, Path) and not in_place:
        kept.append(("the input", source))
    kind = formats.of(source)
    if not (in_place and kind.is_two_files):  # both are replaced
        kept += [("the input's data", path) for path in kind.data_files(model)]
    refuse([*written, *(("the report", report) for report in reports)], kept)


def _results(delivery: OutputOptions, kept: list[Named]) -> list[Named]:
    """Return what is written for ``delivery``.

    An ONNX model's data file takes a free name, so it is only to be ``kept``.
    """
    places = [("the output", delivery.path)]
    if delivery.keep_failed is not None:
        places.append(("a failed result", delivery.keep_failed))
    written: list[Named] = []
    for role, path in places:
        kind = formats.of(path)
        beside = kind.data_file(resolved(path) or path, delivery.external_data)
        written.append((role, path))
        if beside is not None:
            (written if kind.is_two_files else kept).append((f"the data file of {role}", beside))
    return written


def same(first: Path, second: Path) -> bool:
    """Whether two names lead to one file."""
    return not _identities(first).isdisjoint(_identities(second))


def _identities(path: Path) -> set[object]:
    """Return the place behind all links, and a file's number, which all its names share."""
    found: set[object] = {os.path.normcase(resolved(path) or path)}  # links in a circle fail when they are opened
    with suppress(OSError, ValueError):
        status = path.stat()
        found.add((status.st_dev, status.st_ino))
    return found


def overwrites(source: object, delivery: OutputOptions) -> bool:
    """Whether the result takes the place of the model that it was made from."""
    return isinstance(source, Path) and same(source, delivery.path)


def check_target(source: object, delivery: OutputOptions) -> None:
    """Make sure that the result of a rewrite can go where it is to go.

    Raises:
        WrongUsage: It is of another format than the input.
        OutputError: It cannot be written there.
        SameFile: It would overwrite the input unasked.
    """
    target, paths = delivery.path, [path for path in (delivery.path, delivery.keep_failed) if path is not None]
    for path in paths:
        if formats.of(path) is not formats.of(source):
            raise WrongUsage(f"{path}: bnfold does not convert between ONNX and OpenVINO IR ({formats.SUFFIX})")
    if not delivery.in_place and overwrites(source, delivery):
        raise SameFile(f"{target}: OUT is the input file. Choose another name, or add --in-place.")
    for path in paths:
        check_place(path)


def check_place(path: Path) -> None:
    """Raise OutputError if ``path`` is a folder, or no file can be made there; its folder need not be there yet."""
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; name a file")
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise OutputError(f"{path}: {folder} is a file, not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: cannot be written: no permission to write in {folder}")
