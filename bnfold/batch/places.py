"""Where the models of a batch lie and go: on disk, or behind a URL (`urls`); both look the same from here."""

from __future__ import annotations

from pathlib import Path

from bnfold.batch import disk, urls
from bnfold.batch.addresses import is_url
from bnfold.batch.disk import OnDisk
from bnfold.batch.urls import Remote
from bnfold.errors import BadInput

Place = OnDisk | Remote


def place(text: str) -> Place:
    """The file or folder of this name. Raises BadInput for a URL that cannot be used."""
    if is_url(text):
        return urls.place(text)
    return OnDisk(Path(text))


def below(source: str) -> tuple[Place, list[str]]:
    """The folder that results are placed relative to, and the model files below it; ``source`` may be one file.

    Raises:
        BadInput: There are none, or a URL cannot be used.
    """
    if is_url(source):
        root, found = urls.below(source)
    else:
        root, found = disk.below(source)
    if not found:
        raise BadInput(f"{source}: no .onnx files there")
    return root, found
