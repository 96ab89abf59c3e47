"""What the written files hold, and what they do not touch. None of this needs the openvino package."""

from __future__ import annotations

import os
import pickle
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from bnfold import BnfoldError, Options, Outcome, VerifyOptions, fold, optimize, upgrade
from bnfold.errors import OutputError, Unsupported, WrongUsage
from bnfold.interop.openvino.document import Layer, read_document
from bnfold.interop.openvino.load import load
from bnfold.interop.openvino.stage import stage
from bnfold.pipeline.job import process
from bnfold.settings import OutputOptions
from tests.interop.openvino.text import Port, Text, convolution_and_norm

UNCHECKED = VerifyOptions(depth="none")
WINDOW = {"strides": "1,1", "dilations": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "auto_pad": "explicit"}


def layers(path: Path) -> dict[str, Layer]:
    return {layer.name: layer for layer in read_document(path).net.layers.values()}


def test_the_bias_takes_the_name_of_the_value(tmp_path: Path) -> None:
    outcome = optimize(convolution_and_norm().save(tmp_path / "m.xml"), tmp_path / "out.xml", verify=UNCHECKED)
    assert outcome.output == tmp_path / "out.xml"
    found = layers(tmp_path / "out.xml")
    assert {name: layer.type for name, layer in found.items() if layer.type != "Result"} == {
        "x": "Parameter", "kernel": "Const", "conv": "Convolution", "conv/bias": "Const", "bn": "Add"
    }  # fmt: skip
    kernel = read_document(tmp_path / "out.xml").tensor(found["kernel"])
    assert kernel is not None
    gamma, beta, mean, variance = (array.astype(np.float64) for array in _statistics(4))
    s = gamma / np.sqrt(variance + np.float64(np.float32(0.001)))
    old = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    np.testing.assert_array_equal(kernel.numpy(), (old * s.reshape(4, 1, 1, 1)).astype(np.float32))
    bias = read_document(tmp_path / "out.xml").tensor(found["conv/bias"])
    assert bias is not None
    assert bias.dims == (1, 4, 1, 1)
    np.testing.assert_array_equal(bias.numpy().reshape(-1), (beta - mean * s).astype(np.float32))


def _statistics(channels: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    from tests.interop.openvino.text import statistics

    return statistics(channels, 0)


def two_convolutions() -> tuple[Text, Port]:
    """A second convolution that nothing is folded into, beside the one that takes the BatchNormInference in."""
    text = convolution_and_norm()
    kernel = text.constant(np.arange(27, dtype=np.float32).reshape(3, 3, 3, 1), name="other kernel")
    made = text.layer("Convolution", ((0, 0), kernel), (2, 3, 5, 5), name="other", names="a\\,b,c", **WINDOW)
    text.result(made)
    return text, made


def test_what_is_not_touched_stays_to_the_letter(tmp_path: Path) -> None:
    text, _ = two_convolutions()
    path = text.save(tmp_path / "m.xml")
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "</net>", '\t<!-- by hand -->\n\t<rt_info><conversion value="1 &lt; 2"/></rt_info>\n</net>'
        ),
        encoding="utf-8",
    )
    optimize(path, tmp_path / "out.xml", verify=UNCHECKED)
    before, after = (name.read_text(encoding="utf-8") for name in (path, tmp_path / "out.xml"))
    assert "<!-- by hand -->" in after
    assert '<conversion value="1 &lt; 2" />' in after
    old, new = (_canonical(layers(name)["other"].element) for name in (path, tmp_path / "out.xml"))
    assert old == new
    assert before.count("\n\t\t<layer") == len(read_document(path).net.layers)
    assert after.count("\n\t\t<layer") == len(read_document(tmp_path / "out.xml").net.layers)
    document = read_document(tmp_path / "out.xml")
    kernel = document.tensor(layers(tmp_path / "out.xml")["other kernel"])
    assert kernel is not None
    np.testing.assert_array_equal(kernel.numpy().reshape(-1), np.arange(27))


def _canonical(element: ET.Element) -> str:
    return ET.canonicalize(ET.tostring(element, encoding="unicode"), strip_text=True)


def test_a_file_without_anything_to_do_is_written_as_it_was(tmp_path: Path) -> None:
    text = Text()
    text.result(text.layer("ReLU", (text.parameter((2, 3)),), (2, 3)))
    path = text.save(tmp_path / "m.xml")
    optimize(path, tmp_path / "out.xml", verify=UNCHECKED)
    assert _canonical(ET.parse(path).getroot()) == _canonical(ET.parse(tmp_path / "out.xml").getroot())
    assert not (tmp_path / "out.bin").exists()


def test_twice_is_once_and_gives_the_same_bytes(tmp_path: Path) -> None:
    path = two_convolutions()[0].save(tmp_path / "m.xml")
    for name in ("a", "b"):
        optimize(path, tmp_path / f"{name}.xml", verify=UNCHECKED)
    optimize(tmp_path / "a.xml", tmp_path / "c.xml", verify=UNCHECKED)
    for suffix in (".xml", ".bin"):
        first, second, third = ((tmp_path / name).with_suffix(suffix).read_bytes() for name in "abc")
        assert first == second
        assert first == third


