"""Rewrites that are left out by their names: each alone, and nothing else with it."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from click.testing import CliRunner

import bnfold
from bnfold.cli.commands import main
from bnfold.errors import BadSetting
from bnfold.passes import SimplifyPass
from bnfold.report.reasons import Reason
from bnfold.report.rewrites import NAMED, SIMPLIFYING
from bnfold.settings import Options, VerifyOptions
from tests.report.test_rewrites import CASES, TWO
from tests.simplifying.small import model

IMAGE, ANY = "float[2,2,5,5] x", "float[A,B,C,D] y"
ROWS = "float[N,4] x"
NORM = "float[2] s = {2, 3}, float[2] b = {1, 2}"
KERNEL = "float[2,2,1,1] w = {1, 2, 3, 4}"
AROUND = "int64[8] q = {0, 0, 1, 1, 0, 0, 1, 1}"
GROUPS = "int64[3] g = {2, 2, -1}, float[2] o = {1, 1}, float[2] z = {0, 0}, int64[4] d = {2, 4, 3, 3}"
PER_CHANNEL = "float[4,1,1] s = {2, 3, 4, 5}, float[4,1,1] b = {1, 2, 3, 4}"
GROUPED = "r = Reshape (x, g) n = InstanceNormalization (r, o, z) t = Reshape (n, d) u = Mul (t, s) y = Add (u, b)"
TRAINING = "float[4] s = {1, 2, 1, 2}, float[4] b = {1, 2, 1, 2}, int64[4] p = {1, 4, 5, 5}, int64[4] q = {2, 2, 5, 5}"
AS_TRAINING = "r = Reshape (x, p) n = BatchNormalization <training_mode = 1> (r, s, b, s, s) y = Reshape (n, q)"
PRUNED = (
    f"float[16,2,1,1] w = {{{', '.join(['0'] * 16 + ['1'] * 16)}}}, float[2,16,1,1] v = {{{', '.join(['2'] * 32)}}}"
)
UNEVEN = "float[2,2,1,1] w = {100, 200, 0.3, 0.4}, float[2,2,1,1] v = {0.1, 50, 0.2, 40}"

Case = tuple[str, str, str, dict[str, Any]]
ROUNDING: dict[str, Case] = {
    "constant-result": (ROWS, "a = Exp (c) y = Add (x, a)", "float[4] c = {1, 2, 3, 4}", {}),
    "matmul-add-gemm": (ROWS, "a = MatMul (x, w) y = Add (a, b)", "float[4,1] w = {1,2,3,4}, float[1] b = {1}", {}),
    "conv-add-bias": (IMAGE, "c = Conv (x, w) y = Add (c, b)", f"{KERNEL}, float[2,1,1] b = {{1, 2}}", {}),
    "pad-conv": (IMAGE, "p = Pad (x, q) y = Conv (p, w)", f"{KERNEL}, {AROUND}", {}),
    "pad-pool": (
        IMAGE, "p = Pad (x, q) y = AveragePool <kernel_shape = [2, 2], count_include_pad = 1> (p)", AROUND, {},
    ),
    "expand-matmul": (
        "float[1,2,5,5] x, float[2,2,5,5] z", "e = Expand (x, s) y = MatMul (e, z)", "int64[4] s = {2, 2, 5, 5}", {},
    ),
    "matmul-reshaped": (
        IMAGE, "r = Reshape (x, a) m = MatMul (r, w) y = Reshape (m, b)",
        "int64[2] a = {20, 5}, int64[4] b = {2, 2, 5, 1}, float[5,1] w = {1, 2, 3, 4, 5}", {},
    ),
    "group-normalization": ("float[2,4,3,3] x", GROUPED, f"{GROUPS}, {PER_CHANNEL}", {"group_norm": True}),
}  # fmt: skip
FOLDED: dict[str, Case] = {
    "batchnorm-fold": (IMAGE, "c = Conv (x, w) y = BatchNormalization (c, s, b, b, s)", f"{KERNEL}, {NORM}", {}),
    "arithmetic-fold": (IMAGE, "c = Conv (x, w) y = Mul (c, m)", f"{KERNEL}, float[2,1,1] m = {{2, 3}}", {}),
    "branch-merge": (
        IMAGE, "c = Conv (x, w) d = Conv (x, v) y = Add (c, d)", f"{KERNEL}, float[2,2,1,1] v = {{4, 3, 2, 1}}",
        {"merge_branches": True},
    ),
    "product-merge": (
        IMAGE, "c = Conv (x, w) y = Conv (c, v)", f"{KERNEL}, float[2,2,1,1] v = {{4, 3, 2, 1}}",
        {"merge_branches": True},
    ),
    "batchnorm-split": (
        IMAGE, "c = Conv (x, w) t = Sigmoid (x) k = Concat <axis = 1> (c, t) y = BatchNormalization (k, s, b, b, s)",
        f"{KERNEL}, float[4] s = {{2, 3, 4, 5}}, float[4] b = {{1, 2, 3, 4}}", {},
    ),
    "dead-shift": (
        IMAGE, "c = Conv (x, w, b) y = InstanceNormalization (c, s, b)", f"{KERNEL}, {NORM}", {},
    ),
    "dead-channels": (IMAGE, "c = Conv (x, w) r = Relu (c) y = Conv (r, v)", PRUNED, {}),
    "training-instancenorm": (IMAGE, AS_TRAINING, TRAINING, {}),
    "equalize-channels": (IMAGE, "c = Conv (x, w) r = Relu (c) y = Conv (r, v)", UNEVEN, {"equalize": True}),
    "decompose-normalization": (
        IMAGE, "t = Sigmoid (x) y = BatchNormalization (t, s, b, b, s)", NORM, {"decompose": "all"},
    ),
}  # fmt: skip
NO_WAY = VerifyOptions(depth="none")


def built(name: str) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model in which the rewrite is made, and the options for that."""
    if name in CASES:
        inputs, body, stored = CASES[name]
        stored = TWO if "i)" in body and not stored else stored
        proto = model(f"({inputs}) => (float[A,B] y)", body, stored)
        proto.graph.output[0].type.tensor_type.ClearField("shape")
        for weight, shape in (("w", (1, 12, 4)), ("r", (1, 12, 3))) if name == "zero-states" else ():
            tensor = onnx.helper.make_tensor(weight, onnx.TensorProto.FLOAT, shape, [0.5] * (12 * shape[2]))
            proto.graph.initializer.append(tensor)
        return proto, {"fold": False}
    inputs, body, stored, options = {**ROUNDING, **FOLDED}[name]
    opset = 21 if name == "group-normalization" else 17
    rank = 2 if inputs is ROWS else 4
    proto = model(f"({inputs}) => ({'float[A,B] y' if rank == 2 else ANY})", body, stored, opset=opset)
    return proto, {"fold": name in FOLDED, **options}


