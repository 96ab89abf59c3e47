"""Mutants of what operators of ai.onnx.ml have learned: one for each number and string of their attributes.

A node needs none if the other part has an equal one. Trees are equal if they are the same function, whichever operator
stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.ir.tensor import TP
from bnfold.reference.forest import MODES, TREES, meaning_of_trees
from bnfold.verification.changes.unchanged import is_same_function
from bnfold.verification.coverage.moves import nudge
from bnfold.verification.coverage.record import Mutant
from bnfold.verification.coverage.smooth import settings

_MOST = 512
"""Numbers and strings of one node that are changed one by one; for more there is no time."""

_SMOOTH = ("LinearRegressor", "Scaler")
_AT_THRESHOLD = (("BRANCH_LEQ", "BRANCH_LT"), ("BRANCH_GTE", "BRANCH_GT"), ("BRANCH_EQ", "BRANCH_NEQ"))
_TURNED = {mode: other for pair in _AT_THRESHOLD for mode, other in (pair, pair[::-1])}
"""The mode with the other outcome at a threshold itself."""

_KINDS = {"default_float": TP.FLOAT, "default_int64": TP.INT64, "default_string": TP.STRING}
_OF_LEAVES = ("nodes_treeids", "nodes_nodeids")
"""The attributes of nodes that mean something for a leaf, too."""


def without_equal(nodes: Iterable[ir.Node], others: Iterable[ir.Node]) -> list[ir.Node]:
    """Return the nodes of the domain that have no equal among the other part's."""
    own = [node for node in nodes if node.domain == MACHINE_LEARNING]
    theirs = [node for node in others if node.domain == MACHINE_LEARNING] if own else []
    left = [node for node in own if not any(is_same_function(node, other) for other in theirs)]
    trees = [node for node in theirs if node.op_type in TREES] if left else []
    meanings = [meaning for node in trees if (meaning := meaning_of_trees(node)) is not None]
    return [node for node in left if node.op_type not in TREES or meaning_of_trees(node) not in meanings]


def mutants_of_learned(side: int, node: ir.Node) -> Iterator[Mutant]:
    """Yield a mutant for each element of the attributes that has an effect."""
    value = next(value for value in node.outputs if value is not None)
    about = f"of {node.op_type} {node.label!r}"
    changes = [(name, place, item) for name, items in _learned(node).items() for place, item in enumerate(items)]
    changes = [change for change in changes if _has_effect(node, *change[:2])]
    if len(changes) > _MOST:
        yield Mutant(side, f"the {len(changes)} settings {about}", value, _as_it_is, is_idle=True)
        return
    for name, place, item in changes:
        other = _changed(name, item)
        if other is not None:
            setting = _with(node, name, place, other)
            yield Mutant(side, f"element {place} of {name} {about}", value, attribute=name, setting=setting)


def _learned(node: ir.Node) -> dict[str, Sequence[Any]]:
    """Return the attributes that may have an effect as lists."""
    found: dict[str, Sequence[Any]] = {}
    for name, setting in settings(node).items():
        is_name = isinstance(setting, str) and name != "default_string"  # what one names shows in every result
        if is_name or _is_without_effect(node, name):
            continue
        listed = node.graph.model.tensor(setting).numpy().reshape(-1).tolist() if _is_tensor(setting) else setting
        listed = listed if isinstance(listed, list) else [listed]
        if not (node.op_type in _SMOOTH and listed and isinstance(listed[0], float)):
            found[name] = listed
    return found


def _is_tensor(setting: Any) -> bool:
    return isinstance(setting, onnx.TensorProto)


def _is_without_effect(node: ir.Node, name: str) -> bool:
    """Whether an attribute is for speed alone, or for other types than the node's."""
    made, read = node.output(0), node.input(0)
    if name in _KINDS and made is not None and made.dtype is not None:
        return _KINDS[name] != made.dtype
    if node.op_type == "Imputer" and read is not None and read.dtype is not None:
        return name.rstrip("s").endswith("int64") == (read.dtype in (TP.FLOAT, TP.DOUBLE))
    return name.startswith("nodes_hitrates") or name == "multi_class"


def _has_effect(node: ir.Node, name: str, place: int) -> bool:
    """Whether an element is one of a branch, if it is one of a node."""
    if not name.startswith("nodes_") or name in _OF_LEAVES or node.op_type == "TreeEnsemble":
        return True
    modes = settings(node).get("nodes_modes", ())
    return place < len(modes) and modes[place] != "LEAF"


def _changed(name: str, item: Any) -> Any:
    """Return another item that a result has to show; None if there is none."""
    if name == "nodes_modes":
        if isinstance(item, str):
            return _TURNED.get(item)
        return MODES.index(_TURNED[MODES[item]]) if 0 <= item < len(_TURNED) else None
    if isinstance(item, float):
        return 0.0 if np.isnan(item) else float(nudge(np.array(item)))
    if isinstance(item, str):
        return f"{item}{item}*"
    return 1 - item if name.endswith(("_true", "leafs")) else item + 1


def _with(node: ir.Node, name: str, place: int, item: Any) -> Any:
    """Return a setting with one element changed."""
    setting = settings(node)[name]
    if _is_tensor(setting):
        array = node.graph.model.tensor(setting).numpy().copy()
        array.reshape(-1)[place] = item
        return onnx.numpy_helper.from_array(array)
    if not isinstance(setting, list):
        return item
    return [*setting[:place], item, *setting[place + 1 :]]


def _as_it_is(array: Any) -> Any:
    return array
