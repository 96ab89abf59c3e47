"""The passes over an IR: the same as over ONNX, with OpenVINO's names in the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bnfold import decomposing, ir
from bnfold.errors import WrongUsage
from bnfold.interop.openvino.load import IrModel
from bnfold.interop.openvino.operators import DOMAIN, NORM, ONNX_NAMES, is_v0
from bnfold.interop.openvino.stage import written_back
from bnfold.report.events import Report
from bnfold.settings import Options, OutputOptions, Policy


def rewrite(model: IrModel, options: Options, passes: Callable[[ir.Model, Options], Report]) -> Report:
    """Fold and decompose ``model`` in place by ``passes``, bring its document in line, and say what was done.

    Unless ``target_opset`` is ``keep``, what is left of BatchNormInference-1 (version 0) becomes version 5.

    Raises:
        Unsupported: As `write_back`.
    """
    document = model.document
    versions = {
        (node.graph.path, node.label): 0 if is_v0(origin.layer) else 5
        for scope in model.scopes
        for node, origin in scope.origins.items()
        if origin.layer.type == NORM
    }
    types = {node.label: origin.layer.type for scope in model.scopes for node, origin in scope.origins.items()}
    opset = document.opset
    model.raise_norms = options.target_opset is None
    report = passes(model, _in_onnx_names(options))
    written_back(model)
    report.has_opset = False
    report.opset_before, report.opset_after = opset, document.opset
    report.ir_before = report.ir_after = document.version
    for event in report.batchnorms:
        event.version = versions.get((event.graph, event.name), 0)
        if event.verdict in ("folded", "exchanged"):
            event.operators = tuple(dict.fromkeys(types[label] for label in event.into if label in types))
        if event.verdict == "kept" and not event.is_affine and event.version == 0 and model.raise_norms:
            event.verdict = "upgraded"
    return report


def check(options: Options, delivery: OutputOptions | None, _unwanted: frozenset[str]) -> None:
    """Raise WrongUsage for an option that an IR knows nothing of."""
    if delivery is not None and _split(delivery) != _split(OutputOptions(delivery.path)):
        raise WrongUsage("--external-data and --size-threshold are about ONNX: the constants of an IR are in its .bin")
    if options.fix_shapes:
        raise WrongUsage("--fix-shapes is about ONNX: OpenVINO reshapes an IR itself, with model.reshape()")
    if options.simplify:
        raise WrongUsage("--simplify is about ONNX: no other optimiser takes an IR in place of bnfold")
    if options.target_opset not in (None, "keep"):
        raise WrongUsage("an IR has no opset of its own (each layer names one): leave out --target-opset")
    if options.ir_version != "auto":
        raise WrongUsage("--ir-version is about ONNX: the versions of an IR are those of its layers")
    if options.policy != Policy() or options.overridable != "auto":
        raise WrongUsage(
            "--legacy-mode, --force-inference, --saved-var and --overridable are about ONNX: an IR leaves nothing "
            "of that open"
        )


def _split(delivery: OutputOptions) -> tuple[str, int]:
    return delivery.external_data, delivery.size_threshold


def _in_onnx_names(options: Options) -> Options:
    return replace(
        options,
        target_opset="keep",
        no_simplify=True,
        only=_translated(options.only),
        excluded=_translated(options.excluded),
        decompose_ops=_translated(options.decompose_ops),
    )


def _translated(operators: frozenset[str]) -> frozenset[str]:
    return frozenset(ONNX_NAMES.get(name, name) for name in operators)


def left(model: IrModel, operators: frozenset[str], policy: Policy) -> list[tuple[str, str, str]]:
    """Do as `decomposing.left`; operators may have OpenVINO's names or ONNX's."""
    known = decomposing.left(model, _translated(operators), policy)
    others = [
        (node.label, node.graph.path, "no decomposition of this operator is known")
        for node in model.nodes()
        if node.domain == DOMAIN and node.op_type in operators
    ]
    return [*known, *others]
