"""The garbage collector is left alone only as long as asked, and as it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from bnfold import ir
from bnfold.ir.pause import collecting_what_is_young, no_garbage_collection
from bnfold.verification import verify
from tests.conftest import MODELS


@pytest.fixture(autouse=True)
def _thresholds_of_python() -> Iterator[None]:
    """Whatever a command has set in this process."""
    known = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*known)


@pytest.mark.parametrize("before", [True, False])
def test_it_is_left_as_it_was_even_after_an_error(before: bool) -> None:
    (gc.enable if before else gc.disable)()
    try:
        with pytest.raises(KeyError):
            _fail_without_collector()
        assert gc.isenabled() == before
    finally:
        gc.enable()


def _fail_without_collector() -> None:
    with no_garbage_collection():
        assert not gc.isenabled()
        raise KeyError


def test_what_is_old_is_looked_through_again_afterwards() -> None:
    before = gc.get_threshold()
    with collecting_what_is_young():
        assert gc.isenabled()
        assert gc.get_threshold()[:2] == before[:2]
        assert gc.get_threshold()[2] > before[2]
        with collecting_what_is_young():
            pass
        assert gc.get_threshold()[2] > before[2]
    assert gc.get_threshold() == before


def test_who_loads_many_models_does_not_keep_them_all() -> None:
    gc.collect()
    counts = []
    for loaded in range(200):
        ir.load(MODELS / "bn9.onnx")
        if loaded % 20 == 0:  # to count them takes longer than to load one
            counts.append(sum(isinstance(thing, ir.Model) for thing in gc.get_objects()))
    assert max(counts) < 100 + counts[0]


def test_who_verifies_many_models_does_not_keep_them_all() -> None:
    gc.collect()
    counts = []
    for verified in range(100):
        verify(MODELS / "bn9.onnx", MODELS / "bn9.onnx", depth="local")
        if verified % 10 == 0:
            counts.append(sum(isinstance(thing, ir.Model) for thing in gc.get_objects()))
    assert max(counts) < 100 + counts[0]
