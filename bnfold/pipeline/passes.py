"""The order of passes, each with the reason for its position: one model in, the same model rewritten, and a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from bnfold import converting, ir, log
from bnfold.converting.ir_version import FUNCTIONS_SINCE, SPARSE_SINCE, keep_ir_version, require_ir_version
from bnfold.errors import Unsupported, UpgradeBlocked
from bnfold.ir import lifting
from bnfold.ir.checking import checker_error
from bnfold.ir.fixing import fix_inputs, state_shapes
from bnfold.ir.graph import state_opset
from bnfold.ir.messages import FunctionKey
from bnfold.pipeline import lowest, overridable
from bnfold.pipeline.context import NOTHING, PassContext, Withheld, log_decisions
from bnfold.pipeline.folds import fold_affines, fold_again
from bnfold.pipeline.formats import Progress
from bnfold.report import totals
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.names import compare_names
from bnfold.semantics import Repair
from bnfold.semantics import batchnorm as batchnorm_semantics
from bnfold.settings import Options


def describe(run: PassContext) -> None:
    """Record opset, IR version and counts of the model in the report. First, because later passes change them."""
    run.report.opset_before = run.model.opset()
    run.report.ir_before = run.model.proto.ir_version
    run.report.before = totals.count(run.model)
    run.report.names_before = run.model.original_names
    run.before = run.model.clone() if run.model.path is None else None
    run.live()


def fix_shapes(run: PassContext) -> None:
    """Fix the input shapes that the user gave. Early, because later passes can do more with known sizes.

    Raises BadInput if the model cannot run at them.
    """
    asked = run.options.fix_shapes
    original = (run.before or run.model.clone()) if asked else run.model
    run.report.fixed = fix_inputs(run.model, asked)
    if not run.report.fixed:
        return
    from bnfold.verification.trial import FixedSizes

    note = FixedSizes(original, run.model, asked, run.options.policy, run.runtime).require()
    run.report.notes.extend([note] if note else [])


def choose_overridable(run: PassContext) -> None:
    """Decide whether initializers that are also inputs are constants. Before `normalise` unlists some."""
    run.freezes = overridable.is_frozen(run.model, run.options, run.report, partial(_folded_trial, run))


Edit = Callable[[PassContext], None]


def _folded_trial(run: PassContext, freezes: bool, edit: Edit = lambda _: None) -> list[BatchNormEvent]:
    """Fold a copy of the model, after an edit; return what became of its BatchNormalizations."""
    trial = PassContext(
        run.model.clone(), run.options, Report(), run.original, lambda *_: None, run.withheld, freezes=freezes
    )
    for step in (describe, normalise, repair, edit, raise_opset, fold_affines):
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
    """Repair what no runtime takes, if that is exact. Before the conversion, which has to read it."""
    from bnfold.converting.repairing import repair

    run.report.repairs.extend(repair(run.model))


def prepare_folds(run: PassContext) -> None:
    """Inline functions, and store sparse weights with their zeros, if more BatchNormalizations fold so.

    Before their nodes are read.
    """
    proto, live = run.model.proto, run.live()
    edits: list[Edit] = [_store_sparse] * _has_sparse(run.model)
    if not (run.options.fold and live and (proto.functions or edits)):
        return
    events = _folded_trial(run, run.freezes)
    if keys := _holding_left(run.model, events):
        edits.insert(0, partial(_inline, keys=keys))
    for edit in edits:
        try:
            others = _folded_trial(run, run.freezes, edit)
        except UpgradeBlocked as blocked:
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


def raise_opset(run: PassContext) -> None:
    """Convert the opset before folding, so that the search meets one version of every operator."""
    ir_version, ml_opset = run.options.ir_version, run.options.ml_opset
    if run.options.target_opset == "keep" and ml_opset is None:
        if isinstance(ir_version, int) and ir_version < SPARSE_SINCE and _has_sparse(run.model):
            _store_sparse(run)
        if isinstance(ir_version, int) and ir_version < FUNCTIONS_SINCE and run.model.proto.functions:
            from bnfold.converting.functions import inline_all

            run.report.repairs.extend(inline_all(run.model, partial(_convert_body, run)))
            run.forget_inlined()
            run.live()
        return
    target = lowest.target(run.model, run.options, run.report)
    given = run.model.snapshot() if target is not None and target < run.model.opset("") else None
    try:
        done = converting.convert(
            run.model, target, policy=run.options.policy, ir_version=ir_version, ml_opset=ml_opset
        )
    except UpgradeBlocked as blocked:
        origin = given() if given is not None else _prepared(run)
        step = lowest.next_step(origin, run.options, target if target is not None else converting.DEFAULT_TARGET)
        raise UpgradeBlocked(f"{blocked}; {step}", blocked.blockers) from blocked
    run.report.conversion = [row._asdict() for row in done.operators]
    run.report.repairs.extend(done.repairs)
    run.report.notes.extend([done.note] if done.note else [])
    run.report.add_cuts(done.cuts)
    run.report.notes.extend(
        f"{count} {operator} not converted: bnfold has no other version of this operator"
        for operator, count in done.passed.items()
        if done.before != done.after
        and operator.startswith("ai.onnx::")  # domains of their own have versions of theirs
    )
    run.converted = done
    if done.before == done.after and not (done.changes or done.repairs):
        return
    run.follow_replaced()
    run.forget_inlined()
    alive = set(run.live().values())
    for event in run.events.values():
        if event not in alive or event.version != batchnorm_semantics.version_at(done.after):
            event.verdict = "upgraded"


def _prepared(run: PassContext) -> ir.Model:
    """Read the model again, and do what precedes its conversion."""
    if run.model.path is None:
        assert run.before is not None
        model = run.before.clone()
    else:
        model = ir.load(run.model.path)
    fix_inputs(model, run.options.fix_shapes)
    converting.merge_opset_imports(model)
    converting.strip_initializer_inputs(model, frozen=run.freezes)
    return model


def decide_branches(run: PassContext) -> None:
    """Replace each If that is decided by its branch. Before folding, which does not pass the border of a branch."""
    if run.options.no_simplify or not any(node.is_op("If") for node in run.model.nodes()):
        return
    from bnfold import simplifying

    live = run.live()
    done = simplifying.decide(run.model, run.report, withheld=run.withheld.simplifications)
    if done.has_stored:
        converting.leave_old_ir(run.model)
    run.follow_moved(live, done.moved)


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
    )


def lift_constants(run: PassContext) -> None:
    """Turn Constant nodes into initializers. After the rewrites, because some fold into Constant nodes.

    Raises the IR version to 4 if necessary: before, every initializer is an input as well.
    """
    if run.options.constants == "lift" and (lifted := lifting.lift_constants(run.model)):
        run.report.lifted = lifted
        converting.leave_old_ir(run.model)


def simplify(run: PassContext) -> None:
    """Simplify the graph. After the other rewrites, which recognise patterns as the file has them."""
    if run.options.no_simplify:
        return
    from bnfold import simplifying
    from bnfold.simplifying.group_norm import OPSET

    run.model.remove_dead_nodes()  # what folding left is no simplification
    live = run.live()
    if run.options.group_norm and run.model.opset() < OPSET:
        run.report.notes.append(
            f"no GroupNormalization was written: it has a scale for each channel since opset {OPSET}."
            f" Add --target-opset {OPSET}."
        )
    withheld = run.withheld.simplifications
    done = simplifying.simplify(run.model, run.report, group_norm=run.options.group_norm, withheld=withheld)
    run.has_stored = done.has_stored
    if done.has_stored:
        converting.leave_old_ir(run.model)
    run.follow_moved(live, done.moved)


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


def set_ir_version(run: PassContext) -> None:
    """Set the IR version. After all rewrites, because it has to support what they wrote."""
    wanted = run.options.ir_version
    if isinstance(wanted, int):
        run.report.notes.extend(require_ir_version(run.model, wanted))
    elif wanted == "keep":
        keep_ir_version(run.model, run.report.ir_before)
    run.report.ir_after = run.model.proto.ir_version


def _allow_initializers(run: PassContext) -> None:
    """Raise the IR version to 4 if a rewrite added an initializer: before, every initializer has to be an input.

    From IR version 3 on the opset import is mandatory: the implied opset 1 is then stated.
    """
    proto = run.model.proto
    values = (value for graph in run.model.graphs() for value in graph.values.values())
    if proto.ir_version < 4 and any(value.is_initializer and value.name not in run.original for value in values):
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
        raise Unsupported(f"the rewritten model would not be valid ONNX, and the original is: {error}")


PASSES: tuple[Callable[[PassContext], None], ...] = (
    describe, fix_shapes, choose_overridable, normalise, repair, prepare_folds, raise_opset, decide_branches,
    fold_affines,
    tell_training, decompose, lift_constants, simplify, fold_again, remove_dead_nodes, set_ir_version, check,
)  # fmt: skip


def rewrite(
    model: ir.Model,
    options: Options,
    progress: Progress | None = None,
    withheld: Withheld = NOTHING,
    runtime: str = "none",
) -> Report:
    """Run all passes in place, but for what is ``withheld``; ``runtime`` may be asked whether the model runs.

    Raises:
        UpgradeBlocked, Unsupported, BadInput: A pass cannot convert or read the model, which is then to be discarded.
    """
    run = PassContext(
        model, options, Report(), model.original_names, progress or (lambda *_: None), withheld, runtime=runtime
    )
    with ir.utf8(model.label):
        for step in PASSES:
            step(run)
            log.debug(__name__, "pass %s done: %d BatchNormalizations met so far", step.__name__, len(run.events))
    log_decisions(run.report)
    return run.report
