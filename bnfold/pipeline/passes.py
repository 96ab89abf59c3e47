"""The order of passes, each with the reason for its position: one model in, the same model rewritten, and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from bnfold import analysis, converting, ir, log
from bnfold.analysis.shapes.contradicted import tell_wrong_types
from bnfold.analysis.shapes.stating import state_shapes
from bnfold.converting.ir_version import (
    FUNCTIONS_SINCE,
    SPARSE_SINCE,
    explain_ir_version,
    keep_ir_version,
    require_ir_version,
)
from bnfold.errors import ConversionBlocked, Unsupported, printable
from bnfold.folding.shapes import learn_types
from bnfold.ir import lifting
from bnfold.ir.checking import checker_error
from bnfold.ir.fixing import fix_inputs
from bnfold.ir.graph import state_opset
from bnfold.ir.messages import FunctionKey
from bnfold.pipeline import clearing, conversion, overridable
from bnfold.pipeline.context import NodeKey, PassContext, log_decisions
from bnfold.pipeline.folds import equalize_channels, fold_affines
from bnfold.registered import faults
from bnfold.report import totals
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.names import compare_names
from bnfold.report.rewrites import CONSTANT_STORED
from bnfold.semantics import Repair
from bnfold.semantics.layout import needs_shape
from bnfold.settings import Options
from bnfold.settings.progress import Progress

BROADCASTS = 7
"""The first opset whose arithmetic broadcasts by itself."""
MAX_REDUCTIONS = 8
"""Each follows from what the one before opened the way for; two are what real models need."""


def describe(run: PassContext) -> None:
    """Record opset, IR version and counts of the model in the report. First, because later passes change them."""
    run.report.opset_before = run.model.opset()
    run.report.ir_before = run.model.proto.ir_version
    run.report.growth.limit = run.options.max_growth
    run.report.before = totals.count(run.model)
    run.report.names_before = run.model.original_names
    run.before = run.model.clone() if run.model.path is None else None
    if any(map(needs_shape, run.model.nodes())):
        learn_types(run.model)
    run.live()


def check_registered(run: PassContext) -> None:
    """Find shape functions of registered operators that contradict the model. Before anything asks them."""
    tell_wrong_types(run.model)


def fix_shapes(run: PassContext) -> None:
    """Fix the input shapes that the user gave. Early, because later passes can do more with known sizes.

    Raises BadInput if the model cannot run at them.
    """
    asked = run.options.fix_shapes
    original = (run.before or run.model.clone()) if asked else run.model
    run.report.fixed = fix_inputs(run.model, asked)
    if not run.report.fixed:
        return
    from bnfold.verification.fixed_sizes import FixedSizes

    note = FixedSizes(original, run.model, asked, run.options.policy, run.runtime).require()
    run.report.notes.extend([note] if note else [])


def choose_overridable(run: PassContext) -> None:
    """Decide whether initializers that are also inputs are constants. Before `normalise` unlists some."""
    run.freezes = overridable.is_frozen(run.model, run.options, run.report, partial(_folded_trial, run))


PassEdit = Callable[[PassContext], None]


def _folded_trial(run: PassContext, freezes: bool, edit: PassEdit = lambda _: None) -> list[BatchNormEvent]:
    """Fold a copy of the model, after an edit; return what became of its BatchNormalizations."""
    trial = run.trial(freezes=freezes)
    for step in (describe, normalise, repair, edit, remove_unread, raise_opset, fold_affines):
        step(trial)
    return trial.report.batchnorms


def normalise(run: PassContext) -> None:
    """Merge opset imports, and list no initializer as an input that is a constant.

    Before folding, which has to recognise constants: in IR version 3, every initializer is listed as an input.
    """
    if converting.merge_opset_imports(run.model):
        text = "the default domain is imported at several opsets; using the highest"
        run.report.repairs.append(Repair("opset-imports", "", text))
    if run.freezes:
        run.report.frozen = overridable.names(run.model)
        converting.strip_initializer_inputs(run.model, frozen=True)
    elif count := converting.strip_initializer_inputs(run.model):
        weights = f"the {count} weights are" if count > 1 else "the weight is"
        text = f"{weights} no longer listed as {'inputs' if count > 1 else 'input'} (only IR version 3 required that)"
        run.report.repairs.append(Repair("initializer-inputs", "", text))
        converting.leave_old_ir(run.model)


def repair(run: PassContext) -> None:
    """Repair what no runtime takes, if no number changes. Before the conversion, which has to read it."""
    from bnfold.converting.repairing import repair

    run.report.repairs.extend(repair(run.model))


def prepare_folds(run: PassContext) -> None:
    """Inline functions, and store sparse weights with their zeros, if more BatchNormalizations fold so.

    Before their nodes are read.
    """
    proto, live = run.model.proto, run.live()
    edits: list[PassEdit] = [_store_sparse] * _has_sparse(run.model)
    if not (run.options.fold and live and (proto.functions or edits)):
        return
    events = _folded_trial(run, run.freezes)
    if keys := _holding_left(run.model, events):
        edits.insert(0, partial(_inline, keys=keys))
    for edit in edits:
        try:
            others = _folded_trial(run, run.freezes, edit)
        except ConversionBlocked as blocked:
            run.report.notes.append(f"functions stay in which a BatchNormalization is left: {blocked}")
            continue
        if _share_left(others) < _share_left(events):
            edit(run)
            events = others


def _share_left(events: Sequence[BatchNormEvent]) -> Fraction:
    return Fraction(sum(event.is_left for event in events), max(len(events), 1))


def _holding_left(model: ir.Model, events: Sequence[BatchNormEvent]) -> set[FunctionKey]:
    """Return the functions in which a BatchNormalization is left, and those that call them."""
    if not model.proto.functions:
        return set()
    from bnfold.converting import functions

    return functions.named(model, {event.graph for event in events if event.is_left})


def _inline(run: PassContext, keys: set[FunctionKey]) -> None:
    from bnfold.converting import functions

    text = "inlined: a BatchNormalization in it folds with what is around its calls"
    run.report.repairs.extend(functions.inline(run.model, keys, partial(_convert_body, run), text))
    run.forget_inlined()
    run.live()


def _convert_body(run: PassContext, body: ir.Model, opset: int) -> None:
    """Bring the body of a function to an opset, with the functions that it calls inlined."""
    converting.convert(body, opset, policy=run.options.policy, ir_version=FUNCTIONS_SINCE - 1)


def _has_sparse(model: ir.Model) -> bool:
    return any(getattr(graph.proto, "sparse_initializer", ()) for graph in model.graphs())


def _store_sparse(run: PassContext) -> None:
    from bnfold.converting.model import store_sparse

    run.report.repairs.extend(store_sparse(run.model))


def remove_unread(run: PassContext) -> bool:
    """Remove what nothing reads; return whether anything is gone.

    Before any pass looks at the consumers of a value, or converts a node.

    Functions that a conversion put in the place of their calls have results that nothing reads.
    """
    if run.options.no_simplify:
        return False
    from bnfold import simplifying

    live = run.live()
    with run.simplifying():
        has_removed = simplifying.remove_unread(run.model, run.report, disabled=run.options.disable)
    run.follow_moved(live, ())
    return has_removed


def raise_opset(run: PassContext) -> None:
    """Raise the opset before folding, so that the search meets one version of every operator."""
    ir_version = run.options.ir_version
    if run.options.target_opset == "keep" and run.options.ml_opset is None and not run.options.domain_opsets:
        if isinstance(ir_version, int) and ir_version < SPARSE_SINCE and _has_sparse(run.model):
            _store_sparse(run)
        if isinstance(ir_version, int) and ir_version < FUNCTIONS_SINCE and run.model.proto.functions:
            from bnfold.converting.functions import inline_all

            run.report.repairs.extend(inline_all(run.model, partial(_convert_body, run)))
            run.forget_inlined()
            run.live()
    elif not conversion.lowers(run):
        conversion.convert(run)


def lower_opset(run: PassContext) -> None:
    """Lower the opset. After rewriting, which removes nodes that no older opset has, and adds none."""
    if conversion.lowers(run):
        reduce(run)
        conversion.convert(run)
        remove_unread(run)
        fold_affines(run)


def decide_branches(run: PassContext) -> None:
    """Replace each If that is decided by its branch. Before folding, which does not pass the border of a branch."""
    if run.options.no_simplify or not any(node.is_op("If") for node in run.model.nodes()):
        return
    from bnfold import simplifying

    live = run.live()
    done = simplifying.decide(run.model, run.report, disabled=run.options.disable)
    clearing.follow(run, live, done)


def tell_training(run: PassContext) -> None:
    """Note which BatchNormalizations are left in training mode, but for those that make up InstanceNormalization."""
    if run.converted is None or not run.converted.training:
        return
    from bnfold.folding.rewrites import instances

    told = {event.name for event in run.report.batchnorms if not event.is_left}
    told |= {node.label for node in run.live() if instances.stands_between_reshapes(node)}
    training = tuple(label for label in run.converted.training if label not in told)
    run.report.notes.extend([run.converted._replace(training=training).advice] if training else [])


def decompose(run: PassContext) -> None:
    """Decompose the normalizations that are left, if asked. After folding, so that nothing is decomposed that folds."""
    if run.options.decompose == "never":
        return
    from bnfold import decomposing

    decomposing.decompose(
        run.model,
        run.live(),
        run.report,
        policy=run.options.policy,
        form=run.options.decompose_form,
        operators=run.options.decompose_ops,
        disabled=run.options.disable,
    )


def reduce(run: PassContext) -> None:
    """Simplify, and fold what that opens the way for, until neither changes anything.

    After the other rewrites, which recognise patterns as the file has them.
    """
    lift_constants(run)
    if run.options.no_simplify:
        return
    for _ in range(MAX_REDUCTIONS):
        has_simplified, has_removed = simplify(run), remove_unread(run)
        if not (has_simplified and fold_affines(run)) and not has_removed:
            break
        lift_constants(run)  # some weights are Constant nodes


def remove_channels(run: PassContext) -> None:
    """Take out channels that compute nothing, and reduce again, until neither changes anything.

    After folding, which makes filters of zeros.
    """
    if run.options.no_simplify:
        return
    from bnfold import channels

    for _ in range(MAX_REDUCTIONS):
        live = run.live()
        with run.folding():
            has_changed = channels.remove_channels(run.model, run.report, run.options.disable)
        if not has_changed:
            break
        converting.leave_old_ir(run.model)
        run.follow_moved(live, ())
        fold_affines(run)
        reduce(run)


def lift_constants(run: PassContext) -> None:
    """Turn Constant nodes into initializers. After the rewrites, because some fold into Constant nodes.

    Raises the IR version to 4 if necessary: before, every initializer is an input as well.
    """
    is_asked = run.options.constants == "lift" and CONSTANT_STORED.name not in run.options.disable
    if is_asked and (lifted := lifting.lift_constants(run.model)):
        run.report.lifted += lifted
        converting.leave_old_ir(run.model)


def simplify(run: PassContext) -> bool:
    """Simplify the graph; return whether that changed anything."""
    from bnfold import simplifying

    with run.folding():
        run.model.remove_dead_nodes()  # what folding left is no simplification
    live = run.live()
    options = run.options
    group_norm = options.group_norm and not conversion.lowers(run)
    with run.simplifying() as most:
        done = simplifying.simplify(run.model, run.report, group_norm=group_norm, disabled=options.disable, most=most)
    clearing.follow(run, live, done)
    return done.has_changed


def tell_newer_opsets(run: PassContext) -> None:
    """Note which rewrites were not made because they need a newer opset."""
    from bnfold.analysis.traits import ARITHMETIC
    from bnfold.simplifying.group_norm import OPSET

    options, opset = run.options, run.model.opset()
    if options.no_simplify:
        return
    if options.group_norm and opset < OPSET:
        run.report.notes.append(
            f"no GroupNormalization was written: it has a scale for each channel since opset {OPSET}."
            f" Add --target-opset {OPSET}."
        )
    arithmetic = [node for node in run.model.nodes() if node.has_trait(ARITHMETIC)] if opset < BROADCASTS else ()
    left = sum(node.has_attr("broadcast") and any(map(analysis.constant, node.inputs)) for node in arithmetic)
    if left and options.fold:
        run.report.notes.append(
            f"constant arithmetic not folded: {left} operator{'s broadcast' if left > 1 else ' broadcasts'} as before"
            f" opset {BROADCASTS}. Add --target-opset {BROADCASTS}."
        )


def remove_dead_nodes(run: PassContext) -> None:
    """Remove nodes without a consumer, and record the final counts. Last of the rewrites, which leave such nodes."""
    run.model.remove_dead_nodes()
    compare_names(run.report, run.model)
    run.model.release_sources()
    if run.report.fixed and (left := state_shapes(run.model)):
        run.report.notes.append(f"outputs that still have an open size: {', '.join(left)}")
    _allow_initializers(run)
    run.report.opset_after = run.model.opset()
    run.report.after = totals.count(run.model)


_MOST_LOOKED_THROUGH = 1 << 30
"""Bytes of weights that take no noticeable time to read once more."""


def tell_subnormal(run: PassContext) -> None:
    """Note weights below the smallest normal number, those apart that folding made. After the last rewrite.

    All weights are read for it, so a model with many bytes of them is left alone.
    """
    from bnfold.ir.subnormal import count_subnormal
    from bnfold.ir.tensor import Computed

    if run.model.origin.is_detached or run.report.after.weights > _MOST_LOOKED_THROUGH:
        return
    found: list[tuple[int, ir.Value, bool]] = []
    for graph in run.model.graphs():
        for value in graph.values.values():
            tensor = analysis.constant(value) if value.tensor_proto is not None else None
            if tensor is not None and (count := count_subnormal(tensor)):
                found.append((count, value, isinstance(tensor, Computed)))
    if not found:
        return
    found.sort(key=lambda row: -row[0])
    named = ", ".join(f"{printable(value.name)} ({count})" for count, value, _ in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    made = sum(count for count, _, is_made in found if is_made)
    new = f"; {made} of them in weights that folding computed" if made else ""
    run.report.notes.append(
        f"{sum(count for count, _, _ in found)} weights are not 0, but below the smallest normal number: {named}{more}"
        f"{new}. They are kept; many processors compute slowly with such numbers"
        " (in onnxruntime, the session option session.set_denormal_as_zero makes them 0)"
    )


_NAMED = 3
"""Weights with subnormal numbers that a note names."""


def set_ir_version(run: PassContext) -> None:
    """Set the IR version. After all rewrites, because it has to support what they wrote."""
    wanted = run.options.ir_version
    if isinstance(wanted, int):
        run.report.notes.extend(require_ir_version(run.model, wanted))
    elif wanted == "keep":
        keep_ir_version(run.model, run.report.ir_before)
    elif run.options.target_opset is not None:
        run.report.notes.extend(explain_ir_version(run.model))
    run.report.ir_after = run.model.proto.ir_version


def _allow_initializers(run: PassContext) -> None:
    """Raise the IR version to 4 if a rewrite added an initializer: before, every initializer has to be an input.

    From IR version 3 on the opset import is mandatory: the implied opset 1 is then stated.
    """
    proto = run.model.proto
    values = (value for graph in run.model.graphs() for value in graph.values.values())
    if proto.ir_version < 4 and any(
        value.is_initializer and value.name not in run.report.names_before for value in values
    ):
        proto.ir_version = 4
        state_opset(proto)


def check(run: PassContext) -> None:
    """Raise if onnx's checker rejects the output, but not the input (both by the rules of the output's IR version)."""
    error = checker_error(run.model)
    if not error:
        return
    before = ir.load(run.model.path) if run.model.path is not None else run.before
    if before is None:
        return
    if not checker_error(before, run.model.proto.ir_version):
        what = "the rewritten model would not be valid ONNX, and the original is"
        raise Unsupported(f"{what}: {error}; please report this bug of bnfold")


PASSES: tuple[Callable[[PassContext], object], ...] = (
    describe, check_registered, fix_shapes, choose_overridable, normalise, repair, prepare_folds, remove_unread,
    raise_opset, remove_unread, decide_branches, fold_affines, lower_opset, tell_training, decompose, reduce,
    remove_channels, equalize_channels, lift_constants, tell_newer_opsets, remove_dead_nodes, tell_subnormal,
    set_ir_version, check,
)  # fmt: skip


def record_unchanged(run: PassContext) -> None:
    """Record that the model is as it came."""
    report = run.report
    report.opset_after, report.ir_after, report.after = report.opset_before, report.ir_before, report.before


READING = (describe, record_unchanged)
"""What is done if nothing is asked for: a file that is only to be looked at is shown as it is."""


def rewrite(
    model: ir.Model,
    options: Options,
    progress: Progress | None = None,
    withheld: frozenset[NodeKey] = frozenset(),
    runtime: str = "none",
) -> Report:
    """Run all passes in place, but not the folds ``withheld``; ``runtime`` may be asked whether the model runs.

    Raises:
        ConversionBlocked, Unsupported, BadInput: A pass cannot convert or read the model; it has to be discarded.
    """
    run = PassContext(model, options, Report(), progress or (lambda *_: None), withheld, runtime=runtime)
    with ir.utf8(model.label), faults.collected() as mistakes:
        steps = READING if options.changes_nothing else PASSES
        size = _size(model) if log.shows("INFO", __name__) else None
        for number, step in enumerate(steps):
            run.progress("rewrite", number, len(steps))
            started = time.perf_counter()
            step(run)
            seconds = time.perf_counter() - started
            if size is not None:
                before, size = size, _size(model)
                log.info(__name__, "pass %s: %s, %.3f s", step.__name__, _moved(before, size), seconds)
    run.report.notes += mistakes.messages
    log_decisions(run.report)
    return run.report


def _size(model: ir.Model) -> tuple[int, int]:
    """Return the opset and the number of nodes."""
    return model.opset(), sum(len(graph.nodes) for graph in model.graphs())


def _moved(before: tuple[int, int], after: tuple[int, int]) -> str:
    """Say what a pass did to the opset and the number of nodes."""
    opset, nodes = (f"{old} -> {new}" if old != new else f"{new}" for old, new in zip(before, after, strict=True))
    return f"nodes {nodes}" if before[0] == after[0] else f"opset {opset}, nodes {nodes}"
