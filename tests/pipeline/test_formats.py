"""Which kind of model a name has, and that nothing is made of one kind that is of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from bnfold import ir
from bnfold.errors import BadInput, BadSetting, Unsupported
from bnfold.interop import openvino
from bnfold.pipeline import formats
from bnfold.settings import Options, OutputOptions, VerifyOptions
from tests.conftest import MODELS
from tests.interop.openvino.text import convolution_and_norm


def test_the_suffix_tells() -> None:
    assert formats.of("a.xml") is formats.of(Path("b/A.XML")) is openvino
    for other in ("a.onnx", Path("xml"), b"a.xml", ir.load(MODELS / "mlp.onnx"), "folder.xml/a"):
        assert formats.of(other) is formats.ONNX


def test_models_of_two_kinds_are_not_compared() -> None:
    with pytest.raises(BadInput, match="cannot be compared"):
        formats.verify_two(Path("a.onnx"), Path("b.xml"), VerifyOptions())


def test_what_a_kind_lacks_cannot_be_asked_of_it(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="MVN"):
        formats.ONNX.check(Options(), None, frozenset({"MVN"}))
    openvino.check(Options(), OutputOptions(tmp_path / "a.xml"), frozenset({"MVN"}))
    with pytest.raises(BadInput, match=r"\.bin"):
        openvino.check(Options(), OutputOptions(tmp_path / "a.xml", external_data="none"), frozenset())
    with pytest.raises(BadInput, match="--target-opset"):
        openvino.check(Options(target_opset=15), None, frozenset())


def test_the_data_file_is_told_before_it_is_written(tmp_path: Path) -> None:
    assert formats.ONNX.data_file(tmp_path / "a.onnx", "auto") == tmp_path / "a.onnx.data"
    assert formats.ONNX.data_file(tmp_path / "a.onnx", "other") == tmp_path / "other"
    assert formats.ONNX.data_file(tmp_path / "a.onnx", "none") is None
    assert formats.of("a.xml").data_file(tmp_path / "a.xml", "auto") == tmp_path / "a.bin"


def test_an_ir_is_no_bytes(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    model = openvino.load(path)
    assert openvino.data_files(model) == [path.with_suffix(".bin")]
    with pytest.raises(Unsupported, match="no ONNX model"):
        openvino.as_onnx(model)
