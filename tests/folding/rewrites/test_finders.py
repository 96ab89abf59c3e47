"""A finder plans and changes nothing; what it yields is carried out as it was planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from bnfold import ir
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding.context import Change, FoldContext
from bnfold.folding.limits import Limits
from bnfold.folding.rewrites import branches, dead_bias, instances, products, shrink_concat
from bnfold.report.events import BatchNormEvent, Report
from bnfold.semantics import Policy
from tests.folding.nets import PLENTY, Net, compare, saved


def summed(net: Net) -> str:
    x = net.input(2, 3, 5, 6)
    total = net.node("Add", net.node("Conv", x, net.const(3, 3, 1, 1)), net.node("Conv", x, net.const(3, 3, 1, 1)))
    return net.batchnorm(total, 3)


def in_a_row(net: Net) -> str:
    return net.node("Conv", net.node("Conv", net.input(2, 3, 5, 6), net.const(9, 3, 1, 1)), net.const(4, 9, 1, 1))


def joined(net: Net) -> str:
    made = net.node("Conv", net.input(2, 3, 4, 6), net.const(4, 3, 1, 1))
    return net.batchnorm(net.node("Concat", made, net.input(2, 2, 4, 6), axis=1), 6)


def biased(net: Net) -> str:
    x = net.node("Conv", net.input(2, 3, 4, 6), net.const(4, 3, 1, 1), net.const(4))
    return net.node("InstanceNormalization", x, net.const(4), net.const(4))


def trained(net: Net) -> str:
    flat = net.node("Reshape", net.input(2, 3, 4, 5), net.ints(1, 6, 4, 5))
    ones = (np.tile(net.rng.standard_normal(3), 2) for _ in range(2))
    scale, bias = (net.const(value=one) for one in ones)
    y = net.node("BatchNormalization", flat, scale, bias, net.const(6), net.const(value=np.ones(6)), training_mode=1)
    return net.node("Reshape", y, net.ints(2, 3, 4, 5))


FINDERS: dict[Callable[[Net], str], Callable[[FoldContext], Iterator[Change]]] = {
    summed: branches.find_merges,
    in_a_row: products.find_products,
    joined: lambda run: shrink_concat.find_shrink(run, next(iter(run.events))),
    biased: dead_bias.find_dead_shifts,
    trained: instances.find_instances,
}


@pytest.mark.parametrize("make", FINDERS)
def test_a_finder_changes_nothing_before_its_plan_is_carried_out(make: Callable[[Net], str]) -> None:
    net = Net()
    proto = net.model(make(net))
    model = ir.load(proto)
    norms = [node for node in model.nodes() if node.is_op("BatchNormalization")]
    events = {node: BatchNormEvent(node.label, "", 17, "") for node in norms}
    report = Report(batchnorms=list(events.values()), names_before=set(model.original_names))
    before = saved(model)
    run = FoldContext(model, events, report, Policy(), Limits(), SizeBudget(PLENTY))
    change = next(FINDERS[make](run))
    model.sync()
    assert saved(model) == before
    assert run.rewrite([change])
    model.remove_dead_nodes()
    model.sync()
    assert saved(model) != before
    assert report.cuts == (change.cut,)
    compare(before, saved(model), net.feeds)