def test_constants_that_shared_bytes_go_on_doing_so(tmp_path: Path) -> None:
    text = Text()
    x = text.parameter((2, 3))
    held = text.constant(np.arange(3, dtype=np.float32))
    text.layers.append(text.layers[held[0]].replace('id="1"', 'id="2"').replace("Const_1", "twin"))
    text.dims[2, 0] = text.dims[held]
    made = text.layer("Add", (text.layer("Multiply", (x, held), (2, 3)), (2, 0)), (2, 3))
    text.result(made)
    optimize(text.save(tmp_path / "m.xml"), tmp_path / "out.xml", verify=UNCHECKED)
    document = read_document(tmp_path / "out.xml")
    assert len({document.span(layer) for layer in document.constants()}) == 1
    assert (tmp_path / "out.bin").stat().st_size == 12


def test_constants_that_overlap_are_left_where_they_are(tmp_path: Path) -> None:
    text, _ = two_convolutions()
    path = text.save(tmp_path / "m.xml")
    spans = [f'offset="{offset}" size="432"' for offset in (4, 8, 12)]
    whole = path.read_text(encoding="utf-8")
    for number, span in enumerate(spans):  # three constants that nobody reads, on top of one another
        extra = (
            f'<layer id="9{number}" name="extra{number}" type="Const" version="opset1">'
            f'<data element_type="f32" shape="4,3,3,3" {span}/><output><port id="0" precision="FP32"/></output></layer>'
        )
        whole = whole.replace("\t</layers>", extra + "\t</layers>", 1)
    path.write_text(whole, encoding="utf-8")
    optimize(path, tmp_path / "out.xml", verify=UNCHECKED)
    kept = (tmp_path / "out.bin").read_bytes()
    assert kept.startswith(path.with_suffix(".bin").read_bytes())
    assert len(kept) < 2 * len(text.data) + 1024


def test_version_0_becomes_version_5(tmp_path: Path) -> None:
    text = Text()
    made = text.layer("Sigmoid", (text.parameter((2, 3, 4)),), (2, 3, 4))
    text.result(text.layer("Sigmoid", (text.norm(made, opset="opset1", epsilon=0.01),), (2, 3, 4)))
    path = text.save(tmp_path / "m.xml")
    outcome = upgrade(path, tmp_path / "out.xml", verify=UNCHECKED)
    (event,) = outcome.report.batchnorms
    assert (event.version, event.verdict) == (0, "upgraded")
    assert (outcome.report.opset_before, outcome.report.opset_after) == (1, 5)
    layer = layers(tmp_path / "out.xml")["bn"]
    assert layer.opset == 5
    assert [len(port.findall("dim")) for port in layer.ports("input")] == [3, 1, 1, 1, 1]
    old, new = load(path), load(tmp_path / "out.xml")
    for first, second in zip(_norm(old), _norm(new), strict=True):
        np.testing.assert_array_equal(first, second)
    kept = fold(path, tmp_path / "kept.xml", verify=UNCHECKED)
    assert kept.report.batchnorms[0].verdict == "kept"
    assert layers(tmp_path / "kept.xml")["bn"].opset == 1


def _norm(model: object) -> list[object]:
    nodes = [node for node in model.nodes() if node.is_op("BatchNormalization")]  # type: ignore[attr-defined]
    return [value.tensor.numpy() for value in nodes[0].inputs[1:]]


def test_an_identity_leaves_both_names_on_one_port(tmp_path: Path) -> None:
    text = Text()
    made = text.layer("Sigmoid", (text.parameter((2, 3)),), (2, 3), names="first")
    zero = text.constant(np.zeros(3, np.float32))
    one = text.constant(np.ones(3, np.float32))
    inputs = (made, one, zero, zero, one)
    idle = text.layer("BatchNormInference", inputs, (2, 3), name="idle", opset="opset5", names="second", epsilon=0)
    text.result(idle)
    text.result(made)
    outcome = optimize(text.save(tmp_path / "m.xml"), tmp_path / "out.xml", verify=UNCHECKED)
    assert outcome.report.batchnorms[0].verdict == "removed"
    (port,) = layers(tmp_path / "out.xml")["Sigmoid_1"].ports("output")
    assert port.get("names") == "first,second"


