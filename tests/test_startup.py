"""The console command loads onnx in parts; the package is whole for whoever asks for more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODELS = Path(__file__).parents[1] / "models"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_messages_and_submodules_come_without_the_rest() -> None:
    code = (
        "import sys; from bnfold.startup import defer_onnx; defer_onnx()\n"
        "import onnx; from onnx import TypeProto, helper\n"
        "onnx.ModelProto(); onnx.TensorProto.FLOAT; onnx.defs.get_schema('Conv')\n"
        "print('onnx.compose' in sys.modules, onnx.ModelProto is sys.modules['onnx.onnx_ml_pb2'].ModelProto)"
    )
    assert run(code) == "False True"


def test_asked_for_more_the_package_becomes_itself() -> None:
    code = (
        "import sys; from bnfold.startup import defer_onnx; defer_onnx(); import onnx; before = onnx.ModelProto\n"
        "onnx.load_model_from_string(onnx.ModelProto(ir_version=8).SerializeToString())\n"
        "import importlib.metadata as m\n"
        "print(onnx.__version__ == m.version('onnx'), onnx.ModelProto is before, hasattr(onnx, 'compose'),\n"
        "      hasattr(onnx, 'no_such_name'), 'no_such_part' in dir(onnx))"
    )
    assert run(code) == "True True True False False"


def test_a_package_that_is_there_already_is_left_alone() -> None:
    code = "import sys, onnx; from bnfold.startup import defer_onnx; defer_onnx(); print(sys.modules['onnx'] is onnx)"
    assert run(code) == "True"


def test_a_fold_needs_no_more_than_parts(tmp_path: Path) -> None:
    source, out = MODELS / "resnet_opset6.onnx", tmp_path / "out.onnx"
    code = (
        f"import sys; sys.argv = ['bnfold', 'optimize', '--no-verify', '-q', {str(source)!r}, {str(out)!r}]\n"
        "import atexit; from bnfold.__main__ import run\n"
        "atexit.register(lambda: print({'onnx.compose', 'ml_dtypes'} & set(sys.modules)))\n"
        "run()"
    )
    assert run(code) == "set()"
    assert out.exists()


PREPARED = (
    "import os, sys; os.environ.pop('OPENBLAS_NUM_THREADS', None)\n"  # another test's cluster may have left it
    "from bnfold.startup import defer_onnx, prepare; defer_onnx(); prepare(many_threads=False)\n"
)


def test_parts_that_stood_in_are_there_for_whoever_asks() -> None:
    code = PREPARED + (
        "skipped = {'numpy._core._add_newdocs', 'numpy._typing', 'google.protobuf.internal.python_message'}\n"
        "print(sorted(skipped & set(sys.modules)), 'OPENBLAS_NUM_THREADS' in os.environ)\n"
        "import numpy as np, numpy.typing as npt; from google.protobuf.internal import python_message\n"
        "print(npt.NDArray[np.float64] == list[np.float64], hasattr(python_message, 'GeneratedProtocolMessageType'))"
    )
    skipped, there = run(code).splitlines()
    assert skipped == "[] False"
    assert there == "False True"


def test_what_others_do_with_the_parts_still_works() -> None:
    code = PREPARED + (
        "from dataclasses import dataclass; from pathlib import Path; import numpy as np, inspect, pickle\n"
        "@dataclass\nclass A:\n    x: int\n"
        "print(A.__doc__, Path('/a b').as_uri(), np.arange(3).ctypes.data > 0)\n"
        "print(pickle.loads(np.arange(3).dumps()), callable(np.dot), inspect.signature(np.pad).parameters['mode'])"
    )
    assert run(code).splitlines() == ["A(x: int) file:///a%20b True", "[0 1 2] True mode='constant'"]


def test_helps_are_those_of_click_itself() -> None:
    """Its texts go through `inspect.cleandoc`, which is stood in for."""
    code = "import sys; sys.argv = ['bnfold', 'optimize', '--help']; {}"
    quick = run(code.format("from bnfold.__main__ import run; run()"))
    assert quick == run(code.format("from bnfold.cli.commands import main; main()"))
    assert "Upgrade, fold and verify the model at IN, and write it to OUT." in quick


def test_a_stand_in_becomes_the_module_while_it_stands() -> None:
    code = (
        "import sys; from bnfold.startup import _stand_ins\n"
        "with _stand_ins({'colorsys': {'ONE_THIRD': 3}}):\n"
        "    import colorsys as c; print(c.ONE_THIRD, c.rgb_to_hsv(0, 0, 1), sys.modules['colorsys'] is c)\n"
        "import colorsys; print(colorsys.ONE_THIRD < 1)"
    )
    assert run(code).splitlines() == ["3 (0.6666666666666666, 1.0, 1) False", "True"]


def test_the_users_number_of_blas_threads_holds() -> None:
    code = (
        "import os; os.environ['OPENBLAS_NUM_THREADS'] = '2'\n"
        "from bnfold.startup import prepare; prepare(many_threads=False); print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    assert run(code) == "2"


def test_shape_inference_needs_no_more_than_parts() -> None:
    code = PREPARED + (
        "import onnx; model = onnx.ModelProto(ir_version=8); model.graph.name = 'g'\n"
        "model.opset_import.add(version=15); model.graph.node.add(op_type='Relu', input=['x'], output=['y'])\n"
        "info = model.graph.input.add(name='x'); info.type.tensor_type.elem_type = 1\n"
        "info.type.tensor_type.shape.dim.add(dim_value=5)\n"
        "print(onnx.shape_inference.infer_shapes(model).graph.value_info[0].name, 'onnx.compose' in sys.modules)"
    )
    assert run(code) == "y False"
