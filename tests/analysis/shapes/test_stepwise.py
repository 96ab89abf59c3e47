import onnx
import pytest

from bnfold import ir
from bnfold.analysis.shapes.stepwise import Types


def load(body: str, inputs: str = "float[n, 3, 4] x") -> ir.Model:
    text = f'<ir_version: 8, opset_import: ["" : 15]> g ({inputs}) => (float[] y) {{ {body} }}'
    return ir.load(onnx.parser.parse_model(text))


def test_shapes_follow_from_node_to_node() -> None:
    model = load("a = Relu (x) b = Transpose <perm = [0, 2, 1]> (a) c = Concat <axis = 1> (b, b) y = Relu (c)")
    types = Types(15)
    assert types.shape(model.graph.values["c"]) == ("n", 8, 3)
    assert types.dtype(model.graph.values["c"]) == onnx.TensorProto.FLOAT


def test_small_constants_are_seen() -> None:
    model = load("s = Constant <value_ints = [12, -1]> () y = Reshape (x, s)")
    shape = Types(15).shape(model.graph.values["y"])
    assert shape is not None
    assert shape[0] == 12


def test_what_nobody_can_know_stays_unknown() -> None:
    model = load("a = my.Op (x) b = Relu (a) y = my.Op (b)")
    types = Types(15)
    assert types.shape(model.graph.values["b"]) is None
    assert types.dtype(model.graph.values["a"]) is None


def test_the_outputs_of_an_if_are_its_branches() -> None:
    body = """y = If (c) <then_branch = t () => (float[] p) { p = Transpose (x) },
                          else_branch = e () => (float[] q) { q = Transpose (x) }>"""
    model = load(body, "bool c, float[2, 3] x")
    assert Types(15).shape(model.graph.values["y"]) == (3, 2)


@pytest.mark.parametrize(
    ("then", "dims"),
    [("Transpose (x)", (None, None, 4)), ("Flatten (x)", None), ("Neg (x)", (2, 3, 4))],
)
def test_branches_say_what_is_so_of_all(then: str, dims: tuple[int | None, ...] | None) -> None:
    then = then.replace("Transpose", "Transpose <perm = [1, 0, 2]>")
    body = f"""y = If (c) <then_branch = t () => (float[] p) {{ p = {then} }},
                          else_branch = e () => (float[] q) {{ q = Relu (x) }}>"""
    assert Types(15).shape(load(body, "bool c, float[2, 3, 4] x").graph.values["y"]) == dims


def test_the_annotation_of_the_file_is_kept_and_completed() -> None:
    model = load("a = Relu (x) y = Relu (a)")
    model.graph.types["a"] = onnx.helper.make_tensor_type_proto(1, ("batch", 3, None))
    assert Types(15).shape(model.graph.values["a"]) == ("batch", 3, 4)


def test_networks_deeper_than_python_recurses() -> None:
    body = " ".join(f"a{i + 1} = Abs (a{i})" for i in range(3000))
    model = load(f"a0 = Neg (x) {body} y = Neg (a3000)")
    assert Types(15).shape(model.graph.values["y"]) == ("n", 3, 4)


def test_loops_carry_what_their_bodies_make() -> None:
    body = """n = Constant <value_int = 3> () k = Constant <value_int = 1> () c = Cast <to = 9> (k)
              y, scan = Loop (n, c, x) <
                  body = b (int64 i, bool go, float[2, 3] a) => (bool on, float[2, 3] d, float[3] e)
              { on = Identity (go) d = Relu (a) e = ReduceSum <keepdims = 0> (a) }>"""
    model = load(body, "float[2, 3] x")
    del model.graph.types["y"]
    types = Types(15)
    assert types.shape(model.graph.values["y"]) == (2, 3)
    assert types.shape(model.graph.values["scan"]) == (None, 3)
    (body_of_loop,) = [graph for graph in model.graph.subgraphs() if graph is not model.graph]
    body_of_loop.types["a"] = onnx.helper.make_tensor_type_proto(1, [2, None])
    del model.graph.types["y"]
    assert Types(15).shape(model.graph.values["y"]) is None  # what is carried may change its shape


def test_scans_hand_on_what_their_bodies_make() -> None:
    body = """s, p, q = Scan <num_scan_inputs = 2, scan_input_axes = [1, -1], scan_output_axes = [0, -1],
                  body = b (float[2] a, float[] v, double[] w) => (float[2] c, float[] d, double[] e)
              { c = Relu (a) d = Relu (v) e = Relu (w) }> (i, x, z)"""
    model = load(body + " y = Relu (p)", "float[2] i, float[3, 5] x, double[4, 7, 5] z")
    (body_of_scan,) = [graph for graph in model.graph.subgraphs() if graph is not model.graph]
    for value in ("v", "w", "d", "e"):
        body_of_scan.types.pop(value, None)
    types = Types(15)
    assert types.shape(model.graph.values["s"]) == (2,)
    assert types.shape(model.graph.values["y"]) == (None, 3)
    assert types.shape(model.graph.values["q"]) == (4, 7, None)
    assert types.dtype(model.graph.values["q"]) == onnx.TensorProto.DOUBLE


def test_what_does_not_follow_from_the_data_is_known_behind_a_plugin() -> None:
    model = load("a = my.Op (x) b = Cast <to = 11> (a) y = Relu (b)")
    assert Types(15).dtype(model.graph.values["b"]) == onnx.TensorProto.DOUBLE
