"""How the console command ends: at once, and as if the interpreter had ended it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

pytestmark = pytest.mark.large
MODEL = str(Path(__file__).parents[1] / "models" / "resnet_opset6.onnx")
AT_ONCE = "from bnfold.__main__ import run"
PLAINLY = "from bnfold.cli.commands import main as run"


def command(*arguments: str, before: str = "", entry: str = AT_ONCE) -> list[str]:
    return [sys.executable, "-c", f"import sys; {before}\n{entry}\nrun()", *arguments]


def done(*arguments: str, before: str = "", entry: str = AT_ONCE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments, before=before, entry=entry), capture_output=True, text=True, check=False)


def test_everything_is_written_to_a_pipe() -> None:
    found = done("inspect", "--json", MODEL)
    assert len(found.stdout) > 1 << 13  # more than the buffer of a stream
    assert json.loads(found.stdout)["batchnorms"]


def test_everything_is_written_to_a_file(tmp_path: Path) -> None:
    with (tmp_path / "report.json").open("w") as stream:
        subprocess.run(command("inspect", "--json", MODEL), stdout=stream, check=True)
    assert json.loads((tmp_path / "report.json").read_text())["batchnorms"]


def test_what_libraries_print_does_not_mix_with_results(tmp_path: Path) -> None:
    """The checker of onnx writes a warning to standard output about operators that were once called experimental."""
    node = onnx.helper.make_node("ATen", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([node], "one", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=7)
    path = tmp_path / "aten.onnx"
    onnx.save(model, path)
    report = done("optimize", "--opset", "keep", "--json", str(path), str(tmp_path / "out.onnx"))
    assert json.loads(report.stdout)["schema"] == "bnfold-report/1"
    assert "experimental ops: ATen" in report.stderr
    result = subprocess.run(command("optimize", "--opset", "keep", str(path), "-"), capture_output=True, check=True)
    assert onnx.load_from_string(result.stdout).graph.node[0].op_type == "ATen"


@pytest.mark.parametrize(("given", "threads"), [("", "1"), ("2", "2")])
def test_blas_has_one_thread_unless_somebody_wants_more(given: str, threads: str) -> None:
    """What numpy sees, and what programs that are started later do."""
    name = "OPENBLAS_NUM_THREADS"
    setting = f"os.environ[{name!r}] = {given!r}" if given else f"os.environ.pop({name!r}, None)"
    seen = f"""
import atexit, os
{setting}
class Watch:
    def find_spec(self, module, *_):
        if module == "numpy":
            print("numpy", os.environ.get({name!r}))
sys.meta_path.insert(0, Watch())
atexit.register(lambda: print("later", os.environ.get({name!r})))"""
    lines = done("inspect", MODEL, before=seen).stdout.splitlines()
    assert f"numpy {threads}" in lines
    assert lines[-1] == f"later {given or None}"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("optimize", "--no-verify", MODEL, "OUT"), 0),
        (("optimize", "no_such_model.onnx", "OUT"), 1),
        (("optimize", "--no-such-option"), 2),
        (("optimize", "--no-verify", "--require-verified", MODEL, "OUT"), 3),
        (("upgrade", "--no-verify", "--no-such"), 2),
        (("--version",), 0),
        (("--help",), 0),
    ],
)
def test_codes_and_output_are_those_of_a_plain_end(arguments: tuple[str, ...], code: int, tmp_path: Path) -> None:
    words = [str(tmp_path / "out.onnx") if word == "OUT" else word for word in arguments]
    at_once, plainly = (done(*words, entry=entry) for entry in (AT_ONCE, PLAINLY))
    assert at_once.returncode == plainly.returncode == code
    assert at_once.stdout == plainly.stdout
    assert at_once.stderr.splitlines()[:1] == plainly.stderr.splitlines()[:1]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break otherwise there")
def test_a_reader_that_has_gone_is_told_of_in_the_same_way() -> None:
    ends = []
    for entry in (AT_ONCE, PLAINLY):
        process = subprocess.Popen(
            command("--help", entry=entry), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        ends.append((process.communicate()[1], process.returncode))
    assert ends[0] == ends[1]


def test_exit_handlers_are_called_once_and_their_output_is_written() -> None:
    found = done("--version", before="import atexit; atexit.register(print, 'the end')")
    assert found.stdout.splitlines()[-1] == "the end"
    assert found.stdout.count("the end") == 1


def test_threads_are_waited_for() -> None:
    work = "import threading as t; t.Thread(target=lambda: (t.main_thread().join(), print('late'))).start()"
    assert done("--version", before=work).stdout.splitlines()[-1] == "late"


def test_what_is_no_end_of_the_command_is_a_traceback() -> None:
    broken = "import bnfold.cli.commands; bnfold.cli.commands.main = lambda: 1 / 0"
    found = done(before=broken)
    assert found.returncode == 1
    assert "ZeroDivisionError" in found.stderr
