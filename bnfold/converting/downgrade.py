"""Lower the opset of a node: the steps down of :mod:`bnfold.converting.steps`, and what no adapter has to say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from bnfold import ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.analysis.traits import COMBINING
from bnfold.converting import function_body, steps
from bnfold.converting.adapters import element_types
from bnfold.converting.adapters.scan import state_results
from bnfold.converting.compatible import default_of
from bnfold.converting.context import Inexpressible, Meaningless, UnknownType
from bnfold.converting.node_conversion import FORM, NEGATIVE_AXES_SINCE, NodeConversion, is_of_target
from bnfold.errors import Unsupported
from bnfold.ir.elements import type_name
from bnfold.ir.node import attribute_value
from bnfold.ir.ordering import producers_first
from bnfold.ir.schemas import schema_of, version_at, versions_of


def step_down(conversion: NodeConversion, opset: int) -> None:
    """Bring a node of ``opset`` to the lower target, one version step after the other.

    A step has an adapter, or the node is one of the older version as it stands.

    Raises:
        Inexpressible: The node has no equivalent at the target.
    """
    _step_down(conversion, opset)
    lower_rest(conversion)
    if conversion.finished or conversion.older is not None:
        _check_types(conversion)


def lower_rest(conversion: NodeConversion) -> None:
    """Lower the node as the operator that an adapter has turned it into, and what was put behind it.

    Raises Inexpressible if that has no equivalent at the target.
    """
    node = conversion.node
    if conversion.became:
        conversion.became = conversion.finished = False
        with _named(node):
            for inner in [inner for body in node.bodies for inner in body.nodes]:
                lower_added(conversion, inner)
            _step_down(conversion, _written(node.op_type, max(FORM, conversion.target)))
        lower_rest(conversion)
        conversion.finished = True
    while conversion.behind:
        lower_added(conversion, conversion.behind.pop(0))


def lower_added(conversion: NodeConversion, added: ir.Node, opset: int = FORM) -> None:
    """Lower a node of ``opset`` that stands around another one, and what its bodies hold. Raises Inexpressible."""
    for node in (*(node for graph in added.bodies for body in graph.subgraphs() for node in body.nodes), added):
        opset = max(opset, conversion.target)
        is_foreign = node.domain or not versions_of(node.op_type)
        if is_foreign or is_of_target(node.op_type, opset, conversion.target):
            continue
        step = NodeConversion(node, conversion.context)
        with _named(step.node):
            step_down(step, _written(node.op_type, opset))
        conversion.added += step.added
    if added.is_op("Scan"):
        state_results(added, conversion.target, conversion.context.types)


def _written(op_type: str, opset: int) -> int:
    """Return the version that ``opset`` has of an operator, the last one with a meaning, or else its first one."""
    return steps.living_version(op_type, opset) or versions_of(op_type)[0]


@contextmanager
def _named(node: ir.Node) -> Iterator[None]:
    """Name the operator of a node that an adapter has written, where it cannot be lowered."""
    op_type = node.op_type
    try:
        yield
    except UnknownType as error:
        raise UnknownType(f"needs {op_type}: {error}", error.value) from error
    except Unsupported as error:
        raise Inexpressible(f"needs {op_type}: {error}") from error


def _step_down(conversion: NodeConversion, opset: int) -> None:
    node, target = conversion.node, conversion.target
    version = written = version_at(node.op_type, opset)
    element_types.in_wider_type(conversion, written)
    while version and version_at(node.op_type, target) != version:
        older = version_at(node.op_type, version - 1)
        try:
            _one_step(conversion, version, older)
        except Inexpressible as error:
            is_sound = node.op_type in steps.sound_bodies() and not isinstance(error, Meaningless)
            if not is_sound or not _take_back(conversion):
                raise
            _expand(conversion, version)
            return
        if conversion.finished:
            return
        version = older
    # The axes first: shapes are inferred as the target reads them, and old versions misread negative ones.
    if opset >= NEGATIVE_AXES_SINCE and (reason := axes_from_front(node, target, conversion.context.types)):
        raise Inexpressible(reason)
    if version != written:
        if reason := _tie_objection(node, target, conversion.context.types):
            raise Inexpressible(reason)
        drop_defaults(node, target)


def _one_step(conversion: NodeConversion, version: int, older: int | None) -> None:
    """Bring the node to the version before. Raises Inexpressible."""
    registered = steps.downs().get((conversion.node.op_type, version))
    conversion.older = older
    if registered is not None and registered.adapter is not None:
        registered.adapter(conversion)
    if conversion.finished:
        return
    reason = _change_objection(conversion.node, version, older) if registered is None else None
    if reason or (reason := _form_objection(conversion.node, version, older)):
        raise Inexpressible(reason)


def _take_back(conversion: NodeConversion) -> bool:
    """Remove the nodes that an adapter had added before it refused; False if one of them makes the node's output."""
    outputs = {value for node in conversion.added for value in node.outputs if value is not None}
    if not outputs.isdisjoint(conversion.node.outputs):
        return False
    while unread := [
        node
        for node in conversion.added
        if not node.removed and all(value is None or value.is_unread for value in node.outputs)
    ]:
        for node in unread:
            conversion.graph.remove(node)
    return True


