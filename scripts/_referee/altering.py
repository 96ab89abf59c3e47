"""Alterations of Python code, one expression at a time: where one is possible, and the code with it.

Annotations, docstrings, messages and assertions stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

Change = tuple[str, tuple[int, int], ast.AST]
"""The kind, the line and column, and what takes the node's place."""
Changes = Callable[[ast.AST], Iterator[Change]]

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
"""Operators that do not commute."""
AXES = frozenset({"transpose", "moveaxis", "swapaxes", "reshape"})
LEAVING = (ast.Return, ast.Continue, ast.Break, ast.Raise)
SKIPPED_FIELDS = frozenset({"annotation", "returns", "type_params"})
SKIPPED_NODES = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
FACTOR = 10


class Alteration(NamedTuple):
    """One alteration of a file (relative to the checkout), and what it does, for people.

    ``statement`` is the line where its statement begins; 0 outside of functions, where imports alone run.
    """

    file: str
    line: int
    column: int
    kind: str
    text: str
    statement: int

    @property
    def label(self) -> str:
        """As ``--only`` takes it."""
        return f"{self.file}:{self.line}:{self.column}:{self.kind}"

    @property
    def module(self) -> str:
        """The name that imports give to the file."""
        return module(self.file)


def module(file: str) -> str:
    """Return the name that imports give to a file (relative to the checkout)."""
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def alterations(root: Path, file: str, changes: Changes) -> list[Alteration]:
    """Return every alteration of one file."""
    return [alteration for alteration, _, _ in _sites(_parse(root / file), file, changes)]


def altered(root: Path, alteration: Alteration, changes: Changes) -> ast.Module:
    """Return the file's code with the alteration."""
    tree = _parse(root / alteration.file)
    for other, replace, new in _sites(tree, alteration.file, changes):
        if other.label == alteration.label:
            replace(new)
            return ast.fix_missing_locations(tree)
    raise KeyError(alteration.label)


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _sites(tree: ast.Module, file: str, changes: Changes) -> Iterator[tuple[Alteration, Callable[[Any], None], Any]]:
    statements = _statements(tree)
    for node, replace in list(_walk(tree)):
        for kind, (line, column), new in changes(node):
            text = f"{_shown(node)} → {_shown(new)}"
            yield Alteration(file, line, column, kind, text, statements.get(node, 0)), replace, new


def _statements(tree: ast.Module) -> dict[ast.AST, int]:
    """Return the first line of the innermost statement, or lambda, that each node inside of functions belongs to."""
    found: dict[ast.AST, int] = {}
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef | ast.Lambda):
            for part in outer.body if isinstance(outer, ast.FunctionDef) else [outer.body]:
                found |= dict.fromkeys(ast.walk(part), outer.lineno)
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt):
            found |= {node: statement.lineno for node in ast.walk(statement) if node in found}
    return found


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node.test) if isinstance(node, ast.If) else ast.unparse(node)
    return text if len(text) < 100 else f"{text[:97]}…"


def _walk(node: ast.AST) -> Iterator[tuple[ast.AST, Callable[[Any], None]]]:
    """Yield the nodes below one, and what puts another in the place of each."""
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS:
            continue
        if isinstance(value, ast.AST) and not isinstance(value, SKIPPED_NODES):
            yield value, _setter(node, field)
            yield from _walk(value)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST) and not isinstance(item, SKIPPED_NODES) and not _is_idle(item):
                    yield item, _placer(value, index)
                    yield from _walk(item)


def _setter(node: ast.AST, field: str) -> Callable[[Any], None]:
    return lambda new: setattr(node, field, new)


def _placer(items: list[Any], index: int) -> Callable[[Any], None]:
    def place(new: Any) -> None:
        items[index] = new

    return place


def _is_idle(node: ast.AST) -> bool:
    """Whether a statement is a docstring, or for type checkers alone."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"))


def expressions(node: ast.AST) -> Iterator[Change]:
    """Yield comparisons, signs, constants, guards, operands and axes that may be wrong."""
    for kind in (_comparisons, _signs, _constants, _guards, _axes):
        yield from kind(node)


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _comparisons(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for index, (operator, left) in enumerate(zip(node.ops, [node.left, *node.comparators], strict=False)):
            new = deepcopy(node)
            new.ops[index] = COMPARED[type(operator)]()
            yield "compare", _end(left), new


def _signs(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign", _start(node), node.operand
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add | ast.Sub):
            new = deepcopy(node)
            new.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "sign", _end(node.left), new
        if isinstance(node.op, ORDERED):
            yield "operands", _end(node.left), ast.BinOp(node.right, node.op, node.left)


def _constants(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for step in (1, -1):
            yield f"constant{step:+}", _start(node), ast.Constant(node.value + step)


def _guards(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", _start(node), node.operand
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], LEAVING):
        new = deepcopy(node)
        new.test = ast.Constant(False)
        yield "guard", _start(node), new
    if isinstance(node, ast.BoolOp):
        for index, operand in enumerate(node.values):
            left = node.values[:index] + node.values[index + 1 :]
            kept = ast.BoolOp(node.op, left) if left[1:] else left[0]
            yield "and" if isinstance(node.op, ast.And) else "or", _start(operand), kept
    if isinstance(node, ast.comprehension):
        for index, test in enumerate(node.ifs):
            fewer = deepcopy(node)
            del fewer.ifs[index]
            yield "filter", _start(test), fewer


def _axes(node: ast.AST) -> Iterator[Change]:
    """Yield tuples of numbers in another order, and calls that order axes with two arguments swapped."""
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        first, second = node.elts[:2]
        if all(_is_number(each) for each in (first, second)) and ast.dump(first) != ast.dump(second):
            new = deepcopy(node)
            new.elts[:2] = [second, first]
            yield "axes", _start(node), new
    if _orders_axes(node) and len(node.args) > 1 and not any(isinstance(each, ast.Starred) for each in node.args):
        call = deepcopy(node)
        call.args[-2:] = [node.args[-1], node.args[-2]]
        yield "axes", _end(node.func), call


def _orders_axes(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in AXES


def _is_number(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.lstrip("-").isdigit() or any(word in text for word in ("axis", "axes", "rank", "ndim"))


def literals(node: ast.AST) -> Iterator[Change]:
    """Yield numbers ten times as large and as small; whole numbers stay whole."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value:
        number: Any = node.value
        smaller = number // FACTOR if isinstance(number, int) else number / FACTOR
        for kind, value in (("larger", number * FACTOR), ("smaller", smaller)):
            yield kind, _start(node), ast.Constant(value)
