"""Reports to draw, of small models: some folded, some left, one that fails verification."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bnfold.api import inspect, optimize, verify
from bnfold.settings import VerifyOptions
from tests.conftest import MODELS


def report(name: str, *, verified: bool = False) -> dict[str, Any]:
    """The report of a model of models/, through JSON and back, as a file would hold it."""
    outcome = optimize(MODELS / name, verify=VerifyOptions()) if verified else inspect(MODELS / name)
    document: dict[str, Any] = json.loads(json.dumps(outcome.to_json(), allow_nan=False))
    return document


def failing_report() -> dict[str, Any]:
    """A report that says what verification says of two models with different weights."""
    verdict = verify(MODELS / "bn9.onnx", MODELS / "bn14.onnx")
    assert verdict.status == "failed"
    outcome = replace(inspect(MODELS / "bn9.onnx"), verdict=verdict)
    document: dict[str, Any] = json.loads(json.dumps(outcome.to_json(), allow_nan=False))
    return document


def broken(path: Path) -> dict[str, Any]:
    """What a folder's inspection says of a model that cannot be processed."""
    return {"input": {"path": str(path)}, "status": "failed", "message": "no ONNX model", "counts": None}
