import onnx
import pytest

from bnfold import ir
from bnfold.analysis.shapes.uses import types_by_use

TP = onnx.TensorProto


def load(body: str, opset: int = 15, outputs: str = "float[] y") -> ir.Model:
    imports = f'"" : {opset}, "com.microsoft" : 1, "my" : 1'
    return ir.load(
        onnx.parser.parse_model(
            f"<ir_version: 8, opset_import: [{imports}]> g (float[n, 3, 4, 4] x) => ({outputs}) {body}"
        )
    )


def types_of(model: ir.Model, target: int = 13) -> dict[str, int]:
    return {value.name: dtype for value, dtype in types_by_use(model, target).items()}


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("{ a = my.Op (x) y = Relu (a) }", TP.FLOAT),  # as the output is declared
        ("<float[4] k = {1, 2, 3, 4}> { a = my.Op (x) b = Add (a, k) y = my.Op (b) }", TP.FLOAT),
        ("<float s = {1}, uint8 z = {1}> { a = my.Op (x) y = DequantizeLinear (a, s, z) }", TP.UINT8),
        ("{ a = my.Op (x) b = Not (a) y = my.Op (b) }", TP.BOOL),  # the only type that Not takes
        ("{ a = my.Op (x) y = Reshape (x, a) }", TP.INT64),
        (
            "<float[1, 3, 1, 1] w = {1, 2, 3}> { a = my.Op (x) b = com.microsoft.FusedConv (a, w) y = my.Op (b) }",
            TP.FLOAT,
        ),
        (
            "{ i = Cast <to = 7> (x) a = my.Op (x) b = Transpose (a) c = Concat <axis = 0> (b, i) y = my.Op (c) }",
            TP.INT64,
        ),
        ("{ a = my.Op (x) y = my.Op (a) }", None),
        ("{ a = my.Op (x) y = Cast <to = 1> (a) }", None),
    ],
)
def test_types_follow_from_use(body: str, dtype: int | None) -> None:
    assert types_of(load(body)).get("a") == dtype


def test_types_go_in_and_out_of_branches_and_loops() -> None:
    model = load(
        """{
        a = my.Op (x) c = my.Op (x) d = my.Op (x)
        y = If (c) <then_branch = t () => (float[] p) { p = Neg (a) },
            else_branch = e () => (float[] q) { q = my.Op (x) }>
        n = Constant <value_int = 3> () on = Constant <value = bool {1}> ()
        l = Loop (n, on, d) <body = b (int64 i, bool g, o) => (bool h, float[] r) { h = Identity (g) r = Abs (o) }>
    }""",
        outputs="float[] y, l",
    )
    found = types_of(model)
    assert {name: found[name] for name in ("a", "c", "d", "o", "l")} == {
        "a": TP.FLOAT, "c": TP.BOOL, "d": TP.FLOAT, "o": TP.FLOAT, "l": TP.FLOAT,
    }  # fmt: skip


def test_only_what_both_opsets_tie_counts() -> None:
    # From opset 15 on, the scale of a BatchNormalization may be of another type than its input.
    body = "<float[3] s = {1, 2, 3}> { a = my.Op (x) b = BatchNormalization (a, s, s, s, s) y = my.Op (b) }"
    assert "a" not in types_of(load(body, 15), 13)
    assert types_of(load(body, 14), 9)["a"] == TP.FLOAT
