"""Small models, and the commands of bnfold to run on them."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from _environment import CORPUS, ROOT
from fuzz import converts, rewriting, runtime
from fuzz.builder import Array

from tests.verification import faults

NORMALIZATIONS = frozenset({"BatchNormalization", "InstanceNormalization"})
COMMANDS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "optimize": ("optimize", {}),
    "optimize, everything": (
        "optimize",
        {"all_affines": True, "merge_branches": True, "equalize": True, "overridable": "freeze", "group_norm": True},
    ),
    "convert --opset latest": ("convert", {"opset": "latest"}),
    "convert --opset lowest": ("convert", {"opset": "lowest"}),
    "convert --opset 12": ("convert", {"opset": 12}),
    "decompose": ("decompose", {"target_opset": None, "decompose_ops": NORMALIZATIONS}),
}
MOST_BYTES = 200_000
MODES: dict[str, Callable[[int], Any]] = {
    "optimize": lambda seed: rewriting.draw("optimize", seed),
    "affines": lambda seed: rewriting.draw("affines", seed),
    "upgrade": lambda seed: rewriting.draw("upgrade", seed),
    "decompose": lambda seed: rewriting.draw("decompose", seed),
    "convert": converts.draw,
}
SIZES = (3, 4, 8, 16, 32)
"""Of dynamic axes; the first that the model runs at is taken."""


class Task(NamedTuple):
    """A model, inputs on which it is judged, and a command (a key of `COMMANDS`)."""

    name: str
    file: Path
    feeds: Mapping[str, Array]
    command: str

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.name}, {self.command}"


def tasks(folder: Path, seeds: int) -> list[Task]:
    """Return all of them; models that have no file yet are written to ``folder``."""
    folder.mkdir(exist_ok=True)
    models = [*_stored(), *_seeded(folder), *_drawn(folder, seeds)]
    return [Task(name, file, feeds, command) for name, file, feeds in models for command in COMMANDS]


def of_files(files: Iterable[Path]) -> list[Task]:
    """Return the tasks of these models."""
    models = [(file, draw_feeds(file)) for file in files]
    return [Task(file.name, file, feeds, command) for file, feeds in models for command in COMMANDS]


def _stored() -> Iterator[tuple[str, Path, Mapping[str, Array]]]:
    """Yield the project's own models, and different ones of the corpus."""
    files = [*sorted((ROOT / "models").glob("*.onnx"))]
    if (CORPUS / "INDEX.tsv").is_file():
        with (CORPUS / "INDEX.tsv").open(encoding="utf-8") as index:
            listed = [CORPUS / row["path"] for row in csv.DictReader(index, delimiter="\t")]
        files += [path for path in listed if path.is_file() and path.stat().st_size < MOST_BYTES]
    digests = set()
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).digest()
        if digest not in digests and path.suffix == ".onnx":
            digests.add(digest)
            yield path.name, path, draw_feeds(path)


def _seeded(folder: Path) -> Iterator[tuple[str, Path, Mapping[str, Array]]]:
    for number, rewrite in enumerate(faults.rewrites()):
        file = folder / f"seeded-{number}.onnx"
        onnx.save(rewrite.before, file)
        yield f"seeded fault {rewrite.name!r}", file, draw_feeds(file)


def _drawn(folder: Path, seeds: int) -> Iterator[tuple[str, Path, Mapping[str, Array]]]:
    for mode, draw in MODES.items():
        for seed in range(seeds):
            case = draw(seed)
            file = folder / f"{mode}-{seed}.onnx"
            file.write_bytes(case.model)
            yield f"fuzz {mode} {seed}", file, case.feeds


def draw_feeds(path: Path) -> Mapping[str, Array]:
    """Draw inputs that onnxruntime runs the model on; none if it runs it on none of them."""
    session = runtime.opened(path)
    for size in SIZES if session is not None else ():
        drawn = runtime.draw_feeds(session, size)
        if drawn is not None and runtime.runs(session, drawn):
            return drawn
    return {}
