"""What helps where a claim is open or differs, said of the two models at hand; `--explain` and `next:` say the same.

A model may also be meant to differ: a float16 or an int8 version of a float model is recognised.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

import onnx

from bnfold import ir
from bnfold.errors import MistypedAttribute
from bnfold.settings import VerifyOptions
from bnfold.verification.changes.interface import interface_fault
from bnfold.verification.claims import Evidence
from bnfold.verification.codes import FAILED, MEANINGS, UNVERIFIED, VERIFIED, Code
from bnfold.verification.tolerance.discontinuities import cast_target
from bnfold.verification.verdict import Verdict

DIFFERENCES = (Code.DIFFERS, Code.NOT_EQUAL, Code.OTHER_FORM, Code.DOES_NOT_RUN, Code.LESS_PRECISE)
"""Codes of differences; in a part of models that agree as a whole they leave a doubt."""

_NEEDS_INPUTS = (Code.HIDDEN, Code.NO_REACTION, Code.COARSE, Code.NEVER_FINITE)
_NEEDS_SIZES = (Code.NO_FIT, Code.TOO_LARGE, Code.TIME, Code.MEMORY, Code.EMPTY)
_NEEDS_WHOLE = (Code.ONE_SIDED, Code.PROMISE)
_OWN_RUNTIME = "compare the result in your own runtime"
_FEW = 6
"""Names in a list."""

_T = onnx.TensorProto

_HALVES = {_T.FLOAT16: "float16", _T.BFLOAT16: "bfloat16"}

_QUANTIZED = re.compile("uantize|QLinear|Integer|^QGemm|^QAttention|NBits")
"""Operators on quantized numbers, of any domain."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """What helps with claims about two models.

    Attributes:
        verdict: The verdict on them.
        checks: How they were compared.
        before: The original; None if it is no ONNX model.
        is_own: Whether bnfold made the other model.
    """

    verdict: Verdict
    checks: VerifyOptions
    before: ir.Model | None
    is_own: bool = False

    def of(self, code: Code | None, row: Evidence | None = None) -> str:  # noqa: PLR0911 - one a kind of remedy
        """Return what a caller can do about a claim, or with no ``row`` about the verdict; empty if nothing."""
        if code in VERIFIED or (row is not None and row.status == "verified"):
            return ""
        if (code in FAILED and code not in UNVERIFIED) or (row is None and self.verdict.status == "failed"):
            return self._reproduce(code, row)
        if code is None:
            return _OWN_RUNTIME
        seconds = row.data.get("verify_seconds") if row is not None and code is Code.TIME else None
        if isinstance(seconds, int | float) and seconds > self.checks.verify_seconds:
            return f"raise the limit with --verify-seconds {seconds}"
        if row is not None and row.data.get("operator") and code in (Code.NO_KERNEL, Code.NOT_COMPUTED):
            return _operator_missing(code, row)
        body = self._body(row)
        if body and code in (*_NEEDS_INPUTS, *_NEEDS_WHOLE):
            return f"give recorded inputs that reach {body} with {self._data}; if no input does, it has no effect"
        if code in _NEEDS_INPUTS:
            value = f" that change value {row.outputs[0]!r}" if row is not None and row.prover == "part" else ""
            look = "; if none do, look at what has changed with bnfold diff" if code is Code.HIDDEN else ""
            return f"give recorded inputs{value} with {self._data}{look}"
        if code in _NEEDS_SIZES:
            return self._give_sizes(code)
        if code in _NEEDS_WHOLE and self.checks.depth == "full":
            return _OWN_RUNTIME
        text = MEANINGS[code].remedy
        text = re.sub(r"--input( NAME=N,…)?", lambda _: self._sizes, text)
        return _lowercase(text.replace("--data", self._data)) or _OWN_RUNTIME

    def _body(self, row: Evidence | None) -> str:
        """Return the branch or body that the claim is about; that on the whole models is about what changed."""
        if row is None or row.prover not in ("whole", "runtime"):
            return row.graph if row is not None else ""
        graphs = {part.graph for part in self.verdict.ledger if part.prover == "part"}
        return graphs.pop() if len(graphs) == 1 else ""

    @property
    def _data(self) -> str:
        inputs = self.before.required_inputs() if self.before is not None else []
        more = f" and {len(inputs) - _FEW} more" if len(inputs) > _FEW else ""
        arrays = ", ".join(f"{value.name} ({_shape(value)})" for value in inputs[:_FEW])
        return f"--data (an .npz file with {arrays}{more})" if inputs else "--data"

    @property
    def _dynamic(self) -> list[ir.Value]:
        """The inputs whose shape has dynamic sizes that no option gives."""
        inputs = self.before.required_inputs() if self.before is not None else []
        return [value for value in inputs if value.name not in self.checks.inputs and is_dynamic(value)]

    @property
    def _sizes(self) -> str:
        words = [f"--input {shlex.quote(value.name)}={_shape(value)}" for value in self._dynamic[:_FEW]]
        return " ".join(words) or "--input NAME=N,…"

    def _give_sizes(self, code: Code) -> str:
        if self._dynamic:
            return f"give sizes that the model takes with {self._sizes}, or recorded inputs with {self._data}"
        if code in (Code.NO_FIT, Code.EMPTY):
            mend = "; if the original runs on none, mend it first" if code is Code.NO_FIT else ""
            return f"give recorded inputs with {self._data}{mend}"
        runtime = self.checks.runtime if self.checks.runtime != "none" else "a runtime"
        return f"compare both models on your own inputs in {runtime}, on a machine that has the time and memory"

    def _reproduce(self, code: Code | None, row: Evidence | None) -> str:
        """Say how to reproduce a difference that no option mends."""
        if code is Code.DIFFERS and self.checks.tolerance is not None:
            return "give a larger --tolerance, if an error of this size will do"
        if code is Code.TOO_OLD:
            return _lowercase(MEANINGS[code].remedy)
        if code is Code.INTERFACE and not self.is_own:
            return "compare models of one interface: the same names, types and shapes of inputs and outputs"
        if code in (Code.INTERFACE, Code.INVALID, Code.REFUSED):
            if not self.is_own:
                return "mend AFTER: the verdict says what is wrong with the file, whatever it computes"
            return "--keep-failed FILE saves the result, to load it elsewhere; please report this bug of bnfold with it"
        row = row if row is not None and row.prover == "part" else self._differing
        value = row.outputs[0] if row is not None and row.prover == "part" else self._first_value(row)
        words = f"--explain {shlex.quote(value)} --save DIR" if value else "--explain --save DIR"
        mine = "; please report this bug of bnfold with them" if self.is_own else ""
        inside = row is not None and row.graph and self.verdict.status != "failed"
        body = f"; the difference has no effect if no input reaches {row.graph}" if row is not None and inside else ""
        folder = self.checks.save
        is_saved = folder is not None and self.checks.explain in ("", value) and (folder / "before.onnx").is_file()
        where = f"{folder} has" if is_saved else f"{words} writes"
        return f"{where} two small models and inputs on which they differ{mine}{body}"

    @property
    def _differing(self) -> Evidence | None:
        """A claim that differs; a part names the value where the difference begins."""
        rows = [row for row in self.verdict.ledger if row.status != "verified" and row.outputs]
        rows = [row for row in rows if row.status == "failed" or row.code in DIFFERENCES]
        return min(rows, key=lambda row: row.prover != "part", default=None)

    def _first_value(self, row: Evidence | None) -> str:
        if self.verdict.localised is not None:
            return self.verdict.localised.tensor
        if row is not None:
            return row.outputs[0]
        return next((output.name for output in self.verdict.outputs if output.fault), "")


def is_dynamic(value: ir.Value) -> bool:
    """Whether it is a tensor that has no shape, or dynamic sizes."""
    is_tensor = value.type is None or value.type.HasField("tensor_type")
    return is_tensor and (value.shape is None or not all(isinstance(dim, int) and dim > 0 for dim in value.shape))


def _shape(value: ir.Value) -> str:
    if value.shape is None:
        return "N,…"
    return ",".join("N" if size is None else str(size) for size in value.shape)


def _operator_missing(code: Code, row: Evidence) -> str:
    operator, version, node = (row.data.get(key) for key in ("operator", "version", "node"))
    which = f"{operator}{f'-{version}' if version else ''} in node {node!r}"
    lacks = "no kernel computes" if code is Code.NO_KERNEL else "bnfold does not compute"
    return f"{lacks} {which}: compare both models on your own inputs in a runtime that has the operator"


def _lowercase(text: str) -> str:
    return f"{text[:1].lower()}{text[1:].removesuffix('.')}"


def narrower_type(before: ir.Model, after: ir.Model) -> str:
    """Return the type that the second model computes in, and the first does not: int8, float16; empty if none."""
    if interface_fault(before, after, any_float=True):
        return ""
    if _is_quantized(after) and not _is_quantized(before):
        return "int8"
    try:
        had, has = _types(before), _types(after)
    except MistypedAttribute:  # of a damaged Cast
        return ""
    for dtype, name in _HALVES.items():
        if dtype in has - had and had & {_T.FLOAT, _T.DOUBLE}:
            return name
    return ""


def _is_quantized(model: ir.Model) -> bool:
    return any(_QUANTIZED.search(node.op_type) for node in model.nodes())


def _types(model: ir.Model) -> set[int | None]:
    """Return the element types of inputs, outputs and stored weights, and those that a Cast makes."""
    casts = {cast_target(node) for node in model.nodes() if node.is_op("Cast") and not node.has_references}
    stored = (value for graph in model.graphs() for value in graph.values.values() if value.holds_constant)
    values = (*model.graph.inputs, *model.graph.outputs, *stored)
    return {value.dtype for value in values} | casts