def names(outcome: bnfold.Outcome) -> set[str]:
    return {row.rewrite.name for row in outcome.report.rewrites}


@pytest.mark.parametrize("name", NAMED)
def test_each_is_left_out_alone(name: str) -> None:
    proto, options = built(name)
    made = names(bnfold.optimize(proto, verify=NO_WAY, **options))
    assert name in made
    outcome = bnfold.optimize(proto, verify=NO_WAY, disable={name}, **options)
    assert name not in names(outcome)
    assert name not in {row["name"] for row in outcome.to_json()["rewrites"]}
    everything = bnfold.optimize(proto, verify=NO_WAY, disable={*NAMED}, **options)
    assert not names(everything) & {*NAMED}


SAID = ("batchnorm-fold", "training-instancenorm", "equalize-channels", "decompose-normalization")


@pytest.mark.parametrize("name", SAID)
def test_what_is_left_says_why(name: str) -> None:
    proto, options = built(name)
    report = bnfold.optimize(proto, verify=NO_WAY, disable={name}, **options).report
    said = [(event.reason, event.detail) for event in report.batchnorms]
    said += [(event.reason, event.detail) for event in report.equalized]
    assert (Reason.DISABLED, name) in said


def test_others_are_made_beside_it() -> None:
    proto = model(
        "(float[N,4] x) => (float[N,1] y)", "i = Identity (x) a = MatMul (i, w) y = Add (a, b)",
        "float[4,1] w = {1,2,3,4}, float[1] b = {1}",
    )  # fmt: skip
    outcome = bnfold.optimize(proto, disable={"matmul-add-gemm"})
    assert names(outcome) == {"remove-identity"}
    assert outcome.verified
    assert [node.op_type for node in outcome.to_proto().graph.node] == ["MatMul", "Add"]


def test_nodes_and_weights_that_nothing_reads_are_told_apart() -> None:
    proto = model("(float[N,4] x) => (float[N,4] y)", "a = Neg (x) y = Relu (x)", "float[2] w = {1, 2}")
    for name, left in (("unread-node", ["Neg", "Relu"]), ("unread-weight", ["Relu"])):
        outcome = bnfold.optimize(proto, verify=NO_WAY, disable={name})
        assert [node.op_type for node in outcome.to_proto().graph.node] == left
        assert names(outcome) == {"unread-node", "unread-weight"} - {name}
        assert len(outcome.to_proto().graph.initializer) == (name == "unread-weight")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("matmul-add-gem", "there is no rewrite 'matmul-add-gem'; did you mean matmul-add-gemm"),
        ("Remove-Identity", "did you mean remove-identity"),
        ("zzz", "`bnfold explain` lists the names"),
        ("convert-softmax", "'convert-softmax' is a conversion, which the opset needs; choose another opset"),
        ("decompose-gelu", "is a conversion, which the opset needs"),
        ("convert-nonsense", "there is no rewrite 'convert-nonsense'"),
    ],
)
def test_names_are_checked_when_they_are_given(name: str, problem: str) -> None:
    with pytest.raises(BadSetting, match="disable") as raised:
        Options(disable=frozenset({name, "remove-identity"}))
    assert problem in str(raised.value)
    for command in ("optimize", "fold", "upgrade", "convert"):
        result = CliRunner().invoke(main, [command, "in.onnx", "out.onnx", "--disable", f"remove-identity,{name}"])
        assert result.exit_code == 2
        assert f"--disable: {problem.split(';', maxsplit=1)[0]}" in result.stderr or problem in result.stderr


def test_a_set_of_another_kind_is_refused() -> None:
    with pytest.raises(BadSetting, match="disable"):
        Options(disable="matmul-add-gemm")  # type: ignore[arg-type]


def test_passes_of_onnx_ir_take_it() -> None:
    import onnx_ir

    proto, _ = built("remove-identity")
    done = SimplifyPass(Options(disable=frozenset({"remove-identity"})))(onnx_ir.from_proto(proto)).model
    assert [node.op_type for node in done.graph] == ["Identity", "Relu"]


def test_every_simplification_has_a_model() -> None:
    assert {*CASES, *ROUNDING, *FOLDED} == {*NAMED}
    assert {rewrite.name for rewrite in SIMPLIFYING} == {*CASES, *ROUNDING}