def _expand(conversion: NodeConversion, version: int) -> None:
    """Put onnx's function body in the place of the node, and lower each of its nodes."""
    body, opset = function_body.expand(conversion, version)
    for node in producers_first([*body]):
        lower_added(conversion, node, opset)


def _check_types(conversion: NodeConversion) -> None:
    """Raise Inexpressible where the target does not have the node, or one that adapters added, for its types."""
    conversion.added = [node for node in conversion.added if not node.removed]
    for node in (*conversion.added, *([] if conversion.replaced else [conversion.node])):
        unknown = [value for value in node.inputs if value and kind_of(value, conversion.context.types) is None]
        reason = type_objection(node, conversion.target, conversion.context.types)
        if reason is not None:
            text = f"needs {node.op_type}: {reason}" if conversion.finished else reason
            raise UnknownType(text, unknown[0]) if unknown else Inexpressible(text)


def _change_objection(node: ir.Node, version: int, older: int | None) -> str | None:
    """Return why a step without an adapter does not keep the meaning."""
    if older is None:
        return f"does not exist before opset {version}"
    is_same = steps.is_compatible(node.op_type, older, version)
    return None if is_same else f"has another form before opset {version}"


def _form_objection(node: ir.Node, version: int, older: int | None) -> str | None:
    """Return what the node uses that the older version does not have."""
    if older is None:
        return f"does not exist before opset {version}"
    schema, newer = schema_of(node.op_type, older), schema_of(node.op_type, version)
    node.trim_outputs(max(schema.max_output, _last_read(node)))
    for name, attribute in node.attrs.items():
        if name not in schema.attributes and name in newer.attributes:
            default = default_of(newer.attributes[name])
            if attribute.ref_attr_name or attribute_value(attribute) != default:
                return f"attribute {name} is newer than version {older}"
    if len(node.inputs) > schema.max_input or len(node.outputs) > schema.max_output:
        return f"has more inputs or outputs than version {older} knows"
    if len(node.inputs) < schema.min_input or len(node.outputs) < schema.min_output:
        return f"has fewer inputs or outputs than version {older} demands"
    slot = next(missing_inputs(node, older), None)
    return None if slot is None else f"has no input {schema.inputs[slot].name}, which version {older} demands"


def _last_read(node: ir.Node) -> int:
    """Return how many outputs there are up to the last one that something reads."""
    return max((place for place, value in enumerate(node.outputs, 1) if value and not value.is_unread), default=0)


def _tie_objection(node: ir.Node, target: int, types: Types) -> str | None:
    """Say that the target's version demands inputs of one shape where the node may have several."""
    older = version_at(node.op_type, target)
    if older is None or older >= _BROADCASTS or not node.has_trait(COMBINING):
        return None
    if schema_of(node.op_type, older).inputs[0].option != _VARIADIC or _have_one_shape(node, types):
        return None
    return f"version {older} demands inputs of one shape, which these are not known to have"


_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_BROADCASTS = 8
"""The version from which on elementwise operators of any number of inputs broadcast."""


