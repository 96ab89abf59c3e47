"""Operators that were registered in a process are known to the processes that work for it."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.errors import BadSetting
from bnfold.operators import AffineRule, AffineStep, ChannelAffine, OperatorNode, Versions, workers
from bnfold.registered import table
from tests import acme


def gain_up(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
    weight = node.constant(1)
    affine = affine.of(weight.size)
    return AffineStep({1: affine.scale * weight, 2: affine.shift})


def copied(node: OperatorNode) -> Any:
    raise AssertionError(node)


@pytest.fixture
def spawned() -> Iterator[None]:
    """Let new processes inherit nothing."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("spawn", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    for name in ("a", "b"):
        onnx.save(acme.model(), tmp_path / "models" / f"{name}.onnx")
    return tmp_path


@pytest.mark.usefixtures("spawned")
def test_workers_that_inherit_nothing_know_them(folder: Path) -> None:
    with acme.registered(affine=AffineRule(gain_up)):
        (row,) = bnfold.optimize_folder(folder / "models" / "a.onnx", folder / "out", jobs=2).models
    assert (row.status, row.counts and row.counts.after) == ("verified", 0)


def nested() -> Callable[..., Any]:
    return lambda x, *_: x


@pytest.mark.usefixtures("spawned")
@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"kernel": nested()}, "the kernel of com.acme::Gain"),
        ({"shape": nested()}, "the shape function of com.acme::Gain"),
        ({"affine": AffineRule(down=nested())}, "the rule (down) of com.acme::Gain"),
        ({"versions": Versions((2,), upgrade=nested())}, "the step between versions (upgrade) of com.acme::Gain"),
    ],
)
def test_functions_that_they_cannot_import_are_refused_before_any_work(
    said: dict[str, Any], what: str, folder: Path
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: bnfold.optimize_folder(folder / "models", folder / "out", jobs=2),
        lambda: bnfold.run_folder(folder / "models", folder / "out", ["cp", "{input}", "{output}"], jobs=2),
        lambda: bnfold.verify_folders(folder / "models", folder / "models", jobs=2),
    ]
    with acme.registered(**{"affine": AffineRule(gain_up), **said}):
        for call in calls:
            with pytest.raises(BadSetting, match=r"jobs: worker processes cannot import .*; define it at the") as error:
                call()
            assert what in str(error.value)
            assert "\n" not in str(error.value)
        assert not (folder / "out").exists()
        assert bnfold.inspect_folder(folder / "models")


@pytest.mark.usefixtures("spawned")
def test_a_function_of_a_session_is_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    kernel = eval("lambda x: x", {"__name__": "__main__"})
    with (
        acme.registered(kernel=kernel, affine=None),
        pytest.raises(BadSetting, match="it was typed in a session, and is in no file"),
    ):
        workers.registrations_for_workers()


def test_processes_that_inherit_all_of_it_may_have_any_function(folder: Path) -> None:
    if multiprocessing.get_start_method() != "fork":
        pytest.skip("they do not here")
    with acme.registered():  # whose rule is a nested function
        results = bnfold.optimize_folder(folder / "models", folder / "out", jobs=2)
    assert [row.status for row in results.models] == ["verified"] * 2


def test_what_a_worker_has_by_an_import_stays() -> None:
    with acme.registered(kernel=acme.gain, versions=[1]):
        given = workers.registrations_for_workers()
        (own,) = table.registrations("com.acme", "Gain")
        workers.register_in_worker(given._replace(libraries=("a.so",)))
        assert table.registrations("com.acme", "Gain") == (own,)
        table.remove("com.acme", "Gain")
        workers.register_in_worker(given)
        assert table.registrations("com.acme", "Gain") == (own,)
    assert table.LIBRARIES.pop("a.so", "gone") is None


def test_a_registration_that_changed_makes_results_anew(folder: Path) -> None:
    statuses = []
    registrations: list[dict[str, Any] | None] = [None, {}, {}, {"kernel": np.minimum, "shape": None, "affine": None}]
    for said in registrations:
        if said is None:
            rows = bnfold.optimize_folder(folder / "models", folder / "out").models
        else:
            with acme.registered(**said):
                rows = bnfold.optimize_folder(folder / "models", folder / "out").models
        statuses.append({row.status for row in rows})
    assert statuses[1:3] == [{"verified"}, {"skipped"}]
    assert "skipped" not in statuses[3]
