"""Each rewrite says how equal its result is, and those that say bit for bit are, in onnxruntime without optimising."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import bnfold
from bnfold.cli.explanation import known_operators
from bnfold.errors import BnfoldError
from bnfold.report import rewrites
from bnfold.report.reasons import Reason
from bnfold.report.rewrites import NAMED, SIMPLIFYING, Rewrite
from tests.conftest import ROOT
from tests.reference.recorded import node_cases
from tests.simplifying.small import model, simplified


def constants() -> dict[str, Rewrite]:
    return {name: value for name, value in vars(rewrites).items() if isinstance(value, Rewrite)}


def used_in(folder: str) -> set[str]:
    """The rewrites that the files of a room take from the table, by their names in the code."""
    return {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path in sorted((ROOT / "bnfold" / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
    } & constants().keys()


def test_every_name_is_short_unique_and_no_other_word() -> None:
    names = [rewrite.name for rewrite in constants().values()]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", name) for name in names)
    assert not {*names} & {reason.code for reason in Reason}
    assert not {*names} & {operator.lower() for operator in known_operators()}
    assert {*NAMED} == {*names}


def test_every_simplification_is_one_of_the_table_and_each_of_the_table_is_made() -> None:
    made = {constants()[name].name for name in used_in("simplifying")} | {rewrites.CONSTANT_STORED.name}
    assert made == {rewrite.name for rewrite in SIMPLIFYING}
    others = {
        constants()[name].name for room in ("folding", "equalize", "channels", "decomposing") for name in used_in(room)
    }
    assert others == {rewrite.name for rewrite in rewrites.FOLDING}


def test_statements_are_sentences_and_halves_of_them() -> None:
    for rewrite in NAMED.values():
        assert rewrite.what.endswith(".")
        assert not rewrite.rounds.endswith(".")
        assert "{" not in rewrite.general_title
        assert not re.search(r"\bexact", f"{rewrite.title} {rewrite.what}")


NOT_OF_REWRITES = re.compile(r"exactly (zero|between|as good)|scale\s+exactly|computed shapes, are exact")
"""What may be said to be exact: an integer, a number that a type holds."""


def said() -> Iterator[tuple[str, str]]:
    """The pages, and the texts in the code that people read."""
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield page.name, page.read_text(encoding="utf-8")
    for room in ("settings", "cli", "report", "pipeline", "simplifying", "folding", "equalize", "decomposing"):
        for path in sorted((ROOT / "bnfold" / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                    yield f"{room}/{path.name}", node.value


def test_nothing_says_exact_of_what_rounds() -> None:
    allowed = {"range_check.py", "affine.py", "identity.py", "shrink_concat.py", "static.py"}  # of numbers and counts
    wrong = [
        (place, text[found.start() - 40 : found.end() + 10])
        for place, text in said()
        if PurePath(place).name not in allowed
        for found in re.finditer(r"\bexact(ly)?\b", NOT_OF_REWRITES.sub("", text), re.IGNORECASE)
    ]
    assert wrong == []


X, Y = "float[N,4] x", "float[A,B] y"
MOST = 3
"""Conversions of each kind that are looked at."""
KINDS = {(name, False) for name in rewrites.BITWISE_FORMS} | {(name, True) for name in rewrites.BITWISE_COMPOSITIONS}
TWO = "int64[1] n = {0}, int64[1] i = {1}, int64[1] j = {2}, int64[1] k = {9}"
BRANCHES = """then_branch = t () => (float[M,4] p) { p = Exp (x) },
    else_branch = e () => (float[M,4] q) { q = Neg (x) }"""
CASES: dict[str, tuple[str, str, str]] = {
    "remove-identity": (X, "a = Identity (x) y = Relu (a)", ""),
    "inference-dropout": (X, "a = Dropout (x) y = Relu (a)", ""),
    "cast-to-own-type": (X, "a = Cast <to = 1> (x) y = Relu (a)", ""),
    "cast-pair": (X, "a = Relu (x) b = Cast <to = 11> (a) c = Cast <to = 1> (b) y = Neg (c)", ""),
    "cast-after-cast": (X, "a = Cast <to = 11> (x) b = Cast <to = 10> (a) y = Cast <to = 1> (b)", ""),
    "castlike-cast": (X, "a = Abs (x) b = Cast <to = 10> (a) c = CastLike (x, b) y = Cast <to = 1> (c)", ""),
    "fill-cast": (
        X,
        "s = Shape (x) f = ConstantOfShape <value = int64[1] {3}> (s) c = Cast <to = 1> (f) y = Add (c, x)",
        "",
    ),
    "bounds-clip": (X, "a = Max (x, p) y = Min (a, q)", "float p = {0.5}, float q = {6}"),
    "neutral-operand": (X, "a = Mul (x, o) b = Sub (a, p) y = Neg (b)", "float o = {1}, float p = {0}"),
    "where-one-side": (X, "a = Where (c, x, o) y = Neg (a)", "bool[1] c = {1}, float o = {2}"),
    "single-operand": (X, "a = Sum (x) b = Concat <axis = 0> (a) y = Neg (b)", ""),
    "slice-all": (X, "a = Slice (x, n, k, i) y = Neg (a)", TWO),
    "pad-nothing": (X, "a = Pad (x, p) y = Neg (a)", "int64[4] p = {0, 0, 0, 0}"),
    "same-shape": (X, "a = Reshape (x, p) y = Neg (a)", "int64[2] p = {0, 4}"),
    "expand-nothing": (X, "a = Expand (x, p) b = Tile (a, p) y = Neg (b)", "int64[2] p = {1, 1}"),
    "transpose-nothing": (X, "a = Transpose <perm = [0, 1]> (x) y = Neg (a)", ""),
    "size-known": (
        X,
        "s = Shape (x) b = Slice (s, n, i) t = Concat <axis = 0> (b, j, j) y = Reshape (x, t)",
        TWO,
    ),
    "reshape-pair": (X, "a = Unsqueeze (x, n) b = Squeeze (a, n) y = Neg (b)", TWO),
    "reshape-after-reshape": (
        X,
        "a = Reshape (x, p) y = Reshape (a, q)",
        "int64[3] p = {0, 2, 2}, int64[3] q = {-1, 4, 1}",
    ),
    "squeeze-pair": (
        X,
        "r = Compress <axis = 0> (x, b) s = Compress <axis = 1> (r, b) a = Unsqueeze (s, n) y = Unsqueeze (a, i)",
        f"bool[3] b = {{1, 0, 1}}, {TWO}",
    ),
    "pick-one": (X, "a = Gather <axis = 1> (x, p) y = Unsqueeze (a, q)", "int64 p = {2}, int64[1] q = {1}"),
    "unsqueeze-concat": (
        X,
        "p = Neg (x) q = Abs (x) a = Unsqueeze (p, e) b = Unsqueeze (q, e) y = Concat <axis = 1> (a, b)",
        "int64[1] e = {1}",
    ),
    "transpose-pair": (X, "a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a) y = Neg (b)", ""),
    "transpose-after-transpose": (
        "float[N,2,3] x",
        "a = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 2, 0]> (a)",
        "",
    ),
    "transpose-joined-axes": (
        "float[2,3,4,5] x",
        "a = Reshape (x, p) b = Transpose <perm = [0, 2, 1]> (a) y = Reshape (b, q)",
        "int64[3] p = {6, 4, 5}, int64[4] q = {2, 3, 5, 4}",
    ),
    "slice-after-slice": ("float[4,4] x", "a = Slice (x, n, j, i) y = Slice (a, i, k, n)", TWO),
    "concat-after-concat": (X, "a = Concat <axis = 0> (x, x) y = Concat <axis = 0> (a, x)", ""),
    "empty-operand": (X, "y = Concat <axis = 0> (x, e, x)", "float[0,4] e = {}"),
    "reduction-axes": (X, "a = ReduceSum <keepdims = 0> (x, i) b = Unsqueeze (a, i) y = Sub (x, b)", TWO),
    "expand-broadcast": (X, "s = Shape (x) m = ReduceMax (x) e = Expand (m, s) y = Div (x, e)", ""),
    "zero-states": (
        "float[5,1,4] x",
        'h = ConstantOfShape (s) y = LSTM <hidden_size = 3> (x, w, r, "", "", h, h)',
        "int64[3] s = {1, 1, 3}",
    ),
    "duplicate-node": (X, "a = Sqrt (x) b = Sqrt (x) y = Add (a, b)", ""),
    "if-decided": (
        X,
        f"y = If (c) <{BRANCHES}>",
        "bool c = {1}",
    ),
    "known-integers": ("float[5,4] x", "s = Size (x) m = Mul (s, s) c = Cast <to = 1> (m) y = Add (c, x)", ""),
    "unread-node": (X, "a = Neg (x) y = Relu (x)", ""),
    "unread-result": (
        X,
        """m = ReduceSum <keepdims = 0> (x) c = Greater (m, zero)
        d, y = If (c) <then_branch = t () => (float[M,K] p, float[M,K] q) { p = Exp (x) q = Neg (x) },
        else_branch = e () => (float[M,K] r, float[M,K] s) { r = Cos (x) s = Abs (x) }>""",
        "float zero = {0}",
    ),
    "unread-weight": (X, "y = Relu (x)", "float[2] w = {1, 2}"),
    "constant-node": (X, "a = Constant <value = float[1] {0.3}> () y = Div (x, a)", ""),
}
"""A model in which each rewrite that says bit for bit is made."""
BROADCASTING = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod <fmod = 1>", "Mean", "Sum")
REDUCING = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin")
REDUCING_TOO = ("ReduceProd", "ReduceSumSquare")
BOUNDS = (("Relu (x)", "Min (a, q)"), ("Min (q, x)", "Relu (a)"), ("Clip (x, p)", 'Clip (a, "", q)'))
VARIANTS: list[tuple[str, tuple[str, str, str]]] = [
    *CASES.items(),
    *(
        ("expand-broadcast", (X, f"s = Shape (x) m = ReduceMax (x) e = Expand (m, s) y = {operator} ({order})", ""))
        for operator in BROADCASTING
        for order in ("x, e", "e, x")
        if (operator, order) != ("Pow", "x, e")
    ),
    *(
        ("reduction-axes", (X, f"a = {name} <axes = [1], keepdims = 0> (x) b = Unsqueeze (a, i) y = Sub (x, b)", TWO))
        for name in (*REDUCING, *REDUCING_TOO)
    ),
    *(("bounds-clip", (X, f"a = {first} y = {second}", "float p = {-1.5}, float q = {6}")) for first, second in BOUNDS),
]


def test_every_rewrite_that_says_bit_for_bit_is_shown_to_be() -> None:
    assert CASES.keys() == {rewrite.name for rewrite in SIMPLIFYING if rewrite.is_bitwise}
    assert {rewrite.name for rewrite in rewrites.FOLDING if rewrite.is_bitwise} == set()


def test_the_exponent_of_a_power_stays_expanded() -> None:
    """A runtime may multiply for one number, and call another function for many."""
    body = "s = Shape (x) m = ReduceMax (x) e = Expand (m, s) y = Pow (x, e)"
    _, report = simplified(model(f"({X}) => ({Y})", body))
    assert not report.rewrites


def filled(shape: tuple[int, ...], seed: int, *, special: bool) -> Any:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(np.float32)
    if special:
        kinds = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4e38], np.float32)
        places = rng.random(shape) < 0.4
        x[places] = rng.choice(kinds, int(places.sum()))
    return x


def run(proto: onnx.ModelProto, x: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def bits(array: Any) -> bytes:
    """The bytes, with one NaN for all."""
    kept = np.where(np.isnan(array), np.float32(np.nan), array)
    return bytes(np.ascontiguousarray(kept).tobytes())


@pytest.mark.parametrize(("name", "case"), VARIANTS, ids=[f"{name}: {body[:50]}" for name, (_, body, _) in VARIANTS])
def test_results_are_equal_bit_for_bit(name: str, case: tuple[str, str, str]) -> None:
    inputs, body, stored = case
    if "i)" in body and not stored:
        stored = TWO
    before = model(f"({inputs}) => ({Y})", body, stored)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    if name == "zero-states":
        rng = np.random.default_rng(0)
        for weight, shape in (("w", (1, 12, 4)), ("r", (1, 12, 3))):
            before.graph.initializer.append(
                onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), weight)
            )
    if name == "constant-node":
        outcome = bnfold.optimize(before, verify=bnfold.VerifyOptions(depth="none"))
        after, report = outcome.to_proto(), outcome.report
    else:
        after, report = simplified(before)
    assert name in {row.rewrite.name for row in report.rewrites}
    dims = [dim.dim_value or 5 for dim in before.graph.input[0].type.tensor_type.shape.dim]
    for seed in range(6):
        x = filled(tuple(dims), seed, special=seed > 2)
        assert bits(run(before, x)) == bits(run(after, x)), f"seed {seed}"


def changed(outcome: bnfold.Outcome) -> list[tuple[str, bool]]:
    """The operators that a conversion changed, and whether it decomposed them."""
    rows = outcome.report.conversion
    forms = [(row["operator"], False) for row in rows if row["respelled"]]
    return forms + [(row["operator"], True) for row in rows if row["spelled_out"]]


def results(proto: onnx.ModelProto, fed: dict[str, Any]) -> list[bytes] | None:
    """The bits of all outputs; None if onnxruntime does not run the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [each.tobytes() for each in session.run(None, fed)]
    except Exception:  # noqa: BLE001 - it has errors of many kinds, and no kernel for some types
        return None


