"""The race of models that several scripts run: its arithmetic and its order; never how long anything took."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from _bench import racing, table
from _bench.racing import Race
from onnx import TensorProto, helper

from tests.conftest import MODELS


def test_the_ratio_is_of_neighbours_and_not_of_sums() -> None:
    """One slow pair, in which both were slow, says nothing."""
    race = Race({"before": [1.0, 1.0, 100.0, 2.0], "after": [2.0, 3.0, 100.0, 6.0]})
    assert race.median("after") == 2.5
    assert race.quartiles("after") == (2.0, 3.0)


def test_a_model_loses_if_it_is_slower_in_nearly_every_round() -> None:
    slower, noise = [1.05] * 20, [1.5, 0.9] * 10
    race = Race({"first": [1.0] * 20, "slower": slower, "noise": noise})
    assert race.lower_bound("slower") == pytest.approx(1.05)
    assert [race.loses(name) for name in race.times] == [False, True, False]


@pytest.mark.parametrize("optimized", [False, True])
def test_every_pair_counts_but_the_first_ones(*, optimized: bool) -> None:
    model = onnx.load(MODELS / "bn15.onnx")
    race = racing.compare(model, model, 4, optimized=optimized)
    assert {name: len(times) for name, times in race.times.items()} == {"before": 4, "after": 4}
    assert min(*race.times["before"], *race.times["after"]) > 0


def counted(calls: list[str], name: str) -> Callable[[], None]:
    return lambda: calls.append(name)


def test_models_run_in_turns_whose_order_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "_SHORT", 0.0)  # once a round
    calls: list[str] = []
    race = racing.race({name: counted(calls, name) for name in "abc"}, rounds=20)
    rounds = [calls[start : start + 3] for start in range(9, len(calls), 3)]
    assert len(rounds) == len(race.times["a"]) == 20
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len({tuple(names) for names in rounds}) > 2


def test_a_time_is_that_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is over at once runs several times in a round."""
    clock = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock) / 6000)
    calls: list[str] = []
    race = racing.race({"a": counted(calls, "a")}, rounds=2)
    assert len(calls) == 3 + 2 * 36  # 2 ms are 36 times the third of 1/6000 s
    assert race.times["a"] == pytest.approx([1 / 6000 / 36] * 2)


def test_a_race_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    assert len(racing.race({"a": lambda: None}, rounds=100, seconds=5).times["a"]) < 10


def test_a_loser_loses_twice_in_models_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a runtime puts the weights can make a model slower for good."""
    once, twice = (
        Race({"x": [1.0] * 9, "a": [2.0] * 9, "b": [2.0] * 9}),
        Race({"x": [1.0] * 9, "a": [2.0] * 9, "b": [1.0] * 9}),
    )
    loaded, races = [], iter([once, twice])
    monkeypatch.setattr(racing, "race", lambda *_: next(races))

    def load() -> dict[str, racing.Run]:
        loaded.append("")
        return dict.fromkeys("xab", lambda: None)

    assert racing.losers(load, 1, 1) == (once, ["a"])
    assert len(loaded) == 2


def test_feeds_leave_initializers_alone_and_close_open_dims() -> None:
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Mul", ["x", "w"], ["y"])],
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["n", 3]),
                helper.make_tensor_value_info("w", TensorProto.FLOAT16, [3]),
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["n", 3])],
            [helper.make_tensor("w", TensorProto.FLOAT16, [3], [1, 2, 3])],
        )
    )
    feeds = racing.random_feeds(model)
    assert {name: (array.shape, array.dtype) for name, array in feeds.items()} == {"x": ((1, 3), np.dtype(np.float16))}


def test_a_model_that_the_runtime_rejects() -> None:
    with pytest.raises(racing.CannotRunError):
        racing.session(onnx.load(MODELS / "bn6.onnx"), optimized=False)
    with pytest.raises(racing.CannotRunError):
        racing.session(MODELS / "bn6.onnx")


def test_a_distribution_has_three_numbers() -> None:
    numbers = [float(number) for number in range(1, 101)]
    assert table.distribution(numbers, ".1f") == "median 50.5, nine tenths 91.0, worst 100.0"
    assert table.distribution([2.0], ".0f") == "median 2, nine tenths 2, worst 2"


def test_the_head_of_a_table_is_markdown() -> None:
    assert table.head(["model", "ratio"]) == "| model | ratio |\n|---|---|"
