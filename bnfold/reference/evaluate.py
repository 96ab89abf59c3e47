"""The evaluator's loop: run a model's nodes on arrays, one after the other, holding only what is still to be read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bnfold import ir
from bnfold.errors import BadInput, BnfoldError, MalformedModel, Unsupported
from bnfold.ir.elements import Array
from bnfold.ir.messages import FunctionKey, function_key
from bnfold.reference import control
from bnfold.reference.alterations import Alterations, Substitute
from bnfold.reference.attributes import Bindings, function_bindings, resolve, stored_array
from bnfold.reference.constants import constant
from bnfold.reference.dispatch import Bound, apply_kernel, bind, refused
from bnfold.reference.precision import Datum, Precision, admitted, as_array, as_declared, jittered
from bnfold.reference.prepared import Prepared
from bnfold.reference.registry import Noise
from bnfold.reference.schedule import Schedule, schedule
from bnfold.reference.streamed import streamed
from bnfold.reference.work import Work
from bnfold.settings import Policy

Observer = Callable[[str, Datum], None]
Environment = dict[ir.Value, Datum]


class OutOfTime(BnfoldError):
    """The evaluation took longer than its time limit.

    ``needed`` is an estimate of the seconds that it needs, from the nodes that had run; infinite if there is none.
    """

    def __init__(self, message: str, needed: float = math.inf) -> None:
        super().__init__(message)
        self.needed = needed


def evaluate(  # noqa: PLR0913 - one run, and each of its options by name
    model: ir.Model,
    feeds: Mapping[str, Array],
    outputs: Sequence[str] | None = None,
    *,
    precision: Precision = "float64",
    keep: Collection[str] = (),
    observer: Observer | None = None,
    limit_seconds: float | None = None,
    policy: Policy | None = None,
    jitter: int | None = None,
    later: bool = False,
    noise: Noise | None = None,
    altered: Alterations | None = None,
    prepared: Prepared | None = None,
    work: Work | None = None,
) -> dict[str, Array]:
    """Return values of the main graph, computed from ``feeds``.

    Args:
        model: Any opset; nothing of it is changed.
        feeds: Arrays by value name. Any value of the main graph may be fed: what makes it is then not run, so that a
            region can be evaluated by itself, and an initializer is overridden.
        outputs: Names of values of the main graph, at any place; its outputs when None. Only what they need is run.
        precision: ``float64`` widens every float tensor (`precision` says what that means for casts); ``stored``
            rounds feeds to the declared types and computes in each tensor's own, 16-bit floats in float32 with a
            rounding after every node.
        keep: Further values to return.
        observer: Called with each value that a node of the main graph makes, as soon as it is made.
        limit_seconds: Give up after so long; looked at between nodes.
        policy: What to make of nodes whose text leaves a choice.
        jitter: A seed, to move each float that a node makes to a neighbour in the type it is computed in. How far the
            results move by that is about what they err by in this precision (Monte Carlo arithmetic).
        later: Read a node that does not fit its own version as the next one that it fits.
        noise: What random operators draw; without it they are refused.
        work: Counts what is computed; the evaluation gives up where it reaches its limit.
        altered: What to make of some stored or computed values of any graph before they are read.
        prepared: Kept by a caller that runs an unchanged model more than once, with the same values fed.

    Returns:
        The values by name: float64 where the model has a float type (own types under ``stored``), else as they are.

    Raises:
        Unsupported: A needed operator has no proven implementation in its version (`Random`: is random, `Misfit`: has
            inputs that do not fit together).
        OutOfTime: ``limit_seconds`` are over.
        BadInput: An unknown name, or a needed input that is not fed.
        MalformedModel: Values that nothing makes, or that depend on themselves.
    """
    graph = model.graph
    names = [*(outputs if outputs is not None else (value.name for value in graph.outputs)), *keep]
    wanted = {name: _named(graph, name) for name in names}
    evaluation = Evaluation(
        main=graph,
        functions={function_key(function.proto): function for function in model.functions},
        precision=precision,
        policy=policy or Policy(),
        observer=observer,
        limit=limit_seconds,
        jitter=None if jitter is None else np.random.default_rng(jitter),
        later=later,
        noise=noise,
        altered=altered or {},
        prepared=prepared or Prepared(),
        work=work or Work(),
    )
    environment: Environment = {}
    for name, fed in feeds.items():
        value, array = _named(graph, name), as_array(fed)
        environment[value] = admitted(as_declared(array, value.dtype) if precision == "stored" else array, precision)
    try:
        with np.errstate(all="ignore"):
            results = evaluation.run(graph, environment, list(wanted.values()), {})
    except RecursionError:
        raise Unsupported("functions or graphs are nested too deeply to be evaluated") from None
    return dict(zip(wanted, results, strict=True))


def _named(graph: ir.Graph, name: str) -> ir.Value:
    value = graph.values.get(name)
    if value is None:
        raise BadInput(f"the model has no value named {name!r}")
    return value


def _undefined(value: ir.Value) -> BnfoldError:
    node = value.producer
    if value.is_input:
        return BadInput(f"the input {value.name!r} is not fed")
    if node is None:
        return MalformedModel(f"nothing makes the value {value.name!r}")
    reason = f"its output {value.name!r} is read, but not defined in its mode"
    return refused(node, node.graph.opset(node.domain), reason)


@dataclass(slots=True, eq=False)
class Evaluation:
    """One run: what stays the same for all graphs of the model. Control flow operators run their bodies through it."""

    main: ir.Graph
    functions: Mapping[FunctionKey, ir.Graph]
    precision: Precision
    policy: Policy
    observer: Observer | None
    limit: float | None
    jitter: np.random.Generator | None
    later: bool
    noise: Noise | None
    altered: Alterations
    prepared: Prepared
    work: Work
    _started: float = field(init=False)
    _share: float = 0.0
    _inside: float = 0.0
    _turns: float = 0.0
    _running: list[ir.Graph] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started = time.monotonic()

    def run(
        self, graph: ir.Graph, environment: Environment, wanted: Sequence[ir.Value], bindings: Bindings
    ) -> list[Datum]:
        """Run what ``wanted`` needs. ``environment`` holds the inputs and outer values, and nothing else for long."""
        plan = self._schedule(graph, wanted, environment)
        for place, (node, last_reads) in enumerate(zip(plan.nodes, plan.last_reads, strict=True)):
            if graph is self.main:
                self._share, self._inside = place / len(plan.nodes), 1 / len(plan.nodes)
                self._turns = 0.0
            self._check_limits(node)
            self._run_node(node, environment, bindings)
            for value in last_reads:
                environment.pop(value, None)
        return [self.read(value, environment) for value in wanted]

    def _check_limits(self, node: ir.Node) -> None:
        seconds = time.monotonic() - self._started
        share = self._share + self._turns * self._inside
        needed = seconds / share if share else math.inf
        if self.limit is not None and seconds > self.limit:
            reason = f"the reference evaluation did not end within {self.limit:.2g} s (at node {node.label!r})"
            raise OutOfTime(reason, needed)
        if self.work.seconds > self.work.limit:
            raise OutOfTime(f"the reference evaluation is more work than was expected (at node {node.label!r})", needed)

    def _schedule(self, graph: ir.Graph, wanted: Sequence[ir.Value], environment: Environment) -> Schedule:
        """Schedule once: bodies run many times, functions for the outputs that a call names.

        The main graph runs once.
        """
        key = graph, tuple(wanted)
        if key not in self.prepared.schedules:
            given = [value for value in environment if value.graph is graph]
            self.prepared.schedules[key] = schedule(graph, wanted, given)
        return self.prepared.schedules[key]

    def read(self, value: ir.Value, environment: Environment) -> Datum:
        """Return a value's array; a weight is read now, and held until its last consumer has run unless it is kept."""
        if value in environment:
            return environment[value]
        change = self.altered.get(value)
        if isinstance(change, Substitute):
            environment[value] = change.datum
            return change.datum
        environment[value] = self._altered(value, self.weight(value))
        return environment[value]

    def weight(self, value: ir.Value) -> Datum:
        kept = self.prepared.weights.get(value)
        if kept is not None:
            return kept
        stored = stored_array(value)
        if stored is None:
            raise _undefined(value)
        return self.prepared.weights.keep(value, admitted(stored, self.precision))

    def input(self, node: ir.Node, slot: int, environment: Environment) -> Datum:
        """Return what a node reads; None where it has no such input."""
        value = node.input(slot)
        if value is None:
            return None
        is_plain = self.precision == "float64" and value not in environment and value not in self.altered
        weight = streamed(node, slot) if is_plain else None
        return self.read(value, environment) if weight is None else weight

    def _altered(self, value: ir.Value, datum: Datum) -> Datum:
        return self.altered[value](datum) if value in self.altered else datum

    def _run_node(self, node: ir.Node, environment: Environment, bindings: Bindings) -> None:
        """Put the outputs of ``node`` into ``environment``; a mode that leaves some undefined leaves them out."""
        inputs = [self.input(node, slot, environment) for slot in range(len(node.inputs))]
        results = self.results(node, inputs, environment, bindings)
        for value, result in zip(node.outputs, results, strict=False):
            if value is None or value in environment:  # a fed value stays, even where its node runs for another
                continue
            environment[value] = self._altered(value, result)
            if self.observer is not None and node.graph is self.main:
                self.observer(value.name, environment[value])

    def results(
        self, node: ir.Node, inputs: list[Datum], environment: Environment, bindings: Bindings
    ) -> Sequence[Datum]:
        """Return what a call, an operator with bodies or a kernel makes of the inputs."""
        function = self.functions.get(function_key(node.proto)) if self.functions else None
        if function is not None:
            return self._call(function, node, inputs, bindings)
        if control.handles(node):
            attrs = resolve(node, bindings, self.precision)
            run_body = partial(self.run_body, environment, bindings)
            return control.run_control(node, attrs, inputs, run_body, self.precision)
        if node.is_op("Cast", "CastLike") and (source := node.input(0)) is not None and source.producer is not None:
            # Rounding of what follows from constants is no noise: runtimes and rewrites do it once and for all.
            held = constant(source)
            inputs[0] = admitted(as_declared(inputs[0], held.dtype), self.precision) if held is not None else inputs[0]
        bound = partial(self._bound, node, bindings)
        results = apply_kernel(node, inputs, bound, later=self.later, noise=self.noise)
        self.work.add(node, inputs, results)
        if self.jitter is not None and inputs:
            results = [jittered(result, self.jitter) for result in results]
        return results

    def _bound(self, node: ir.Node, bindings: Bindings, opset: int | None) -> Bound:
        """Return the node as an opset defines it; what a Constant holds may be too large to be kept."""
        known = self.prepared.bound.get((node, opset))
        if known is None or bindings:
            attrs = resolve(node, bindings, self.precision)
            known = bind(node, attrs, self.precision, self.policy, opset, evaluate)
            if not bindings and not node.is_op("Constant"):
                self.prepared.bound[node, opset] = known
        return known

    def run_body(
        self, environment: Environment, bindings: Bindings, body: ir.Graph, inputs: Sequence[Datum], share: float
    ) -> list[Datum]:
        """Run a body; ``share`` says how much of its node's work is done."""
        if body.parent is not None and body.parent.graph is self.main:
            self._turns = share
        return self.run(body, {**environment, **dict(zip(body.inputs, inputs, strict=True))}, body.outputs, bindings)

    def _call(self, function: ir.Graph, node: ir.Node, inputs: list[Datum], bindings: Bindings) -> list[Datum]:
        """Run a model-local function on its own environment: bodies see nothing but their inputs."""
        if len(inputs) > len(function.inputs):
            raise MalformedModel(
                f"node {node.label!r} gives {len(inputs)} inputs to a function of {len(function.inputs)}"
            )
        if function in self._running:
            raise MalformedModel(f"function {function.path} calls itself (node {node.label!r})")
        inputs = [*inputs, *[None] * (len(function.inputs) - len(inputs))]
        environment: Environment = dict(zip(function.inputs, inputs, strict=True))
        arguments = function_bindings(function, resolve(node, bindings, self.precision))
        named = [output for output, value in zip(function.outputs, node.outputs, strict=False) if value is not None]
        self._running.append(function)
        made = dict(zip(named, self.run(function, environment, named, arguments), strict=True))
        self._running.pop()
        return [made.get(output) for output in function.outputs]
