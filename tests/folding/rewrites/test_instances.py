"""InstanceNormalization that is written as a BatchNormalization in training mode between two Reshapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import bnfold
from bnfold.settings import Options, VerifyOptions
from tests.folding.nets import Net, compare, fold_only, folded

Dims = Sequence[int | str | None]


def written(
    net: Net,
    target: Sequence[int],
    back: Sequence[int],
    *,
    declared: Dims | None = None,
    scale: Any = None,
    statistics: bool = False,
    **attributes: Any,
) -> list[str]:
    """Two images of three channels, each normalised on its own."""
    x = net.node("Reshape", net.input(2, 3, 4, 5, declared=declared), net.ints(*target))
    drawn = np.tile(np.array([1.5, -2.0, 0.5]), 2) if scale is None else scale
    parameters = [net.const(value=values) for values in (drawn, np.tile([1.0, 2.0, 3.0], 2), np.zeros(6), np.ones(6))]
    y, *others = net.nodes_of(
        "BatchNormalization", x, *parameters, outputs=5 if net.opset < 14 else 3, training_mode=1, **attributes
    )
    return [net.node("Reshape", y, net.ints(*back)), *(others if statistics else ())]


PROVEN: dict[str, tuple[Sequence[int], Sequence[int], Dims | None, list[str]]] = {
    "all sizes known": ([1, 6, 4, 5], [2, 3, 4, 5], None, ["InstanceNormalization"]),
    "the channels follow": ([1, -1, 4, 5], [2, 3, 4, 5], None, ["InstanceNormalization"]),
    "in a row": ([1, 6, -1], [2, 3, 4, 5], None, ["InstanceNormalization"]),
    "one size back follows": ([1, 6, -1], [2, 3, 4, -1], None, ["InstanceNormalization"]),
    "an open batch, the places known": ([1, -1, 4, 5], [-1, 3, 4, 5], ["N", 3, 4, 5], ["InstanceNormalization"]),
    "another form behind": ([1, 6, -1], [2, 12, 5], None, ["InstanceNormalization", "Reshape"]),
    "open places": ([1, 6, -1], [2, 3, 4, 5], [2, 3, "H", "W"], ["InstanceNormalization", "Reshape"]),
}


@pytest.mark.parametrize("case", PROVEN)
@pytest.mark.parametrize("stated", [{}, {"epsilon": 0.25}])
def test_proven(case: str, stated: dict[str, Any]) -> None:
    target, back, declared, operators = PROVEN[case]
    net = Net()
    result = folded(net, *written(net, target, back, declared=declared, **stated))
    assert result.ops == operators
    (event,) = result.report.batchnorms
    assert (event.verdict, event.operators) == ("folded", ("InstanceNormalization",))
    assert result.node("InstanceNormalization").attr("epsilon", 1e-5) == pytest.approx(stated.get("epsilon", 1e-5))


UNPROVEN: dict[str, tuple[dict[str, Any], str]] = {
    "open batch and places": ({"declared": ["N", 3, "H", "W"]}, "the batch size in front of Reshape"),
    "open channels": ({"declared": [2, None, 4, 5]}, "reads unknown channels"),
    "scales of each image": ({"scale": np.arange(6.0)}, "differ from image to image"),
    "statistics": ({"statistics": True}, "are read"),
    "another batch": ({"declared": [3, 3, "H", "W"]}, "makes 6 channels of 3 times 3"),
}


@pytest.mark.parametrize("case", UNPROVEN)
def test_unproven(case: str) -> None:
    changes, reason = UNPROVEN[case]
    net = Net()
    proto = net.model(*written(net, [1, 6, -1], [2, 3, 4, 5], **changes))
    result = fold_only(proto)
    assert result.ops == ["Reshape", "BatchNormalization", "Reshape"]
    assert result.reasons == ["instance-unproven"]
    assert reason in result.report.batchnorms[0].detail


def test_groups_of_channels_are_none() -> None:
    """As GroupNormalization is written: fewer rows than there are channels."""
    net = Net()
    x = net.node("Reshape", net.input(2, 6, 4, 5), net.ints(1, 6, -1))
    parameters = [net.const(value=np.full(6, value)) for value in (1.0, 0.0, 0.0, 1.0)]
    y = net.nodes_of("BatchNormalization", x, *parameters, outputs=3, training_mode=1)[0]
    result = folded(net, net.node("Reshape", y, net.ints(2, 6, 4, 5)))
    assert (result.ops, result.reasons) == (["Reshape", "BatchNormalization", "Reshape"], ["instance-unproven"])


@pytest.mark.parametrize("back", [[0, 3, 8, 5], [2, 3, 0, -1]])
def test_a_reshape_that_copies_sizes_stays(back: list[int]) -> None:
    net = Net()
    x = net.input(2, 3, 4, 5)
    r = net.node("Reshape", x, net.ints(1, 6, 4, 5))
    parameters = [net.const(value=np.full(6, value)) for value in (1.0, 0.0, 0.0, 1.0)]
    y = net.nodes_of("BatchNormalization", r, *parameters, outputs=3, training_mode=1)[0]
    back = [1, 0, 4, 5] if back[0] == 0 else back
    assert "BatchNormalization" in folded(net, net.node("Reshape", y, net.ints(*back))).ops


@pytest.mark.parametrize("chosen", [{"excluded": frozenset({"InstanceNormalization"})}, {"only": frozenset({"Conv"})}])
def test_excluded(chosen: dict[str, Any]) -> None:
    net = Net()
    assert "BatchNormalization" in folded(net, *written(net, [1, 6, 4, 5], [2, 3, 4, 5]), **chosen).ops


def test_other_readers_of_the_reshape_keep_it() -> None:
    net = Net()
    outputs = written(net, [1, 6, 4, 5], [2, 3, 4, 5])
    result = folded(net, *outputs, net.node("Relu", net.nodes[0].output[0]))
    assert sorted(result.ops) == ["InstanceNormalization", "Relu", "Reshape"]


@pytest.mark.parametrize("opset", [9, 13, 15, 22])
@pytest.mark.parametrize("proven", [True, False])
def test_evaluation_mode_is_not_advised(opset: int, proven: bool) -> None:
    net = Net(opset, np.float32)
    outputs = written(net, [1, 6, -1], [2, 3, 4, 5], declared=None if proven else ["N", 3, "H", "W"])
    if opset < 14:
        for node in net.nodes:
            del node.attribute[:]
    proto = net.model(*outputs)
    outcome = bnfold.optimize(proto, options=Options(), verify=VerifyOptions(depth="auto"))
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"
    assert not any("model.eval()" in note for note in outcome.report.notes)
    compare(proto, outcome.to_proto(), net.feeds, 1e-5)
    operators = [node.op_type for node in outcome.to_proto().graph.node]
    assert ("InstanceNormalization" in operators) is proven
