"""The garbage collector is left alone only as long as asked, and as it was before."""

from __future__ import annotations

import gc

import pytest

from bnfold.ir.pause import no_garbage_collection


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
