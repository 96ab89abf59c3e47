"""A case: a model with its files, and everything else that decides the run, as data.

A case is kept as a folder: any tool can open a finding, and a committed finding is a test.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.builder import Array

MODEL = "model.onnx"


@dataclass(frozen=True)
class Case:
    """One input of a mode.

    Attributes:
        model: The encoded model, or bytes in its place.
        files: Further files of its folder, by name.
        links: Symbolic links of its folder: names and targets.
        feeds: Arrays to run the model on, if it was drawn with them.
        settings: Everything else that the judgement depends on, in JSON's types.
    """

    model: bytes
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    feeds: Mapping[str, Array] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def lay_out(self, folder: Path) -> Path:
        """Write the model, its files and its links into ``folder``; return the model's path."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MODEL).write_bytes(self.model)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        for name, target in self.links.items():
            os.symlink(target, folder / name)  # noqa: PTH211 - a text that need not be a path that can be
        return folder / MODEL

    def keep(self, folder: Path) -> None:
        """Write the case into a folder; `read` reads it again."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MODEL).write_bytes(self.model)
        for name, content in self.files.items():
            (folder / f"file-{name}").write_bytes(content)
        if self.feeds:
            arrays: dict[str, Any] = {name: _plain(array) for name, array in self.feeds.items()}
            np.savez(folder / "feeds.npz", **arrays)
        if self.links or self.settings:
            facts = {"links": dict(self.links), "settings": dict(self.settings)}
            (folder / "case.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    @property
    def digest(self) -> str:
        """Return a short name that the content decides."""
        digest = hashlib.sha256(self.model)
        for name in sorted(self.files):
            digest.update(name.encode() + self.files[name])
        digest.update(json.dumps([dict(self.links), dict(self.settings)], sort_keys=True).encode())
        return digest.hexdigest()[:10]

    @property
    def size(self) -> int:
        return len(self.model) + sum(map(len, self.files.values()))


def _plain(array: Array) -> Array:
    """Return strings as numpy writes them without pickle."""
    return array.astype(str) if array.dtype.kind == "O" else array


def _words(array: Array) -> Array:
    """Return strings as a runtime takes them."""
    return array.astype(object) if array.dtype.kind == "U" else array


def read(place: Path) -> Case:
    """Read a case from its folder, or from a single file, which is then the model."""
    if place.is_file():
        return Case(place.read_bytes())
    facts = place / "case.json"
    described: dict[str, Any] = json.loads(facts.read_text(encoding="utf-8")) if facts.is_file() else {}
    feeds: dict[str, Array] = {}
    if (place / "feeds.npz").is_file():
        with np.load(place / "feeds.npz") as archive:
            feeds = {name: _words(archive[name]) for name in archive.files}
    return Case(
        (place / MODEL).read_bytes(),
        {path.name.removeprefix("file-"): path.read_bytes() for path in sorted(place.glob("file-*"))},
        described.get("links", {}),
        feeds,
        described.get("settings", {}),
    )


@dataclass(frozen=True)
class Outcome:
    """Result of one case.

    Attributes:
        error: The finding; empty if there is none.
        behaviour: The case's behaviour, in a word or two: the first case of every behaviour is kept in a corpus.
        batchnorms: Number of BatchNormalizations before,
        folded: and of those that were folded.
        refused: Whether the model was refused with an error meant for the user.
        compared: Whether two results were compared.
        tally: Further counts, in the words of the last line.
    """

    error: str = ""
    behaviour: str = ""
    batchnorms: int = 0
    folded: int = 0
    refused: bool = False
    compared: bool = False
    tally: Sequence[str] = ()