def test_in_place_only_when_asked(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    with pytest.raises(OutputError, match="in_place=True"):
        optimize(path, path, verify=UNCHECKED)
    process(path, OutputOptions(path, in_place=True), Options(), UNCHECKED)
    assert [layer.type for layer in layers(path).values()].count("BatchNormInference") == 0
    assert sorted(os.listdir(tmp_path)) == ["m.bin", "m.xml"]  # noqa: PTH208 - names are what is meant


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    room = import_module("bnfold.interop.openvino.stage")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(room, "write_payload", fail)
    with pytest.raises(OutputError, match="no space"):
        optimize(path, tmp_path / "out.xml", verify=UNCHECKED)
    assert sorted(os.listdir(tmp_path)) == ["m.bin", "m.xml"]  # noqa: PTH208 - as above


def test_a_weight_that_overflows_declines_its_fold(tmp_path: Path) -> None:
    """It shows only while it is written: the run begins anew without that fold."""
    text = Text()
    x = text.parameter((2, 3, 7, 5))
    kernel = np.full((4, 3, 3, 3), 3e38, np.float32)
    made = text.layer("Convolution", (x, text.constant(kernel)), (2, 4, 5, 3), name="conv", **WINDOW)
    vectors = [np.full(4, value, np.float32) for value in (8.0, 0.0, 0.0, 1.0)]
    inputs = (made, *map(text.constant, vectors))
    text.result(text.layer("BatchNormInference", inputs, (2, 4, 5, 3), name="bn", opset="opset5", epsilon=0))
    outcome = optimize(text.save(tmp_path / "m.xml"), tmp_path / "out.xml", verify=UNCHECKED)
    (event,) = outcome.report.batchnorms
    assert event.verdict == "kept"
    assert event.reason is not None
    assert event.reason.code == "range"


def test_formats_are_not_converted(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    with pytest.raises(WrongUsage, match="does not convert"):
        optimize(path, tmp_path / "out.onnx", verify=UNCHECKED)
    with pytest.raises(Unsupported, match="no ONNX model"):
        in_memory(path).to_proto()


def in_memory(path: Path) -> Outcome:
    return optimize(path, verify=UNCHECKED)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"target_opset": 15}, "target_opset="), ({"overridable": "freeze"}, "are about ONNX")],
)
def test_options_that_an_ir_knows_nothing_of(tmp_path: Path, options: dict[str, object], message: str) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    with pytest.raises(BnfoldError, match=message):
        optimize(path, options=Options(**options), verify=UNCHECKED)  # type: ignore[arg-type]


def test_external_data_is_about_onnx(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    with pytest.raises(BnfoldError, match=r"in its \.bin"):
        process(path, OutputOptions(tmp_path / "out.xml", external_data="none"), Options(), UNCHECKED)


def test_a_decomposition_over_an_unknown_rank_is_one_line(tmp_path: Path) -> None:
    text = Text()
    x = text.layer("Parameter", (), (), name="x", names="x", shape="...", element_type="f32")
    inputs = (x, *map(text.constant, _statistics(4)))
    text.result(text.layer("BatchNormInference", inputs, (), name="bn", opset="opset5", epsilon=0.1))
    path = text.save(tmp_path / "m.xml")
    assert fold(path, tmp_path / "out.xml", verify=UNCHECKED).report.batchnorms[0].verdict == "kept"
    with pytest.raises(Unsupported, match="leave out decompose="):
        fold(path, tmp_path / "out.xml", verify=UNCHECKED, decompose="remaining")


def test_staging_twice_gives_the_same(tmp_path: Path) -> None:
    model = load(convolution_and_norm().save(tmp_path / "m.xml"))
    contents = []
    for _ in range(2):
        with stage(model, OutputOptions(tmp_path / "out.xml")) as staged:
            contents.append((staged.path.read_bytes(), staged.path.with_suffix(".bin").read_bytes()))
    assert contents[0] == contents[1]
    assert not (tmp_path / "out.xml").exists()


def test_an_empty_constant_has_a_byte_all_the_same(tmp_path: Path) -> None:
    text = Text()
    text.data = b"\0"
    empty = text.layer(
        "Const", (), (0,), name="empty", precision="I64", element_type="i64", shape="0", offset=0, size=1
    )
    text.result(text.layer("Reshape", (text.norm(text.parameter((1, 1)), epsilon=1), empty), (), special_zero="false"))
    optimize(text.save(tmp_path / "m.xml"), tmp_path / "out.xml", verify=UNCHECKED)
    layer = layers(tmp_path / "out.xml")["empty"]
    assert layer.data["size"] == "1"
    tensor = read_document(tmp_path / "out.xml").tensor(layer)
    assert tensor is not None
    assert tensor.numpy().shape == (0,)


def test_an_outcome_is_pickled_and_written_again(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    outcome = in_memory(path)
    stored = pickle.dumps(outcome)
    outcome.save(tmp_path / "first.xml")
    again = pickle.loads(stored)
    assert again.to_json() == outcome.to_json()
    again.save(tmp_path / "second.xml")
    for suffix in (".xml", ".bin"):
        first, second = (tmp_path / f"{name}{suffix}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
    assert "BatchNormInference" not in (tmp_path / "second.xml").read_text(encoding="utf-8")
    with pytest.raises(Unsupported, match="no ONNX model"):
        again.to_onnx_ir()
