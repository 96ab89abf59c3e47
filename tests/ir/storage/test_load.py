"""Everything `ir.load` takes, and everything it refuses with one line."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import bnfold
from bnfold import ir
from bnfold.errors import BadInput, ExternalDataError, MalformedModel
from tests.ir.build import LARGE, chain, everywhere, model, weight


def test_a_path_bytes_and_a_message_are_the_same_model(tmp_path: Path) -> None:
    proto = everywhere()
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    for given in (path, str(path), proto.SerializeToString(), proto):
        loaded = ir.load(given)
        assert [node.op_type for node in loaded.graph.nodes] == [node.op_type for node in proto.graph.node]
        assert loaded.proto.ByteSize() < 6000
        tensor = loaded.graph.values["w"].tensor
        assert tensor is not None
        np.testing.assert_array_equal(tensor.numpy(), onnx.numpy_helper.to_array(proto.graph.initializer[0]))


def test_a_message_given_is_not_touched() -> None:
    proto = everywhere()
    before = proto.SerializeToString()
    loaded = ir.load(proto)
    loaded.graph.remove(loaded.graph.nodes[-1])
    loaded.sync()
    assert proto.SerializeToString() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "not an ONNX model"),
        (b"PK\x03\x04" + bytes(40), "not an ONNX model"),
        (b"<!DOCTYPE html><html><body>Not Found</body></html>", "not an ONNX model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "not an ONNX model"),
        (b'{"ir_version": 8, "graph": {}}', "not an ONNX model"),
        (bytes(100), "not an ONNX model"),
        (b"\x08\x07", "holds no graph"),
        (b"\xff" * 5000, "not an ONNX model"),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(MalformedModel, match=message) as caught:
        ir.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_refused_wherever_it_ends() -> None:
    data = chain(weights=2).SerializeToString()
    # What a file ends with (here the opset imports) may be missing without anybody noticing.
    whole = [length for length in range(1, len(data), 37) if _loads(data[:length])]
    assert not whole


def _loads(data: bytes) -> bool:
    try:
        ir.load(data)
    except MalformedModel:
        return False
    return True


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="directory"):
        ir.load(tmp_path)
    with pytest.raises(BadInput, match="No such file"):
        ir.load(tmp_path / "missing.onnx")
    with pytest.raises(BadInput, match="null byte"):
        ir.load("a\0b")
    with pytest.raises(BadInput, match="no regular file"):
        ir.load(os.devnull)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(chain().SerializeToString())
    path.chmod(0)
    with pytest.raises(BadInput, match="Permission denied"):
        ir.load(path)


@pytest.mark.parametrize("dims", [[LARGE + 1], [LARGE, 0], [-LARGE], [1 << 40], [1 << 62, 1 << 62]])
def test_a_payload_that_does_not_fit_its_dims_is_refused(dims: list[int]) -> None:
    tensor = weight("w", LARGE)
    del tensor.dims[:]
    tensor.dims.extend(dims)
    with pytest.raises(MalformedModel, match=r"tensor 'w': 8192 bytes of data do not fit"):
        ir.load(model([], [tensor]))


def test_a_name_made_twice_is_refused() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]
    with pytest.raises(MalformedModel, match="'y' is made twice"):
        ir.load(model(nodes))


def test_a_model_of_functions_only() -> None:
    proto = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 15)])
    body = [helper.make_node("Relu", ["a"], ["b"])]
    proto.functions.append(helper.make_function("d", "f", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    loaded = ir.load(proto)
    (function,) = loaded.functions
    assert (function.path, function.opset(), [node.op_type for node in function.nodes]) == ("d::f", 17, ["Relu"])
    assert loaded.graph.nodes == []


def test_external_data_without_a_place_is_refused_when_it_is_needed() -> None:
    """Nothing in the file says ``location``: nobody looks, until somebody asks for the tensor."""
    tensor = TensorProto(name="w", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
    with pytest.raises(ExternalDataError, match="'w'"):
        _ = ir.load(model([], [tensor])).graph.values["w"].tensor


def test_a_name_with_the_word_location_is_only_a_name() -> None:
    loaded = ir.load(model([helper.make_node("Relu", ["x"], ["location"])], outputs=["location"]))
    assert not loaded.origin.has_external_data


def test_the_garbage_collector_is_left_as_it_was() -> None:
    data = chain().SerializeToString()
    gc.disable()
    try:
        ir.load(data)
        assert not gc.isenabled()
    finally:
        gc.enable()
    ir.load(data)
    with pytest.raises(MalformedModel):
        ir.load(b"x")
    assert gc.isenabled()


def test_real_models_come_back_as_they_were(corpus: Path, tmp_path: Path) -> None:
    """A spread of the collection; what is loaded and saved again is an equal message."""
    models = sorted(path for path in corpus.rglob("*.onnx") if path.stat().st_size < 2_000_000)
    assert len(models) > 50
    for path in models[::5]:
        ir.save(ir.load(path), tmp_path / "out.onnx")
        assert onnx.load(tmp_path / "out.onnx") == onnx.load(path), path.name


def test_where_data_lies_is_told_whether_or_not_it_is_there(tmp_path: Path) -> None:
    proto = chain()
    for number, location in enumerate(("b.bin", "a/c.bin", "b.bin")):
        tensor = proto.graph.initializer.add(
            name=f"x{number}", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value="0")
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    assert ir.external_locations(path) == ["a/c.bin", "b.bin"]
    path.write_bytes(b"no model")
    with pytest.raises(MalformedModel, match=r"model\.onnx: not an ONNX model"):
        ir.external_locations(path)
    with pytest.raises(BadInput, match="cannot be read"):
        ir.external_locations(tmp_path / "missing.onnx")


@pytest.mark.parametrize("place", ["input", "op_type", "tensor"])
def test_a_name_that_is_not_utf8_is_refused(place: str) -> None:
    proto = chain()
    mark = "A" * 20
    if place == "input":
        proto.graph.node[0].input[0] = mark
    elif place == "op_type":
        proto.graph.node[0].op_type = mark
    else:
        proto.graph.initializer[0].name = mark
    damaged = proto.SerializeToString().replace(mark.encode(), b"\xfb" * 20)
    with pytest.raises(MalformedModel, match=r"\\xfb\\xfb.* not UTF-8"):
        bnfold.inspect(damaged)


def test_a_remark_that_is_not_utf8_stays_as_it_is() -> None:
    proto = chain()
    mark, latin = b"A" * 20, "Größe eines Fensters".encode("latin-1")
    proto.doc_string = proto.producer_name = proto.graph.doc_string = proto.graph.name = mark.decode()
    damaged = proto.SerializeToString().replace(mark, latin)
    assert bnfold.inspect(damaged).to_proto().SerializeToString().count(latin) == 4


def function(name: str, calls: str) -> onnx.FunctionProto:
    inner = helper.make_node(calls, ["x"], ["y"], domain="local")
    branch = helper.make_graph([inner], "b", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return helper.make_function("local", name, ["x", "c"], ["y"], [node], [helper.make_opsetid("", 18)])


@pytest.mark.parametrize("calls", [{"f": "f"}, {"f": "g", "g": "f"}, {"f": "g", "g": "h", "h": "g"}])
def test_functions_that_call_themselves_are_refused(calls: dict[str, str]) -> None:
    proto = chain()
    proto.functions.extend(function(name, called) for name, called in calls.items())
    with pytest.raises(MalformedModel, match="calls itself"):
        ir.load(proto)


def test_functions_that_call_each_other_in_one_direction_are_taken() -> None:
    proto = chain()
    proto.functions.extend(function(name, called) for name, called in {"f": "g", "g": "Relu"}.items())
    assert len(ir.load(proto).functions) == 2


@pytest.mark.parametrize("version", [2**31, 2**62, -(2**40)])
@pytest.mark.parametrize("domain", ["", "com.nobody"])
def test_versions_beyond_all_numbering_are_refused(version: int, domain: str) -> None:
    proto = chain()
    proto.opset_import.add(domain=domain, version=version)
    with pytest.raises(MalformedModel, match=f"no version {version}"):
        ir.load(proto)
    del proto.opset_import[-1]
    proto.functions.append(function("f", "Relu"))
    proto.functions[0].opset_import.add(domain=domain, version=version)
    with pytest.raises(MalformedModel, match=f"no version {version}"):
        ir.load(proto)
