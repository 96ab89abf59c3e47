"""Element types that callers' shape functions say, beside those that the model declares or needs."""

from __future__ import annotations

from bnfold.analysis.shapes.inference import infer_shapes
from bnfold.analysis.shapes.registered import registered_types
from bnfold.analysis.shapes.stepwise import type_of
from bnfold.analysis.shapes.uses import types_by_use
from bnfold.ir.elements import type_name
from bnfold.ir.model import Model
from bnfold.ir.registered import registered_operator
from bnfold.registered import faults
from bnfold.registered.table import all_operators


def tell_wrong_types(model: Model) -> None:
    """Tell of shape functions that say another element type than the model; they are not asked again in this run."""
    if not any(operator.shape is not None for operator in all_operators()):
        return
    model = model.clone()
    operators = {node: operator for node in model.nodes() if (operator := registered_operator(node)) is not None}
    used = types_by_use(model, model.opset())
    dtypes = {value: value.dtype or used.get(value) for node in operators for value in node.outputs if value}
    infer_shapes(model)
    for node, operator in operators.items():
        for value, kind in zip(node.outputs, registered_types(node, [*map(type_of, node.inputs)]), strict=False):
            said, wanted = (
                kind.tensor_type.elem_type if kind is not None else None,
                dtypes.get(value) if value else None,
            )
            if value is not None and said and wanted and said != wanted:
                both = f"{type_name(said)} for {value.name!r}, where the model says {type_name(wanted)}"
                text = f"the shape function of {operator.name} says {both}; it is not believed"
                faults.tell_fault(text, distrusts=operator)