def _have_one_shape(node: ir.Node, types: Types) -> bool:
    shapes = [types.shape(value) for value in node.inputs if value is not None]
    first = shapes[0]
    is_known = first is not None and all(isinstance(size, int) for size in first)
    return len(shapes) == 1 or (is_known and all(shape == first for shape in shapes))


def missing_inputs(node: ir.Node, version: int) -> Iterator[int]:
    """Yield the slots at which ``version`` demands an input and the node has none."""
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    for slot, parameter in enumerate(schema_of(node.op_type, version).inputs):
        if parameter.option == single and node.input(slot) is None:
            yield slot


def type_objection(node: ir.Node, target: int, types: Types) -> str | None:
    """Say which input or output has a type that the version at ``target`` lacks, or requires to be shared."""
    version = version_at(node.op_type, target)
    if version is None:
        return f"does not exist at opset {target}"
    schema = schema_of(node.op_type, version)
    bound: dict[str, str] = {}
    for value, index in [(value, index) for index, value in enumerate(node.inputs) if value is not None]:
        parameter = schema.inputs[min(index, len(schema.inputs) - 1)]
        kind = kind_of(value, types)
        if kind is None:
            return f"the type of {value.name!r}, which version {version} may not take, is not known"
        if kind not in parameter.types:
            return f"version {version} does not take {kind}"
        if bound.setdefault(parameter.type_str, kind) != kind and parameter.is_homogeneous:
            return f"version {version} takes one type where the node has two"
    return _output_objection(node, version, types)


def _output_objection(node: ir.Node, version: int, types: Types) -> str | None:
    schema = schema_of(node.op_type, version)
    for value, index in [(value, index) for index, value in enumerate(node.outputs) if value is not None]:
        kind, parameter = kind_of(value, types), schema.outputs[min(index, len(schema.outputs) - 1)]
        if kind is not None and kind not in parameter.types:
            return f"version {version} does not make {kind}"
    return None


def kind_of(value: ir.Value, types: Types) -> str | None:
    """Return the type of a value as schemas spell it; None where it is not known."""
    dtype = types.dtype(value)
    return _spelled(value.type) if dtype is None else f"tensor({type_name(dtype)})"


def _spelled(kind: onnx.TypeProto | None) -> str | None:
    if kind is None:
        return None
    for field, name in (("sequence_type", "seq"), ("optional_type", "optional")):
        if kind.HasField(field):
            inner = _spelled(getattr(kind, field).elem_type)
            return inner and f"{name}({inner})"
    dtype = kind.tensor_type.elem_type
    return f"tensor({type_name(dtype)})" if dtype else None


def axes_from_front(node: ir.Node, target: int, types: Types) -> str | None:
    """Count negative axes from the front if the older version needs that; else return why it is impossible."""
    older = version_at(node.op_type, target)
    if older is None or target >= NEGATIVE_AXES_SINCE:
        return None
    for name in ("axis", "axes"):
        known, given = schema_of(node.op_type, older).attributes.get(name), node.attr(name)
        axes = given if isinstance(given, list) else [given]
        if known is None or not all(isinstance(axis, int) for axis in axes) or min(axes, default=0) >= 0:
            continue
        if given == default_of(known) or "Negative value means" in known.description:
            continue
        value = node.input(0)
        size = types.rank(value) if value is not None else None
        if size is None:
            return f"{name}={given} counts from the end, which opset {target} does not know, and the rank is not known"
        rank = size + len(axes) * node.is_op("OneHot", "Unsqueeze")  # they count the axes of the output
        counted = [axis + rank if axis < 0 else axis for axis in axes]
        if node.is_op("Squeeze"):
            counted.sort()  # its old shape inference takes them in this order only
        node.set_attr(name, counted if isinstance(given, list) else counted[0])
    return None


def drop_defaults(node: ir.Node, target: int) -> None:
    """Leave out attributes that the older version does not have and that say no more than the default."""
    older = version_at(node.op_type, target)
    if older is None:
        return
    legal = schema_of(node.op_type, older).attributes
    for name in [name for name in node.attrs if name not in legal]:
        node.del_attr(name)
