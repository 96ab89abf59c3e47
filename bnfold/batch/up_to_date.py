"""What is remembered of an output: what it was made from, how, and how it was found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bnfold.batch.locations import Place
from bnfold.errors import BnfoldError
from bnfold.pipeline import formats

SeenInputs = list[Any] | None
"""A file's size and a mark that changes with its content; None if there is no such mark."""


def seen(source: Place) -> SeenInputs:
    """Return what the input is like, to be asked before it is read: if it changes meanwhile, it is done again.

    Of an OpenVINO IR nothing is remembered: its .xml may stay the same while the constants beside it change.
    """
    if formats.of(source.name).is_two_files:
        return None
    try:
        return source.signature()
    except (BnfoldError, OSError):
        return None


def write(source: SeenInputs, output: Place, memory: Place, fingerprint: str, found: Mapping[str, Any]) -> None:
    """Return remember what ``output`` was made from, how, and what was found. Raises OutputError."""
    made = seen(output)
    if source is not None and made is not None:
        held = {"settings": fingerprint, "source": source, "output": made, "found": found}
        memory.write(json.dumps(held))


NEEDED = frozenset({"status", "message", "counts", "wrong_rewrites", "grown", "bytes"})
"""What has to be known of a result that is up to date."""


def read_memory(source: SeenInputs, output: Place, memory: Place, fingerprint: str) -> Mapping[str, Any] | None:
    """Return what was found when the output was made, if that was from this very input in this way; else None."""
    made = seen(output)
    if source is None or made is None:
        return None
    try:
        held = json.loads(memory.read())
        found = held.pop("found")
        same = held == {"settings": fingerprint, "source": source, "output": made}
        return found if same and found.keys() >= NEEDED else None
    except (BnfoldError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def memory(root: Place, path: str) -> Place:
    """Return where results in the folder ``root`` are remembered: in one hidden folder there."""
    return root.child(f".bnfold/{path}.json")
