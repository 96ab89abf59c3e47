"""The scripts do what their help says; nothing here depends on how long it takes."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from _bench import cases, generate, measure, quality, table, tools
from _models import catalogue

from tests.conftest import ROOT
from tests.machine import unmeasured

pytestmark = pytest.mark.large  # a script, which changes seldom

# scripts/clients_table.py runs itself by the Python of other programs.
PYTHON_SCRIPTS = sorted(
    path.name
    for path in (ROOT / "scripts").iterdir()
    if path.is_file() and path.read_bytes().startswith(b"#!/usr/bin/env python") and path.name != "clients_table.py"
)
EXTENDED_PRECISION = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


def script(name: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured() | environment)


@pytest.mark.parametrize("name", PYTHON_SCRIPTS)
def test_another_python_is_told_which_one_to_take(name: str) -> None:
    command = [sys.executable, "-S", str(ROOT / "scripts" / name), "--help"]  # without what is installed
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured() | {"PYTHONPATH": ""})
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"run .venv/bin/python scripts/{name}" in done.stderr


@pytest.mark.parametrize("name", PYTHON_SCRIPTS)
def test_what_a_script_takes_from_the_package_is_there(name: str) -> None:
    """Some take minutes, and run nowhere else."""
    tree = ast.parse((ROOT / "scripts" / name).read_text(encoding="utf-8"))
    imports = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bnfold")
    ]
    for node in imports:
        module = import_module(node.module or "")
        for alias in node.names:
            assert hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}"), alias.name


def test_the_readme_names_every_script_and_nothing_else() -> None:
    """A row begins with the names of the scripts that it describes."""
    scripts = ROOT / "scripts"
    there = {path.name for path in scripts.iterdir() if path.name not in ("README.md", "__pycache__")}
    rows = [
        line.split("|")[1] for line in (scripts / "README.md").read_text(encoding="utf-8").splitlines() if "|" in line
    ]
    named = {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert {name for name in there if not name.startswith("_")} <= named
    assert named <= there


def without(package: str, folder: Path) -> str:
    """A PYTHONPATH on which a package is not installed, whatever else is."""
    (folder / f"{package}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{package}'\")\n")
    return str(folder)


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("pattern_table.py", "onnxslim"),
        ("corpus_table.py", "onnxoptimizer"),
        ("simplify_table.py", "onnxsim"),
        ("upgrade_table.py", "onnxscript"),
        ("benchmark.py --quick", "onnxslim"),
        ("quantize_cost.py", "onnxruntime"),
        ("qdq_table.py", "onnxruntime"),
        ("merge_table.py", "onnxruntime"),
        ("decompose_cost.py", "onnxruntime"),
        ("fault_table.py", "onnxruntime"),
        ("clients_table.py --client OpenCV", "cv2"),
        ("site_walk.py", "playwright"),
    ],
)
def test_a_tool_that_is_not_installed_is_named(command: str, package: str, tmp_path: Path) -> None:
    """Before anything is measured: a table would say that the tool crashes, or removes nothing."""
    (tmp_path / "m.onnx").touch()
    done = script(*command.split(), PYTHONPATH=without(package, tmp_path), BNFOLD_CORPUS=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"scripts/{command.split(maxsplit=1)[0]}: not installed: ")
    assert package in line
    assert "pip install " in line


def test_a_tool_that_does_not_import_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "onnxslim.py").write_text("raise OSError('no such library')")
    done = script("pattern_table.py", "--tool", "onnxslim", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "onnxslim (OSError: no such library)" in done.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("corpus_table.py --tool onnxscript", "nothing to measure: found no network in {}/INDEX.tsv"),
        ("simplify_table.py", "nothing to measure: found no network in {}/INDEX.tsv"),
        (
            "simplify_table.py --only other {}/gone.onnx",
            "nothing to measure: found no network in {}/INDEX.tsv, of those whose",
        ),
        ("corpus_table.py --tool onnxscript {}/gone.onnx", "missing: {}/gone.onnx"),
        ("upgrade_table.py --tool bnfold --corpus {}", "nothing to measure: found no model in {}"),
        ("upgrade_table.py --tool bnfold --only gone", "no model below opset 15 has 'gone' in its path"),
        ("upgrade_table.py --tool bnfold --only gone --converter-tests {}", "missing: {}/tests/python/version_con"),
        ("benchmark.py --only gone --tool cp", "no case is called so; there are "),
        ("quantize_cost.py {}/gone.onnx", "missing: {}/gone.onnx"),
        ("decompose_cost.py {}/gone.onnx {}/other.onnx", "missing: {}/gone.onnx and 1 more"),
        ("results_table.py {}", "nothing to measure: found no model in {}"),
        ("check_reasons.py {}", "nothing to measure: found no model in {}"),
        ("clients_table.py --client onnxruntime {}", "nothing to measure: found no model in {}"),
    ],
)
def test_models_that_are_not_there_are_named(command: str, message: str, tmp_path: Path) -> None:
    """An empty table would say that nothing is left of nothing."""
    there = tmp_path / "installed"
    there.mkdir()
    for package in ("onnxslim", "onnxsim"):
        (there / f"{package}.py").touch()
    words = command.format(*[tmp_path] * 2).split()
    done = script(*words, PYTHONPATH=str(there), BNFOLD_CORPUS=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"scripts/{command.split(maxsplit=1)[0]}: {message.format(tmp_path)}")


def test_networks_that_an_index_lists_and_nobody_has_are_named(tmp_path: Path) -> None:
    (tmp_path / "INDEX.tsv").write_text("path\tkind\tbn\tbn_params\na.onnx\tnet\t2\tinit:8\n")
    done = script("corpus_table.py", "--tool", "onnxscript", BNFOLD_CORPUS=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"scripts/corpus_table.py: missing: {tmp_path / 'a.onnx'}\n"


def tool(code: str) -> tools.Tool:
    return tools.Tool("tool", lambda source, out: [sys.executable, "-c", code, str(source), str(out)], rewrites=False)


def made_of(seconds: list[float], name: str = "tool", failure: str = "") -> measure.Series:
    runs = [measure.Run(cpu + 1, cpu, 2**20) for cpu in seconds]  # the clock waits for the disk as well
    return measure.Series(tools.Tool(name, lambda *_: []), runs, failure)


def test_run_measures_a_process(tmp_path: Path) -> None:
    run = measure.run(tool("b'x' * 2**27"), tmp_path, tmp_path / "out", timeout=60)
    assert run.peak > 2**27
    assert run.wall > 0


def test_a_process_says_what_it_printed_and_how_it_ended(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['WORD'], os.getcwd()); sys.stderr.buffer.write(b'odd: \\x80'); sys.exit(7)"
    run = measure.process([sys.executable, "-c", code], tmp_path, 60, {"WORD": "told"})
    assert (run.code, run.output, run.errors) == (7, f"told {tmp_path}\n", "odd: \N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    ("code", "timeout", "reason"),
    [
        (
            "import sys; print('first', 'the reason', sep=chr(10), file=sys.stderr); print('told'); sys.exit(3)",
            60,
            "exit 3: the reason",
        ),
        ("import time; time.sleep(60)", 1, "more than 1 s"),
    ],
)
def test_run_says_why_a_tool_did_not_finish(code: str, timeout: float, reason: str, tmp_path: Path) -> None:
    with pytest.raises(measure.DidNotFinishError) as raised:
        measure.run(tool(code), tmp_path, tmp_path / "out", timeout)
    assert str(raised.value) == reason


def test_a_failing_tool_does_not_stop_the_others(tmp_path: Path) -> None:
    both = [tool("import sys; sys.exit(1)"), tool("pass")]
    bad, good = measure.paired(both, tmp_path, tmp_path / "out", rounds=3, timeout=60, judge=lambda _: {})
    assert (bad.failure, len(bad.runs)) == ("exit 1", 0)
    assert (good.failure, len(good.runs)) == ("", 3)


def test_ratios_pair_the_rounds() -> None:
    assert table.ratios(made_of([1, 8]), made_of([2, 4])) == [0.5, 2.0]


def test_table_shows_failures_with_their_reason() -> None:
    text = table.as_text(
        cases.STANDARD[1], [made_of([1, 3], "bnfold"), made_of([2, 2], "cp"), made_of([], "slow", "no")]
    )
    assert "(0.50 .. 1.50)" in text
    assert "slow: no" in text


@pytest.mark.skipif(not EXTENDED_PRECISION, reason="long double is no longer than double here")
@pytest.mark.parametrize(("error", "bound"), [(0, 0.5), (3, 3.5)])
def test_quality_measures_a_fold_in_ulps(error: int, bound: float, tmp_path: Path) -> None:
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    model = generate.chain(1, 4, 3).model()
    onnx.save(model, before)
    conv, norm = model.graph.node
    graph = quality.Graph(before)
    weight, bias = (array.astype(np.float32) for array in quality.fold(norm, conv, graph))
    weight.flat[5] += error * np.spacing(weight.flat[5])
    folded = onnx.helper.make_node("Conv", ["x", "W", "B"], norm.output, pads=[1] * 4)
    del model.graph.node[:]
    model.graph.node.append(folded)
    model.graph.initializer.extend([onnx.numpy_helper.from_array(weight, "W"), onnx.numpy_helper.from_array(bias, "B")])
    onnx.save(model, after)
    found = quality.judge(before, after)
    assert found["left"] == 0
    assert found["weight_ulps"] is not None
    assert error - 0.5 <= found["weight_ulps"] <= bound + 2**-26
    assert found["bias_ulps"] is not None
    assert found["bias_ulps"] <= 0.5 + 2**-26


def test_external_models_of_the_benchmark_load(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    kept = [onnx.numpy_helper.to_array(tensor) for tensor in generate.chain(2, 8, 3).model().graph.initializer]
    generate.save_external(generate.chain(2, 8, 3), path)
    loaded = [onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer]
    assert all(np.array_equal(a, b) for a, b in zip(kept, loaded, strict=True))
    onnx.checker.check_model(path, full_check=True)


@pytest.mark.parametrize("opset", [6, 9, 22])
def test_networks_of_the_benchmark_are_valid(opset: int) -> None:
    model = generate.network("shufflenet", opset)
    onnx.checker.check_model(model, full_check=True)
    assert catalogue.count(model) == 49


def test_benchmark_quick(tmp_path: Path) -> None:
    wanted = [
        word for name in ("cp", "onnx", "onnxruntime", "python", "version_converter") for word in ("--tool", name)
    ]
    out = tmp_path / "figures.json"
    done = script(
        "benchmark.py", "--quick", "--rounds", "1", "--work", tmp_path, "--json", out, "--against", ROOT, *wanted
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(out.read_text())
    assert figures["machine"]["onnx"] == onnx.__version__
    for case in figures["cases"]:
        assert {name: entry["failure"] for name, entry in case["tools"].items() if entry["failure"]} == {}
        check_bnfold(case)


def check_bnfold(case: dict[str, Any]) -> None:
    """Both checkouts are this one, so both have to have removed everything, rounded as well as can be."""
    ours = [entry for name, entry in case["tools"].items() if name.startswith("bnfold")]
    assert len(ours) == 2
    for entry in ours:
        assert len(entry["wall"]) == 1
        if case["job"] == "optimize":
            assert entry["left"] == 0
            assert not EXTENDED_PRECISION or max(entry["weight_ulps"], entry["bias_ulps"]) <= 0.5 + 2**-26


def test_make_models_full(tmp_path: Path) -> None:
    done = script("make_models.py", "--full", tmp_path, "--only", "shufflenet")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shufflenet.onnx"]


@pytest.mark.skipif(sys.platform == "win32", reason="a bash script")
def test_demo(tmp_path: Path) -> None:
    done = subprocess.run([ROOT / "scripts" / "demo"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((ROOT / "build" / "demo" / "resnet_opset15.json").read_text())
    assert report["opset"] == {"before": 6, "after": 15}
    assert {entry["verdict"] for entry in report["batchnorms"]} == {"folded"}


@pytest.mark.skipif(sys.platform == "win32", reason="a bash script")
def test_setup_refuses_an_old_python(tmp_path: Path) -> None:
    for folder in ("bin", "scripts"):
        (tmp_path / folder).mkdir()
    for name in ("python", "python3", "python3.11", "python3.12", "python3.13"):
        fake = tmp_path / "bin" / name
        fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n')
        fake.chmod(0o755)
    setup = tmp_path / "scripts" / "_setup.sh"
    setup.write_bytes((ROOT / "scripts" / "_setup.sh").read_bytes())
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", setup], capture_output=True, text=True, check=False, env={"PATH": path})
    assert done.returncode == 1
    assert "needs Python 3.11 or newer; found Python 3.9.2" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a bash script")
def test_the_site_is_built_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """The developer's environment is not asked to do anything, even if pyproject.toml is another one."""
    for folder in ("bin", "scripts", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("site", "_setup.sh"):
        (tmp_path / "scripts" / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (tmp_path / "pyproject.toml").touch()
    fake = tmp_path / "bin" / "python3"
    fake.write_text("""#!/bin/bash
echo "$0 $*" >>"$CALLS"
[ "$1" != "-c" ] || echo "the checksum"
[ "$1 $2" != "-m venv" ] || { mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/python"; }
""")
    fake.chmod(0o755)
    shutil.copy(fake, tmp_path / ".venv" / "bin" / "python")
    calls = tmp_path / "calls"
    env = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "CALLS": str(calls)}
    done = subprocess.run(["bash", tmp_path / "scripts" / "site"], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    called = calls.read_text()
    assert str(tmp_path / ".venv") not in called
    assert f"--editable {tmp_path}[site]" in called
    assert f"{tmp_path}/build/venv-site/bin/python -m mkdocs build --strict" in called


def test_results_table_has_a_line_for_every_model_and_option(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 15]> g (float[1,2,4,4] x) => (float[1,2,4,4] y)
        <float[2,2,1,1] w = {1,2,3,4}, float[2] s = {2,3}>
        { c = Conv (x, w)  y = BatchNormalization (c, s, s, s, s) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "good.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    first, second = script("results_table.py", tmp_path), script("results_table.py", tmp_path, "--verify", "local")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    _, bad, _, good, wide = (line.split("\t") for line in first.stdout.splitlines())
    assert bad[0] == "bad.onnx"
    assert (bad[4], bad[2], bad[3]) == ("MalformedModel", "-", "-")
    assert good[:5] == ["good.onnx", "default", "1", "0", "-"]
    assert good[6] == "1 folded"
    assert wide[1] == "wide"
    verified = second.stdout.splitlines()[3].split("\t")
    assert verified[4] == "verified"
    assert verified[5:] == good[5:]


def test_race_has_a_line_for_every_network_and_the_distribution_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "dense.onnx").write_bytes((ROOT / "models" / "dense.onnx").read_bytes())
    done = script("race.py", tmp_path, "--tool", "default", "--tool", "no-verify")
    assert done.returncode == 0, done.stdout + done.stderr
    _, _, network, *ends = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    assert network[0] == "dense.onnx"
    assert [cell.rpartition(", ")[2] for cell in network[1:]] == ["verified", "not verified"]
    assert [row[0] for row in ends] == [
        "**median**",
        "**nine tenths**",
        "**worst**",
        "**sum**",
        "**nodes of 1 networks**",
    ]
    (tmp_path / "dense.onnx").write_bytes(b"no model")
    assert script("race.py", tmp_path, "--tool", "default").returncode == 1


def test_reasons_for_what_is_left_are_checked_on_the_result(tmp_path: Path) -> None:
    (tmp_path / "dense.onnx").write_bytes((ROOT / "models" / "dense.onnx").read_bytes())
    text = """<ir_version: 8, opset_import: ["" : 15]> g (float[1,2,4,4] x) => (float[1,2,6,6] y)
        <float[2,2,1,1] w = {1,2,3,4}, float[2] s = {2,3}>
        { n = BatchNormalization (x, s, s, s, s)  y = Conv <pads = [1,1,1,1]> (n, w) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "padded.onnx")
    done = script("check_reasons.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "no-gain: 1 hold, 0 do not, 0 with nothing to look up",
        "shared-value: 3 hold, 0 do not, 0 with nothing to look up",
    ]


def test_errors_within_a_tolerance_are_those_of_onnxruntime(tmp_path: Path) -> None:
    pytest.importorskip("onnxconverter_common")
    shutil.copy(ROOT / "models" / "resnet_opset6.onnx", tmp_path)
    done = script("tolerance_table.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    _, _, half, int8, _, last = done.stdout.splitlines()
    assert "| float16 | prob | " in half
    assert "| int8, QDQ | prob | " in int8
    assert last == "1 float16, 1 int8, QDQ; 0 errors are not onnxruntime's"
