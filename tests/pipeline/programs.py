"""Programs that take a model file and spoil it, each in its own way, and a model for them."""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_EDIT = "import sys, onnx, numpy; from onnx import numpy_helper as nh; m = onnx.load(sys.argv[1]); g = m.graph\n"
_SAVE = "\nonnx.save(m, sys.argv[2])"
EDITS = {
    "one weight": "t = next(t for t in g.initializer if t.dims)\na = nh.to_array(t).copy(); a.flat[0] += .01\n"
    "t.CopyFrom(nh.from_array(a, t.name))",
    "an output dropped": "del g.output[1:]",
    "an input renamed": "old = g.input[0].name; g.input[0].name = 'other'\n"
    "for n in g.node: n.input[:] = ['other' if name == old else name for name in n.input]",
    "invalid": "g.node[0].input[0] = 'nowhere'",
}
FAULTS = {
    **{name: _EDIT + edit + _SAVE for name, edit in EDITS.items()},
    "a crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "an error": "raise RuntimeError('out of ideas')",
    "a hang": "import time; time.sleep(600)",
    "garbage": "import sys; open(sys.argv[2], 'wb').write(b'\\x08\\x07 and so on' * 9)",
    "nothing": "",
}
REASONS = {
    "one weight": "failed: ",
    "an output dropped": "failed: ",
    "an input renamed": "failed: ",
    "invalid": "its output is no valid model: ",
    "a crash": "crashed (",
    "an error": "ended with exit code 1: RuntimeError: out of ideas",
    "a hang": "took longer than 2 s",
    "garbage": "its output cannot be read: ",
    "nothing": "wrote no output",
}
HARMLESS = _EDIT + _SAVE


def command(program: str) -> list[str]:
    return [sys.executable, "-c", program, "{input}", "{output}"]


def model(size: int = 6) -> onnx.ModelProto:
    """A convolution, and a normalisation that folds; a Reshape whose target is computed; two outputs."""
    rng = np.random.default_rng(0)

    def weight(name: str, *dims: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.uniform(0.5, 1.5, dims).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *"sbmv"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Shape", ["x"], ["all"]),
        helper.make_node("Gather", ["all", "first"], ["channels"]),
        helper.make_node("Concat", ["minus", "channels"], ["target"], axis=0),
        helper.make_node("Reshape", ["r", "target"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    constants = [numpy_helper.from_array(np.array([at], np.int64), name) for name, at in (("first", 0), ("minus", -1))]
    stored = [weight("w", size, 3, 3, 3), *(weight(name, size) for name in "sbmv"), *constants]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])]
    shapes = {"y": [36 * size, 1], "z": [1, size, 6, 6]}
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "g", given, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
