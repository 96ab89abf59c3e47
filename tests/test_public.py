"""The public interface: every name is documented, its examples work, and the reference is made of it."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import shutil
import subprocess
import sys
import typing
from importlib.metadata import version
from pathlib import Path

import pytest

import bnfold
from bnfold import api, errors, operators, passes
from bnfold.batch import functions
from tests.conftest import MODELS, ROOT

FUNCTIONS = [name for name in bnfold.__all__ if inspect.isfunction(getattr(bnfold, name))]
CLASSES = [name for name in bnfold.__all__ if inspect.isclass(getattr(bnfold, name))]


def document(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def test_the_lists_hold_what_they_are_thought_to() -> None:
    assert {"optimize", "fold", "upgrade", "decompose", "inspect", "verify"} <= set(FUNCTIONS)
    assert {"BnfoldError", "VerifyOptions", "Options", "Outcome", "Policy", "Report", "Verdict"} <= set(CLASSES)
    assert bnfold.__version__ == version("bnfold")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_its_arguments_its_errors_and_an_example(name: str) -> None:
    function = getattr(bnfold, name)
    text = document(function)
    for parameter in inspect.signature(function).parameters:
        assert f"{parameter}:" in text, parameter
    assert "Raises:" in text
    assert ">>> " in text
    assert all(hint is not typing.Any for key, hint in inspect.get_annotations(function).items() if key != "options")


@pytest.mark.parametrize("name", [name for name in CLASSES if dataclasses.is_dataclass(getattr(bnfold, name))])
def test_a_class_documents_its_fields(name: str) -> None:
    text = document(getattr(bnfold, name)).replace("`", "")
    for field in dataclasses.fields(getattr(bnfold, name)):
        if not field.name.startswith("_"):
            assert f"{field.name}:" in text, field.name


@pytest.mark.parametrize(
    "error", [thing for thing in vars(errors).values() if inspect.isclass(thing) and issubclass(thing, Exception)]
)
def test_an_error_says_what_it_means(error: type[Exception]) -> None:
    assert issubclass(error, bnfold.BnfoldError)
    assert document(error)
    assert error.__name__ in document(errors)


@pytest.mark.parametrize("name", passes.__all__)
def test_a_pass_is_documented(name: str) -> None:
    assert document(getattr(passes, name))


def test_examples_of_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "resnet_opset6.onnx", "model.onnx")
    bnfold.optimize("model.onnx", "out.onnx", verify=bnfold.VerifyOptions(depth="none"))
    for folder, name in (("models", "model.onnx"), ("out", "out.onnx")):
        Path(folder).mkdir()
        shutil.copy(name, f"{folder}/model.onnx")
    modules = api, functions, operators
    tests = [test for module in modules for test in doctest.DocTestFinder().find(module) if test.examples]
    assert len(tests) >= len(FUNCTIONS)
    assert [doctest.testmod(module).failed for module in modules] == [0, 0, 0]


def test_the_reference_is_made_without_a_warning_and_has_every_name(tmp_path: Path) -> None:
    pytest.importorskip("pdoc")
    script = [sys.executable, str(ROOT / "scripts" / "docs.py"), "--out", str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "bnfold.html").read_text(encoding="utf-8")
    for name in set(bnfold.__all__) - {"errors", "operators", "passes", "pytorch", "types"}:
        assert f'<section id="{name}">' in page, name
    assert "ConversionBlocked" in (tmp_path / "bnfold" / "errors.html").read_text(encoding="utf-8")
    assert "BatchNormEvent" in (tmp_path / "bnfold" / "types.html").read_text(encoding="utf-8")
    assert "register_operator" in (tmp_path / "bnfold" / "operators.html").read_text(encoding="utf-8")
    assert "FoldBatchNormPass" in (tmp_path / "bnfold" / "passes.html").read_text(encoding="utf-8")
