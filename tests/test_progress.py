"""The callback that the public functions report their progress to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import bnfold
from tests.pipeline.test_outcome import large

CALLS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "optimize": (bnfold.optimize, {"fold", "write"}),
    "fold": (bnfold.fold, {"fold", "write"}),
    "convert": (partial(bnfold.convert, opset=13), {"write"}),
    "upgrade": (partial(bnfold.upgrade, target_opset=18), {"write"}),
    "decompose": (bnfold.decompose, {"write"}),
    "inspect": (lambda source, _, **more: bnfold.inspect(source, **more), {"fold"}),
    "verify": (lambda source, _, **more: bnfold.verify(source, bnfold.fold(source).to_proto(), **more), set()),
    "run": (lambda source, out, **more: bnfold.run(source, out, ["cp", "{input}", "{output}"], **more), set()),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return large(tmp_path_factory.mktemp("models") / "m.onnx")


@pytest.mark.parametrize("name", CALLS)
def test_progress_is_told(name: str, model: Path, tmp_path: Path) -> None:
    call, phases = CALLS[name]
    told: list[tuple[str, int, int]] = []
    call(model, tmp_path / "out.onnx", progress=lambda *row: told.append(row))
    assert phases <= {phase for phase, _, _ in told}
    assert all(phase and done >= 0 and (done <= total or not total) for phase, done, total in told), told


@pytest.mark.parametrize("name", ["optimize", "fold", "convert", "decompose"])
def test_an_exception_of_the_callback_ends_the_call_and_nothing_is_written(
    name: str, model: Path, tmp_path: Path
) -> None:
    class Cancelled(Exception):
        pass

    call, phases = CALLS[name]
    told: list[str] = []
    call(model, tmp_path / "whole.onnx", progress=lambda phase, *_: told.append(phase))
    for stop in dict.fromkeys(told):

        def progress(phase: str, _done: int, _total: int, stop: str = stop) -> None:
            if phase == stop:
                raise Cancelled

        with pytest.raises(Cancelled):
            call(model, tmp_path / "new" / "out.onnx", progress=progress)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["whole.onnx"]
    assert phases <= set(told)
