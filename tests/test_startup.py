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
        "from bnfold.cli import run\n"
        "try: run()\n"
        "except SystemExit as end: print(end.code, 'onnx.compose' in sys.modules)"
    )
    assert run(code) == "0 False"
    assert out.exists()