def conversions(proto: onnx.ModelProto, fed: dict[str, Any], target: int) -> Iterator[tuple[tuple[str, bool], bool]]:
    """Convert a model down and up again; yield what alone was changed, and whether all results have the same bits."""
    before = results(proto, fed)
    for opset in (target, 21):
        try:
            outcome = bnfold.convert(proto, target_opset=opset, verify=bnfold.VerifyOptions(depth="none"))
        except BnfoldError:
            return
        proto, kinds = outcome.to_proto(), changed(outcome)
        after = results(proto, fed)
        if before is None or after is None:
            return
        if len(kinds) == 1:
            yield kinds[0], before == after
        before = after


@pytest.mark.large
def test_conversions_that_say_bit_for_bit_are() -> None:
    """The tests of onnx's own nodes, converted down and up again."""
    left = dict.fromkeys(KINDS, MOST)
    wrong = []
    for case in node_cases():
        if not any(count and key[0] in case.operators for key, count in left.items()):
            continue
        for target in (17, 12, 9, 7):
            for kind, is_same in conversions(case.model, case.feeds, target):
                left[kind] = max(left.get(kind, 0) - 1, 0)
                if not is_same and kind in KINDS:
                    wrong.append((case.name, target, kind))
    assert wrong == []
    assert {kind for kind in KINDS if left[kind] == MOST} == set()
