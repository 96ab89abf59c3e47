"""Dynamic sizes of a model's inputs made static."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx

from bnfold.errors import BadSetting
from bnfold.ir.model import Model
from bnfold.ir.value import Dim, Value, written

OPTION = "fix_shapes"


def fix_inputs(model: Model, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[str, str]]:
    """Give inputs their shapes, by input or by the name of a size; the old and the new text of each that changed.

    A size with a name is the same wherever an input has that name.

    Raises:
        BadSetting: There is no such input or size, or the shape contradicts what the file fixes.
    """
    if not shapes:
        return {}
    inputs = {value.name: value for value in model.graph.inputs if not value.is_initializer}
    named = {dim for value in inputs.values() for dim in value.shape or () if isinstance(dim, str)}
    sizes = {name: shape[0] for name, shape in shapes.items() if name in named - inputs.keys() and len(shape) == 1}
    wanted = {name: tuple(shape) for name, shape in shapes.items() if name not in sizes}
    for name, shape in wanted.items():
        if name not in inputs:
            raise BadSetting(OPTION, f"the model has no input {name!r}; {_offered(inputs.values(), named)}")
        _agree(inputs[name], shape, sizes)
    changed: dict[str, tuple[str, str]] = {}
    for info in model.graph.proto.input:
        if info.name not in inputs:
            continue
        old = inputs[info.name].shape
        new = wanted.get(info.name) or _renamed(old, sizes)
        if old is not None and new == old:
            continue
        if info.name in wanted or old:
            changed[info.name] = written(old), written(new)
            info.type.CopyFrom(onnx.helper.make_tensor_type_proto(info.type.tensor_type.elem_type, new))
    model.reindex()
    return changed


def _renamed(shape: Sequence[Dim] | None, sizes: Mapping[str, int]) -> tuple[Dim, ...]:
    return tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in shape or ())


def _agree(value: Value, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Take the sizes that a shape gives to names into ``sizes``; raise BadSetting where it contradicts the file."""
    if value.type is None or not value.type.HasField("tensor_type"):
        raise BadSetting(OPTION, f"input {value.name!r} is no tensor")
    known = value.shape
    if known is None:
        return
    if len(known) != len(shape):
        ranks = f"{len(known)} sizes ({written(known)}), not {len(shape)}"
        raise BadSetting(OPTION, f"input {value.name!r} has {ranks}")
    for dim, size in zip(known, shape, strict=True):
        fixed = sizes.setdefault(dim, size) if isinstance(dim, str) else dim or size
        if fixed != size:
            what = f"{dim} is {fixed}" if isinstance(dim, str) else f"the file fixes {written(known)}"
            raise BadSetting(OPTION, f"input {value.name!r} cannot have the shape {written(shape)}: {what}")


def _offered(inputs: Iterable[Value], named: set[str]) -> str:
    values = [f"{value.name} ({written(value.shape)})" for value in inputs]
    sizes = f", its open sizes {', '.join(sorted(named))}" if named else ""
    return f"its inputs are {', '.join(values)}{sizes}"
