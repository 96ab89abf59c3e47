"""What a model cannot make bnfold do: run its code, reach the network, touch files elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.conftest import MODELS, ROOT
from tests.machine import unmeasured

# Every file, process, connection and piece of code that Python touches is announced here before it happens.
GUARD = """
import os, site, sys, sysconfig

folder, *arguments = sys.argv[1:]
folder = os.path.realpath(folder)
libraries = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), sysconfig.get_path("platlib"), %(root)r)
readable = [os.path.realpath(path) for path in (*libraries, *site.getsitepackages(), folder)]
readable += ["/dev", "/proc", "/sys", "/etc", "/usr", "/lib", "/lib64"]  # where interpreter and libraries look
forbidden = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "urllib.", "pickle.")

def hook(event, arguments):
    if event.startswith(forbidden):
        stop(event, arguments)
    elif event == "ctypes.dlopen" and arguments[0] is not None and not below(arguments[0], readable):
        stop(event, arguments)
    elif event == "compile" and arguments[0] is not None and "EVIL_MARK" in str(arguments[0]):
        stop(event, arguments)
    elif event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        path, flags = os.fsdecode(arguments[0]), arguments[2] or 0
        compiled = ".pyc" in os.path.basename(path)
        writes = flags & (os.O_WRONLY | os.O_RDWR) and not compiled
        above = os.path.realpath(os.path.dirname(path))
        settings = os.path.basename(path) == "pyproject.toml" and below(folder, [above.rstrip(os.sep)]) and not writes
        if not settings and not below(path, [folder, os.devnull] if writes else readable):
            stop(event, arguments)

def below(path, places):
    real = os.path.realpath(path)
    return any(real == place or real.startswith(place + os.sep) for place in places)

def stop(event, arguments):
    os.write(2, f"not allowed: {event} {arguments!r}"[:2000].encode())
    os._exit(99)

sys.addaudithook(hook)
sys.argv = ["bnfold", *arguments]
"""
RUN = "from bnfold.cli.commands import main; main()"


def guarded(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", GUARD % {"root": str(ROOT)} + RUN, str(folder), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured(), cwd=folder)


def hostile(path: Path) -> Path:
    """A model every text of which would do something if anybody ran it."""
    code = "__import__('os').system('touch EVIL_MARK')"
    proto = onnx.load(MODELS / "resnet_opset6.onnx")
    proto.doc_string = proto.producer_name = proto.graph.name = code
    proto.metadata_props.add(key="plugin", value="/tmp/EVIL_MARK.so")
    for index, node in enumerate(proto.graph.node):
        node.name = f"{code}#{index}"
        node.doc_string = f"http://localhost:9/EVIL_MARK{index}"
    graph = proto.graph
    graph.node.append(helper.make_node("PyOp", [graph.output[0].name], ["z"], domain="ai.onnx.contrib", code=code))
    graph.node.append(helper.make_node("PythonOp", ["z"], ["zz"], domain="com.microsoft", module="os", func="system"))
    proto.opset_import.add(domain="ai.onnx.contrib", version=1)
    proto.opset_import.add(domain="com.microsoft", version=1)
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


COMMANDS = [
    ("optimize", "in.onnx", "out.onnx", "--no-verify", "--report", "report.json"),
    ("optimize", "in.onnx", "out.onnx", "--runtime", "none"),
    ("fold", "in.onnx", "out.onnx", "--no-verify", "--decompose", "all"),
    ("upgrade", "in.onnx", "out.onnx", "--no-verify", "--target-opset", "18"),
    ("inspect", "in.onnx", "--json"),
    ("verify", "in.onnx", "in.onnx", "--runtime", "none"),
]


@pytest.mark.skipif(os.name == "nt", reason="the places that libraries look at are those of POSIX systems")
@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(command) for command in COMMANDS])
def test_a_model_reaches_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    hostile(tmp_path / "in.onnx")
    process = guarded(tmp_path, *command)
    assert process.returncode == 0, process.stderr
    written = {part for part in command if part in ("out.onnx", "report.json")}
    assert {path.name for path in tmp_path.iterdir()} <= {"in.onnx", "weights.bin", "out.onnx.data", *written}


@pytest.mark.skipif(os.name == "nt", reason="the places that libraries look at are those of POSIX systems")
def test_the_guard_sees_what_it_is_there_for(tmp_path: Path) -> None:
    """A test that cannot fail is none: each of these is stopped."""
    attempts = (
        "import socket; socket.socket().connect(('127.0.0.1', 9))",
        "import subprocess; subprocess.run(['true'])",
        "open('/elsewhere/EVIL_MARK', 'w')",
        "open('/elsewhere')",
        "eval('1 if True else EVIL_MARK')",
        "import os; os.system('true')",
    )
    for attempt in attempts:
        code = GUARD % {"root": str(ROOT)} + attempt
        command = [sys.executable, "-c", code, str(tmp_path)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        assert process.returncode == 99, (attempt, process.stderr)
        assert "not allowed" in process.stderr
