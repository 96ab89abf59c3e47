"""Plugins: imported only if the command line names them, in the processes that work on a folder as well."""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.batch import scheduler
from bnfold.batch.worker import Settings, process_one
from bnfold.cli.commands import main
from bnfold.errors import BadSetting
from bnfold.operators import plugins
from bnfold.operators.plugins import absolute, fingerprint_of, load_plugins
from bnfold.registered import table
from bnfold.settings import Options, OutputOptions, VerifyOptions
from tests import acme

PLUGIN = """
import bnfold
from bnfold.operators import AffineRule, AffineStep

def gain(x, w, b=None):
    y = x * w.reshape(1, -1, 1, 1)
    return y if b is None else y + b.reshape(1, -1, 1, 1)

def up(node, affine):
    weight = node.constant(1)
    affine = affine.of(weight.size)
    return AffineStep({1: affine.scale * weight, 2: affine.shift})

bnfold.register_operator(
    "com.acme", "Gain", kernel=gain, shape=lambda x, w, b=None: [x], affine=AffineRule(up), versions=[1, 2]
)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_LOADED", {})
    (tmp_path / "acme_plugin.py").write_text(PLUGIN, encoding="utf-8")
    onnx.save(acme.model(), tmp_path / "model.onnx")
    known = set(sys.modules)
    yield tmp_path
    table.remove("com.acme", "Gain")
    for name in set(sys.modules) - known:
        if "plugin" in name and not name.startswith("bnfold.") and not name.startswith("tests"):
            del sys.modules[name]


def command(*words: str) -> Result:
    return CliRunner().invoke(main, [*words], catch_exceptions=False)


@pytest.mark.usefixtures("folder")
def test_a_file_is_imported_if_it_is_named() -> None:
    plain = command("optimize", "model.onnx", "out.onnx")
    assert "rank-unknown" in plain.output
    done = command("optimize", "model.onnx", "out.onnx", "--plugin", "./acme_plugin.py", "--require-verified")
    assert done.exit_code == 0, done.output
    assert "folded into 1 Gain" in done.output
    again = command("verify", "model.onnx", "out.onnx", "--plugin", "acme_plugin.py")  # it is imported once
    assert again.exit_code == 0, again.output
    newer = command("convert", "out.onnx", "new.onnx", "--domain-opset", "com.acme=2", "--plugin", "acme_plugin.py")
    assert newer.exit_code == 0, newer.output
    assert command("diff", "out.onnx", "new.onnx", "--plugin", "acme_plugin.py").exit_code == 1
    assert command("inspect", "model.onnx", "--except", "Gain", "--plugin", "acme_plugin.py").exit_code == 0


def test_a_module_is_imported_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    done = command("fold", "model.onnx", "out.onnx", "--plugin", "acme_plugin")
    assert done.exit_code == 0, done.output
    assert "acme_plugin" in sys.modules
    assert fingerprint_of("acme_plugin").split()[1] == fingerprint_of(str(folder / "acme_plugin.py")).split()[1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_such_module", "there is no module 'no_such_module'; give a module that Python finds, or a file"),
        ("./none.py", "FileNotFoundError: there is no file"),
        ("./broken.py", "ZeroDivisionError: division by zero"),
        ("./syntax.py", "SyntaxError"),
        ("./missing.py", "No module named 'not_there'"),
        ("./onnxs.py", "cannot be registered in onnx's own domain"),
        ("", "ValueError: Empty module name"),
    ],
)
def test_one_that_cannot_be_imported_is_one_line(folder: Path, name: str, text: str) -> None:
    (folder / "broken.py").write_text(f"{PLUGIN}\n1 / 0\n", encoding="utf-8")
    (folder / "syntax.py").write_text("def\n", encoding="utf-8")
    (folder / "missing.py").write_text("import not_there\n", encoding="utf-8")
    own = PLUGIN.replace('"com.acme"', '""')
    (folder / "onnxs.py").write_text(own, encoding="utf-8")
    for _ in range(2):  # half of a plugin does not stay
        done = command("optimize", "model.onnx", "out.onnx", "--plugin", name)
        assert done.exit_code == 2
        (line,) = done.output.splitlines()
        assert line.startswith(f"bnfold: model.onnx: --plugin: {name}: ")
        assert text in line
    assert not (folder / "out.onnx").exists()
    assert not table.registrations("com.acme", "Gain")


def test_processes_of_a_folder_import_it(folder: Path) -> None:
    (folder / "models").mkdir()
    for name in ("a", "b"):
        shutil.copy(folder / "model.onnx", folder / "models" / f"{name}.onnx")
    settings = Settings(
        Options(), VerifyOptions(), OutputOptions(folder / "out"), plugins=(str(folder / "acme_plugin.py"),)
    )
    tasks = scheduler.plan_tasks([str(folder / "models")], str(folder / "out")).tasks
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # which inherits nothing
        results = scheduler.process_all(tasks, partial(process_one, settings=settings), pool, lambda *_: None)
    assert [result.status for result in results] == ["verified", "verified"]
    assert all(result.counts is not None and result.counts.after == 0 for result in results)
    assert not table.registrations("com.acme", "Gain")


def test_a_plugin_that_changed_makes_results_anew(folder: Path) -> None:
    words = ["optimize", str(folder), str(folder / "out"), "--plugin", "acme_plugin.py", "--jobs", "1"]
    assert "1 verified" in command(*words).output
    assert "1 skipped" in command(*words).output
    (folder / "acme_plugin.py").write_text(f"{PLUGIN}\n# another one\n", encoding="utf-8")
    assert "1 verified" in command(*words).output


def test_a_plugin_that_a_worker_lacks_fails_each_model_with_a_reason(folder: Path) -> None:
    settings = Settings(Options(), VerifyOptions(), OutputOptions(folder / "out"), plugins=("./gone.py",))
    tasks = scheduler.plan_tasks([str(folder / "model.onnx")], str(folder / "out")).tasks
    with ProcessPoolExecutor(1) as pool:
        (result,) = scheduler.process_all(tasks, partial(process_one, settings=settings), pool, lambda *_: None)
    assert result.status == "failed"
    assert "./gone.py: cannot be imported: FileNotFoundError" in result.message


def test_opening_a_model_imports_nothing(folder: Path) -> None:
    proto = onnx.load(folder / "model.onnx")
    onnx.helper.set_model_props(proto, {"plugin": "./acme_plugin.py", "bnfold.plugin": "./acme_plugin.py"})
    onnx.save(proto, folder / "model.onnx")
    assert command("inspect", "model.onnx").exit_code == 0
    assert not table.registrations("com.acme", "Gain")


def test_no_project_names_a_plugin(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.bnfold]\nplugin = ["./acme_plugin.py"]\n', encoding="utf-8")
    done = command("inspect", "model.onnx")
    assert done.exit_code == 2
    assert "unknown key 'plugin'" in done.output


def test_plugins_have_names_for_other_folders(folder: Path) -> None:
    assert absolute("acme.operators") == "acme.operators"
    assert absolute("./acme_plugin.py") == str(folder / "acme_plugin.py")
    with pytest.raises(BadSetting, match=r"there is no module 'acme.operators'.* --plugin \./acme/operators\.py"):
        load_plugins(["acme.operators"])


@pytest.mark.usefixtures("folder")
def test_the_json_report_says_that_it_is_a_callers_word() -> None:
    done = command("optimize", "model.onnx", "out.onnx", "--plugin", "acme_plugin.py", "--json")
    notes = json.loads(done.stdout)["verify"]["notes"]
    assert any(note.startswith("computed by kernels that were registered, on the caller's word") for note in notes)


def test_two_folders_are_compared_by_processes_that_know_the_operators(folder: Path) -> None:
    for name in ("before", "after"):
        (folder / name).mkdir()
        shutil.copy(folder / "model.onnx", folder / name / "model.onnx")
    fold = command("fold", "model.onnx", "after/model.onnx", "--plugin", "acme_plugin.py")
    assert fold.exit_code == 0, fold.output
    done = command("verify", "before", "after", "--plugin", "acme_plugin.py", "--jobs", "2")
    assert done.exit_code == 0, done.output
    assert plugins.loaded() == (str(folder / "acme_plugin.py"),)


def test_a_plugin_imports_modules_beside_it(folder: Path) -> None:
    (folder / "acme_parts_of_plugin.py").write_text(PLUGIN, encoding="utf-8")
    lazy = "def late():\n    import acme_parts_of_plugin as parts\n    return parts.gain\n"
    (folder / "acme_plugin.py").write_text(f"import acme_parts_of_plugin\n{lazy}", encoding="utf-8")
    for words in (["--jobs", "1"], ["--jobs", "2"]):
        shutil.rmtree(folder / "out", ignore_errors=True)
        done = command("optimize", str(folder), str(folder / "out"), "--plugin", "acme_plugin.py", *words)
        assert "1 verified" in done.output, done.output
    assert "1 skipped" in command("optimize", str(folder), str(folder / "out"), "--plugin", "acme_plugin.py").output
    (folder / "acme_parts_of_plugin.py").write_text(f"{PLUGIN}\n# another one\n", encoding="utf-8")
    assert "1 verified" in command("optimize", str(folder), str(folder / "out"), "--plugin", "acme_plugin.py").output


def test_a_module_beside_a_plugin_takes_no_other_ones_name(folder: Path) -> None:
    (folder / "json.py").write_text("1 / 0\n", encoding="utf-8")
    (folder / "acme_plugin.py").write_text(f"import json\njson.dumps\n{PLUGIN}", encoding="utf-8")
    done = command("fold", "model.onnx", "out.onnx", "--plugin", "acme_plugin.py")
    assert done.exit_code == 0, done.output
