"""Where weights go: into the model or into a data file, under which name, and what becomes of older ones."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir
from bnfold.errors import OutputError
from bnfold.ir.storage.save import encode, stage
from bnfold.ir.tensor import Exact, Scaled
from tests.ir.build import LARGE, chain, info, model, names, read, weight, written

save_module = sys.modules["bnfold.ir.storage.save"]  # `bnfold.ir.save` itself is the function


def test_none_brings_all_weights_in(place: Path) -> None:
    onnx.save(chain(), place / "in.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert written(ir.load(place / "in.onnx"), place / "out.onnx", external_data="none") == chain()
    assert names(place) == {"in.onnx", "w.bin", "out.onnx"}


@pytest.mark.parametrize("external", ["auto", "keep"])
def test_external_data_stays_external(place: Path, external: str) -> None:
    onnx.save(chain(), place / "in.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert written(ir.load(place / "in.onnx"), place / "out.onnx", external_data=external) == chain()
    assert names(place) == {"in.onnx", "w.bin", "out.onnx", "out.onnx.data"}
    skeleton = onnx.load(place / "out.onnx", load_external_data=False)
    for position, tensor in enumerate(skeleton.graph.initializer):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        assert entries == {"location": "out.onnx.data", "offset": str(position * 8192), "length": "8192"}


def test_keep_leaves_inside_what_was_inside(place: Path) -> None:
    proto = chain(weights=3)
    onnx.external_data_helper.set_external_data(proto.graph.initializer[1], "w.bin", 0, 4 * LARGE)
    (place / "w.bin").write_bytes(proto.graph.initializer[1].raw_data)
    proto.graph.initializer[1].ClearField("raw_data")
    (place / "in.onnx").write_bytes(proto.SerializeToString())
    for external, expected in (("keep", [0, 1, 0]), ("auto", [1, 1, 1]), ("none", [0, 0, 0])):
        ir.save(ir.load(place / "in.onnx"), place / "out.onnx", external_data=external)
        skeleton = onnx.load(place / "out.onnx", load_external_data=False)
        assert [tensor.data_location for tensor in skeleton.graph.initializer] == expected
        assert read(place / "out.onnx") == chain(weights=3)


def test_a_named_data_file_takes_the_weights_of_a_size(place: Path) -> None:
    proto = model([], [weight("a", 10), weight("b", 500), weight("c", 1500), weight("d", 3000)], outputs=["a"])
    typed = helper.make_tensor("e", TensorProto.FLOAT16, (1600,), np.arange(1600, dtype=np.float16))
    proto.graph.initializer.append(typed)
    for threshold, outside in ((0, "abcde"), (1, "abcde"), (41, "bcde"), (3201, "cd"), (4096, "cd"), (12_001, "")):
        target = place / f"{threshold}.onnx"
        ir.save(ir.load(proto), target, external_data=f"w{threshold}", size_threshold=threshold)
        skeleton = onnx.load(target, load_external_data=False)
        assert "".join(tensor.name for tensor in skeleton.graph.initializer if tensor.data_location) == outside
        back = read(target)
        for tensor, expected in zip(back.graph.initializer, proto.graph.initializer, strict=True):
            np.testing.assert_array_equal(numpy_helper.to_array(tensor), numpy_helper.to_array(expected))
            assert tensor.data_type == expected.data_type
        assert (place / f"w{threshold}").exists() == bool(outside)
        onnx.checker.check_model(target)


def test_typed_fields_become_raw_data_outside(place: Path) -> None:
    proto = model([], [], outputs=["a"])
    kinds = {"a": TensorProto.FLOAT16, "b": TensorProto.INT8, "c": TensorProto.INT4, "d": TensorProto.UINT64}
    for name, dtype in kinds.items():
        values = (np.arange(9001) % 5).astype(helper.tensor_dtype_to_np_dtype(dtype))
        proto.graph.initializer.append(helper.make_tensor(name, dtype, (9001,), values))
    back = written(proto, place / "m.onnx", external_data="w.bin")
    skeleton = onnx.load(place / "m.onnx", load_external_data=False)
    for tensor, stored, given in zip(
        back.graph.initializer, skeleton.graph.initializer, proto.graph.initializer, strict=True
    ):
        assert not stored.int32_data
        assert not stored.uint64_data
        np.testing.assert_array_equal(
            numpy_helper.to_array(tensor).astype(np.int64), numpy_helper.to_array(given).astype(np.int64)
        )


def test_constants_stay_in_the_model_unless_they_came_from_outside(place: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], value=weight("", LARGE)),
        helper.make_node("Add", ["k", "w"], ["y"]),
    ]
    proto = model(nodes, [weight("w", LARGE)])
    ir.save(ir.load(proto), place / "m.onnx", external_data="w.bin")
    skeleton = onnx.load(place / "m.onnx", load_external_data=False)
    assert not skeleton.graph.node[0].attribute[0].t.data_location
    onnx.save(proto, place / "in.onnx", save_as_external_data=True, location="i.bin", convert_attribute=True)
    ir.save(ir.load(place / "in.onnx"), place / "n.onnx")
    skeleton = onnx.load(place / "n.onnx", load_external_data=False)
    assert skeleton.graph.node[0].attribute[0].t.data_location == TensorProto.EXTERNAL
    assert read(place / "n.onnx") == read(place / "in.onnx")


def test_beyond_the_limit_of_protobuf_weights_go_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered; what it takes to fit decides whether constants go out too."""
    branch = helper.make_graph([], "branch", [], [info("k", "N")], [weight("k", LARGE)])
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("Constant", [], ["k"], value=weight("", LARGE)),
        helper.make_node("Sum", ["k", "w", "i"], ["y"]),
    ]
    proto = model(nodes, [weight("w", LARGE)], inputs=["c"])
    for limit, files in ((40_000, {"m.onnx"}), (20_000, {"m.onnx", "m.onnx.data"}), (4_000, {"m.onnx", "m.onnx.data"})):
        monkeypatch.setattr(save_module, "PROTOBUF_LIMIT", limit)
        assert written(proto, place / "m.onnx") == proto
        assert names(place) == files
        assert (place / "m.onnx").stat().st_size <= limit
        for path in place.iterdir():
            path.unlink()
    for external in ("none", "keep"):
        with pytest.raises(OutputError, match="2 GB"):
            ir.save(ir.load(proto), place / "m.onnx", external_data=external)
    monkeypatch.setattr(save_module, "PROTOBUF_LIMIT", 100)
    for external in ("auto", "w.bin"):
        with pytest.raises(OutputError, match="2 GB"):
            ir.save(ir.load(proto), place / "m.onnx", external_data=external)
    with pytest.raises(OutputError, match="2 GB"):
        encode(ir.load(proto))
    assert names(place) == set()


