"""A BatchNormalization behind a Concat one of whose parts cannot absorb it: it goes where it is still needed.

The other parts take their slices, and a smaller BatchNormalization, on that part alone, stays: fewer elements to
normalise, fewer parameters, nothing added. With two such parts there would be two of them, so it is left alone then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from bnfold import ir
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import SetConstant
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding import chains, facts
from bnfold.folding.affine import Affine
from bnfold.folding.apply import apply_plan
from bnfold.folding.chains import AffineChain
from bnfold.folding.context import Change, FoldContext, is_live
from bnfold.folding.limits import Limits
from bnfold.folding.ops import concat
from bnfold.folding.ops.registry import ask
from bnfold.folding.plan import Plan, PlanBuilder
from bnfold.folding.propagate import absorb
from bnfold.folding.search import finish
from bnfold.ir.tensor import Exact
from bnfold.report.reasons import Declined, Reason
from bnfold.report.rewrites import SPLIT

PARAMETERS = (1, 2, 3, 4)


def find_shrink(run: FoldContext, node: ir.Node) -> Iterator[Change]:
    """Find a normalisation after a Concat that can be restricted to the part that cannot absorb it.

    The event of ``node`` becomes that of the smaller BatchNormalization, the last one of the run.
    """
    if is_live(node) and is_candidate(node):
        with suppress(Declined):
            yield run.planned(SPLIT, node, _plan, run, node)


def is_candidate(node: ir.Node) -> bool:
    """Whether a BatchNormalization stands behind a Concat of its own."""
    x = node.input(0)
    return x is not None and x.producer is not None and x.producer.is_op("Concat") and x.only_consumer is node


def _plan(run: FoldContext, node: ir.Node) -> Change:
    """Say how to shrink a BatchNormalization that could not be folded. Raises Declined.

    The plan folds the whole chain, as if the part at ``slot`` of the Concat could: a smaller copy goes there.
    """
    chain = chains.chain([chains.batchnorm(node, run.policy)])
    source, joined = chain.source, chain.source.producer
    if joined is None or not chain.affine.varies_only_on(1) or chain.affine.rank < 2:
        raise Declined(Reason.NO_HANDLER, facts.where(node))
    facts.only_output(node)
    if concat.axis_of(joined, chain.affine.rank) != 1:
        raise Declined(Reason.AXIS, facts.where(joined))
    requested = dict(ask(joined, "up", {0: chain.affine}, run.limits).requested)
    slot = _only_one(chain, requested, run.limits, run.budget)
    builder = PlanBuilder(chain, run.limits, run.budget)
    builder.relabelled[source] = chain.affine
    builder.nodes[joined] = None
    absorb(builder, [(affine, (joined, other)) for other, affine in requested.items() if other != slot])
    plan = finish(builder, "up")
    if plan.extra_adds:
        raise Declined(Reason.NO_GAIN, facts.where(node))
    sizes = concat.sizes_of(joined, 1)
    if sizes[slot] == sum(sizes):  # the other parts are empty
        raise Declined(Reason.NO_GAIN, facts.where(joined))
    start = sum(sizes[:slot])
    parameters = _parameters(node, slice(start, start + sizes[slot]))
    cost = run.budget.check([*plan.edits, *parameters])
    into = tuple(absorber.label for absorber in plan.absorbers)

    def tell(added: list[ir.Node]) -> None:
        (small,) = added
        run.events[small] = run.events.pop(node)
        run.follow_exchanges((), into, ())
        less = f"{sizes[slot]} of {sum(sizes)} channels"
        run.report.notes.append(f"{small.label} keeps {less}; the other channels were folded into {', '.join(into)}")

    change = run.fold_of(plan, run.events[node].key)
    apply = partial(_apply, plan, joined, slot, parameters, run.budget)
    return change._replace(rewrite=SPLIT, apply=apply, tell=tell, cost=cost)


def _only_one(chain: AffineChain, requested: dict[int, Affine], limits: Limits, budget: SizeBudget) -> int:
    """Return the part that cannot absorb its slice. Raises Declined unless it is exactly one.

    In a dense block, each part takes as long to ask as the block is large; all are asked together first.
    """
    joined = chain.source.producer
    assert joined is not None, "it was asked"
    requests = [(affine, (joined, slot)) for slot, affine in requested.items()]

    def is_refused(some: Sequence[tuple[Affine, tuple[ir.Node, int]]]) -> bool:
        try:
            absorb(PlanBuilder(chain, limits, budget), some)
        except Declined:
            return True
        return False

    refused: list[int] = []
    for request in requests if is_refused(requests) else ():
        if is_refused([request]):
            refused.append(request[1][1])
        if len(refused) > 1:
            break
    if len(refused) != 1:
        raise Declined(Reason.NO_GAIN, f"{len(refused)} parts of {facts.where(joined)} would need one of their own")
    return refused[0]


def _parameters(node: ir.Node, channels: slice) -> list[SetConstant]:
    """Return the parameters of the channels that are left, to the bit."""
    tensors = [(slot, facts.weight(node, slot)) for slot in PARAMETERS]
    return [
        SetConstant(node, slot, Exact(tensor.dtype, tensor.float64().reshape(-1)[channels])) for slot, tensor in tensors
    ]


def _apply(
    plan: Plan, joined: ir.Node, slot: int, parameters: Sequence[SetConstant], budget: SizeBudget
) -> tuple[list[str], list[ir.Node]]:
    """Edit the graph. Returns the names of values that are gone or changed, and the smaller BatchNormalization."""
    old, graph, part = plan.chain.links[0].node, joined.graph, joined.inputs[slot]
    assert part is not None, "it refused"
    inner = graph.fresh(f"{part.name}_normalised")
    old_parameters = [value for value in old.inputs[1:5] if value is not None]
    # A parameter that a node makes, perhaps behind the Concat, is not there yet.
    stored = [value if value.producer is None else None for value in old_parameters]
    new = graph.insert("BatchNormalization", (part, *stored), (inner,), before=joined, name=old.name)
    new.proto.attribute.extend(old.proto.attribute)
    new.proto.metadata_props.extend(old.proto.metadata_props)
    new.proto.doc_string, new.proto.domain = old.proto.doc_string, old.proto.domain
    gone, _ = apply_plan(plan, budget)
    joined.set_input(slot, inner)
    for edit, value, former in zip(parameters, stored, old_parameters, strict=True):
        if value is None:
            new.set_input(edit.slot, graph.add_constant(former.name, edit.tensor))
        else:
            apply_edits([edit._replace(node=new)], budget)
    return gone, [new]
