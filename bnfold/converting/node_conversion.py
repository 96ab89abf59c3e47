"""Where an adapter works: one node, the opset it is to reach, and the few edits that adapters are made of.

Everything an adapter adds, or turns the node into, has the form of one opset, `FORM`, whatever the target is. If the
target is lower, those nodes are lowered as all others are, so that no adapter asks what the target has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bnfold import analysis, ir
from bnfold.converting.context import ConversionContext, Inexpressible, UnknownType, numeric_type
from bnfold.ir.forms import form_of
from bnfold.ir.schemas import version_at
from bnfold.ir.value import Dims
from bnfold.semantics import Repair

INT64_MAX = 2**63 - 1
FORM = 18
"""The opset whose forms adapters write. Later versions of what they add take these as well."""
NEGATIVE_AXES_SINCE = 11
"""The opset from which on every operator counts negative axes from the end."""


def is_of_target(op_type: str, opset: int, target: int) -> bool:
    """Whether a node of ``opset`` has the form of ``target`` as it stands."""
    version = version_at(op_type, target)
    return version is not None and version == version_at(op_type, opset) and target >= NEGATIVE_AXES_SINCE


Adapter = Callable[["NodeConversion"], None]
"""What brings a node over one version step."""


class NodeConversion:
    """One node on its way to the target opset.

    Attributes:
        label: How messages name the node, whatever becomes of its outputs.
        opset: The opset whose forms added nodes have.
        node: The node; adapters keep it, as what computes the essential part, and its message.
        finished: Set when the node is to go through no further steps of its own operator.
        became: Set when an adapter has turned the node into another operator, which is still to be lowered.
        replaced: Set when the node is gone, and others compute what it did.
        added: The nodes that adapters have put around it.
        behind: Those of them that follow it: they are lowered after it.
        older: On the way down, the version that an adapter is to bring the node to; None if there is none.
        touched: Set when the computation changed its form, so that it is worth comparing.
    """

    def __init__(self, node: ir.Node, context: ConversionContext) -> None:
        self.node = node
        self.graph = node.graph
        self.context = context
        self.target = context.target
        self.opset = context.target if context.lower is None else FORM
        self.policy = context.policy
        self.finished = False
        self.became = False
        self.touched = False
        self.replaced = False
        self.added: list[ir.Node] = []
        self.behind: list[ir.Node] = []
        self.older: int | None = None
        self._last = node
        self.label = node.label  # that of a node without a name changes with its outputs

    # -- what is known

    def shape(self, value: ir.Value) -> Dims | None:
        """Return dims as far as known; None for an unknown rank."""
        return self.context.types.shape(value)

    def rank(self, value: ir.Value) -> int:
        """Return number of axes. Raises Inexpressible where it is not known."""
        rank = self.context.types.rank(value)
        if rank is None:
            raise UnknownType(f"the rank of {value.name!r} is not known", value)
        return rank

    def dtype(self, value: ir.Value) -> int:
        """Return element type. Raises Inexpressible where it is not known."""
        dtype = self.context.types.dtype(value)
        if dtype is None:
            raise UnknownType(f"the element type of {value.name!r} is not known", value)
        return dtype

    def input(self, index: int) -> ir.Value:
        """Return input ``index``. Raises Inexpressible where the node does not have it."""
        value = self.node.input(index)
        if value is None:
            raise Inexpressible(f"has no input {index}")
        return value

    def output(self) -> ir.Value:
        """Return the first output. Raises Inexpressible where the node does not name it."""
        value = self.node.output(0)
        if value is None:
            raise Inexpressible("does not name its output")
        return value

    def known(self, value: ir.Value | None) -> ir.Tensor | None:
        """Return the tensor that ``value`` is in every run, as `ConversionContext.known`."""
        return self.context.known(value)

    def numbers(self, value: ir.Value, what: str) -> list[int]:
        """Return the integers that ``value`` holds in every run. Raises Inexpressible if it is computed from data."""
        tensor = self.known(value)
        if tensor is None:
            raise Inexpressible(f"{what} ({value.name!r}) is not constant")
        values = tensor.numpy().reshape(-1)
        if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
            raise Inexpressible(f"{what} ({value.name!r}) is no number")
        return [int(element) for element in values]

    @contextmanager
    def computing(self, value: ir.Value, what: str) -> Iterator[None]:
        """Compute with a value that is not constant; where that cannot be lowered, the message says so."""
        try:
            yield
        except UnknownType:
            raise
        except Inexpressible as error:
            raise Inexpressible(f"{what} ({value.name!r}) is not constant; {error}") from error

    # -- attributes

    def take(self, name: str, default: Any = None) -> Any:
        """Remove attribute ``name`` and return its value. Raises Unsupported for the enclosing function's parameter."""
        value = self.node.attr(name, default)
        self.node.del_attr(name)
        return value

    # -- edits

    def constant(self, array: np.ndarray[Any, Any], hint: str) -> ir.Value:
        """Return a constant of this graph; equal ones of one upgrade are stored once."""
        return self.context.constant(self.graph, array, f"{self.node.label}_{hint}")

    def ints(self, values: Sequence[int], hint: str) -> ir.Value:
        """Return a 1-D int64 constant."""
        return self.constant(np.array(values, np.int64), hint)

    def scalar(self, value: float, like: ir.Value, hint: str) -> ir.Value:
        """Return a rank-0 constant of the element type of ``like``."""
        return self.constant(np.array(value).astype(numeric_type(self.dtype(like))), hint)

    def add(self, op_type: str, inputs: Sequence[ir.Value | None], output: str | ir.Value, **attrs: Any) -> ir.Value:
        """Add a node in front of this one, which makes ``output``, or a fresh value with this hint in its name."""
        self.touched = True
        made = self.graph.fresh(f"{self.node.label}_{output}") if isinstance(output, str) else output
        name = self.node_name(output if isinstance(output, str) else op_type.lower())
        added = self.graph.insert(op_type, inputs, [made], before=self.node, name=name, **attrs)
        self.added.append(added)
        if self.context.lower is not None:
            self.context.lower(self, added)
        return made

    def append(self, op_type: str, inputs: Sequence[ir.Value | None], output: ir.Value, **attrs: Any) -> None:
        """Insert a node behind this one and earlier appended nodes; it takes over ``output``, a value of this node."""
        self.touched = True
        name = self.node_name(op_type.lower())
        self._last = self.graph.insert(op_type, inputs, [output], after=self._last, name=name, **attrs)
        self.added.append(self._last)
        self.behind.append(self._last)

    def become(self, op_type: str, inputs: Sequence[ir.Value | None], **attrs: Any) -> None:
        """Turn the node into another operator; it produces the first output."""
        for name in self.node.attrs:
            self.node.del_attr(name)
        self.node.set_op_type(op_type)
        self.node.set_inputs(inputs)
        for name, value in attrs.items():
            self.node.set_attr(name, value)
        self.touched = self.finished = self.became = True

    def node_name(self, hint: str) -> str:
        """Return a name for a node that is added here."""
        return self.graph.model.fresh_node_name(f"{self.label}_{hint}")

    def divert(self, index: int, hint: str) -> ir.Value:
        """Let the node produce a fresh value at ``index``, and return it. `append` then has to produce the old one."""
        fresh = self.graph.fresh(f"{self.node.label}_{hint}")
        self.node.set_output(index, fresh)
        return fresh

    def repair(self, kind: str, text: str) -> None:
        """Report something that was decided or corrected here."""
        self.context.repairs.append(Repair(kind, self.node.label, text))

    # -- common forms

    def reshape(self, value: ir.Value, dims: Sequence[int], hint: str) -> ir.Value:
        """Return ``value`` in other dims.

        A constant is stored in them, under its own name if it has no other consumer.
        """
        tensor = analysis.constant(value) if value.is_initializer else None
        if tensor is None or -1 in dims or 0 in dims:
            return self._reshape_node(value, dims, hint)
        return self.context.in_dims(self.graph, value, tensor, dims)

    def _reshape_node(self, value: ir.Value, dims: Sequence[int], hint: str) -> ir.Value:
        dims = [dim if dim <= INT64_MAX else -1 for dim in dims]  # what a damaged file declares
        return self.add("Reshape", [value, self.ints(dims, "shape")], hint)

    def restore_shape(self, value: ir.Value, like: ir.Value, output: ir.Value) -> None:
        """Insert a Reshape of ``value`` to the shape of ``like`` behind this node, which produces ``output``.

        A Shape node is added only for unknown dims. A declared size of 0 counts as unknown, because some exporters mean
        that.
        """
        shape = self.shape(like)
        dims = None if shape is None else [dim if isinstance(dim, int) and dim else -1 for dim in shape]
        if dims is not None and dims.count(-1) <= 1:
            self.append("Reshape", [value, self.ints(dims, "shape")], output)
            return
        if like in self.context.disputed:  # then onnxruntime puts what it has inferred in the place of a Shape
            raise Inexpressible(f"runtimes infer other sizes of {like.name!r} than they make")
        self.append("Reshape", [value, self.add("Shape", [like], "shape")], output, allowzero=1)

    def reduce_mean(
        self, value: ir.Value, axes: Sequence[int], output: str | ir.Value, *, keepdims: int = 0
    ) -> ir.Value:
        """Add the mean over ``axes``."""
        return self.along("ReduceMean", value, axes, output, keepdims=keepdims)

    def along(
        self, op_type: str, value: ir.Value, axes: Sequence[int], output: str | ir.Value, **attrs: Any
    ) -> ir.Value:
        """Add an operator whose ``axes`` are an attribute in old versions, and an input since."""
        if "axes" in form_of(op_type, version_at(op_type, self.opset) or 1).attributes:
            return self.add(op_type, [value], output, axes=list(axes), **attrs)
        return self.add(op_type, [value, self.ints(axes, "axes")], output, **attrs)

    def sliced(self, value: ir.Value, axis: int, start: int, end: int) -> ir.Value:
        """Add a Slice of one axis, which is counted from the front."""
        bounds = [self.ints([number], what) for number, what in ((start, "start"), (end, "end"), (axis, "axis"))]
        return self.add("Slice", [value, *bounds], "part")