@pytest.mark.parametrize("name", ["", ".", "..", "../w", "a/b", "a\\b", "/w", "m.onnx", "a\0b"])
def test_a_data_file_lies_beside_the_model(place: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot name the data file"):
        ir.save(ir.load(chain()), place / "m.onnx", external_data=name)
    assert names(place) == set()


def test_a_name_taken_by_something_else_is_left_alone(place: Path) -> None:
    for taken in ("m.onnx.data", "w.bin"):
        (place / taken).write_bytes(b"something else")
    ir.save(ir.load(chain()), place / "m.onnx", external_data="w.bin")
    (data,) = names(place) - {"m.onnx", "m.onnx.data", "w.bin"}
    assert (place / "w.bin").read_bytes() == b"something else"
    assert data.startswith("w.")
    assert data.endswith(".bin")
    assert read(place / "m.onnx") == chain()
    ir.save(ir.load(chain()), place / "m.onnx", external_data="w.bin")
    assert names(place) == {"m.onnx", "m.onnx.data", "w.bin", data}


def test_the_data_file_of_the_model_that_is_replaced_goes(place: Path) -> None:
    first, second = ir.load(chain(weights=2)), ir.load(chain(weights=3))
    target = place / "m.onnx"
    ir.save(first, target, external_data="m.onnx.data")
    staged = stage(second, target, external_data="m.onnx.data")
    assert read(target) == chain(weights=2)  # until the rename, the old model and its data are there
    assert len(names(place)) == 4
    staged.commit()
    assert read(target) == chain(weights=3)
    assert len(names(place)) == 2
    ir.save(first, target, external_data="m.onnx.data")
    assert names(place) == {"m.onnx", "m.onnx.data"}
    ir.save(second, target, external_data="none")
    assert names(place) == {"m.onnx"}


def test_discarding_keeps_a_data_file_that_was_there(place: Path) -> None:
    target = place / "m.onnx"
    ir.save(ir.load(chain()), target, external_data="w.bin")
    stage(ir.load(chain()), target, external_data="w.bin").discard()
    assert read(target) == chain()
    with stage(ir.load(chain()), target, external_data="w.bin") as staged:
        (place / "w.bin").unlink()
        with pytest.raises(OutputError, match="removed"):
            staged.commit()


@pytest.mark.parametrize("change", ["nothing", "a byte", "the end"])
def test_a_data_file_is_written_only_if_it_changes(place: Path, change: str) -> None:
    target, data = place / "m.onnx", place / "w.bin"
    ir.save(ir.load(chain()), target, external_data="w.bin")
    content = data.read_bytes()
    if change == "a byte":
        data.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    elif change == "the end":
        data.write_bytes(content + b"more")
    before = data.stat()
    told = list[int]()
    with stage(ir.load(chain()), target, external_data="w.bin", progress=told.append) as staged:
        assert (staged.data_path == data) == (change == "nothing")
        staged.commit()
    if change == "nothing":
        assert (data.stat().st_ino, data.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert read(target) == chain()
    assert sum(told) >= sum(len(tensor.raw_data) for tensor in chain().graph.initializer)


def test_a_computed_weight_is_compared_too(place: Path) -> None:
    for factor, is_new in ((2.0, True), (2.0, False), (3.0, True)):
        model = ir.load(chain())
        value = model.graph.values["w0"]
        assert value.tensor is not None
        value.tensor = Scaled(value.tensor, [(0, np.full(LARGE, factor))])
        old = {path: path.stat().st_ino for path in place.iterdir()}
        with stage(model, place / "m.onnx", external_data="w.bin") as staged:
            assert (staged.data_path not in old) == is_new
            staged.commit()


def test_data_files_of_others_stay(place: Path) -> None:
    """Only names of ours go, even if the old model refers to more."""
    onnx.save(chain(), place / "m.onnx", save_as_external_data=True, location="shared.bin", size_threshold=0)
    ir.save(ir.load(place / "m.onnx"), place / "m.onnx")
    assert names(place) == {"m.onnx", "m.onnx.data", "shared.bin"}
    assert read(place / "m.onnx") == chain()


@pytest.mark.parametrize("copy", ["copy.onnx", "m.onnx.bak"])
def test_a_copy_of_the_model_keeps_the_data_that_it_shares(place: Path, copy: str) -> None:
    """Whoever copies m.onnx as a backup has two models on one data file; m.onnx is then made anew from the copy."""
    ir.save(ir.load(chain(weights=3)), place / "m.onnx", external_data="m.onnx.data")
    shutil.copy(place / "m.onnx", place / copy)
    for _ in range(2):
        loaded = ir.load(place / copy)
        loaded.graph.values["w0"].tensor = Exact(TensorProto.FLOAT, np.zeros(LARGE))
        ir.save(loaded, place / "m.onnx")
        assert read(place / copy) == chain(weights=3)
        assert read(place / "m.onnx") != chain(weights=3)
    assert len(names(place)) == 4


def test_a_model_written_over_itself_leaves_a_copy_its_data(place: Path) -> None:
    ir.save(ir.load(chain(weights=3)), place / "m.onnx", external_data="m.onnx.data")
    shutil.copy(place / "m.onnx", place / "copy.onnx")
    (place / "broken.onnx").write_bytes(b"no model")
    for _ in range(2):
        loaded = ir.load(place / "m.onnx")
        loaded.graph.values["w1"].tensor = Exact(TensorProto.FLOAT, np.zeros(LARGE))
        ir.save(loaded, place / "m.onnx")
        assert read(place / "copy.onnx") == chain(weights=3)
    assert len(names(place) - {"m.onnx", "copy.onnx", "broken.onnx", "m.onnx.data"}) == 1


def test_weights_of_a_page_start_on_a_page(place: Path) -> None:
    proto = model([], [weight("a", 3), weight("b", 1025), weight("c", 5), weight("d", 2000)], outputs=["a"])
    ir.save(ir.load(proto), place / "m.onnx", external_data="w.bin", size_threshold=1)
    skeleton = onnx.load(place / "m.onnx", load_external_data=False)
    offsets = [
        int(entry.value) for one in skeleton.graph.initializer for entry in one.external_data if entry.key == "offset"
    ]
    assert offsets == [0, 4096, 8256, 12288]
