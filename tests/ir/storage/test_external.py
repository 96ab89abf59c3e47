"""External data is believed only inside the model's own directory, and only if it is all there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import bnfold
from bnfold import analysis, ir
from bnfold.errors import ExternalDataError, MalformedModel
from bnfold.ir.storage.external import MAX_HELD
from tests.conftest import MODELS
from tests.ir.build import model, written

VALUES = np.arange(24, dtype=np.float32).reshape(2, 12)
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """``make(location=…, offset=…)``: a model with one tensor of 2 × 12 floats that says this of its data."""

    def build(folder: str = "m", dtype: int = 1, dims: tuple[int, ...] = (2, 12), **entries: str) -> Path:
        directory = tmp_path / folder
        directory.mkdir(exist_ok=True)
        (directory / "w.bin").write_bytes(VALUES.tobytes())
        tensor = TensorProto(name="w", data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        path = directory / "model.onnx"
        path.write_bytes(model([], [tensor], outputs=["w"]).SerializeToString())
        return path

    return build


def _weight(path: Path) -> ir.Tensor:
    tensor = ir.load(path).graph.values["w"].tensor
    assert tensor is not None
    return tensor


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "w.bin"},
        {"location": "w.bin", "offset": "0", "length": "96"},
        {"location": "./w.bin", "length": "96", "checksum": "unused"},
        {"location": "sub/../w.bin"},
        {"location": "w.bin", "offset": "", "length": ""},
    ],
)
def test_data_beside_the_model_is_read(make: Make, entries: dict[str, str]) -> None:
    path = make(**entries)
    (path.parent / "sub").mkdir()
    tensor = _weight(path)
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    assert isinstance(tensor, ir.Stored)
    assert tensor.is_external


def test_offset_and_length_are_followed(make: Make) -> None:
    path = make(dims=(3, 4), location="w.bin", offset="16", length="48")
    np.testing.assert_array_equal(_weight(path).numpy(), VALUES.reshape(-1)[4:16].reshape(3, 4))


def test_spans_may_overlap_and_be_shared(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    places = {"a": (0, 96), "b": (0, 96), "c": (32, 64)}
    tensors = []
    for name, (offset, length) in places.items():
        tensor = TensorProto(name=name, data_type=1, dims=[length // 4], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": "w.bin", "offset": str(offset), "length": str(length)}.items():
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    path = tmp_path / "model.onnx"
    path.write_bytes(model([], tensors, outputs=list(places)).SerializeToString())
    back = written(ir.load(path), tmp_path / "out.onnx")
    flat = VALUES.reshape(-1)
    for tensor, expected in zip(back.graph.initializer, (flat, flat, flat[8:]), strict=True):
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), expected)
    # The same span is written once, the one inside it again: 96 bytes, padded to 128, and 64.
    assert (tmp_path / "out.onnx.data").stat().st_size == 128 + 64


@pytest.mark.parametrize(
    "location",
    [
        *("../w.bin", "sub/../../w.bin", "../m/../secret.bin", "..", ".", ""),
        *("link", "folder_link/secret.bin", "a\0b", "x" * 5000),
    ],
)
def test_data_elsewhere_is_refused(make: Make, tmp_path: Path, location: str) -> None:
    path = make(location=location)
    for name in ("secret.bin", "w.bin"):
        (tmp_path / name).write_bytes(VALUES.tobytes())
    (path.parent / "link").symlink_to(tmp_path / "secret.bin")
    (path.parent / "folder_link").symlink_to(tmp_path)
    with pytest.raises(ExternalDataError, match=r"outside the model's directory|not a regular file|missing") as caught:
        ir.load(path)
    assert "\n" not in str(caught.value)


def test_an_absolute_path_is_refused_even_inside(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ExternalDataError, match="outside"):
        ir.load(make(location=str(tmp_path / "m" / "w.bin")))


def test_links_in_a_circle_are_refused(make: Make) -> None:
    path = make(location="circle")
    (path.parent / "circle").symlink_to("circle")
    with pytest.raises(ExternalDataError, match=r"missing|outside"):
        ir.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name")
def test_a_pipe_is_refused_without_waiting(make: Make) -> None:
    path = make(location="pipe")
    os.mkfifo(path.parent / "pipe")
    with pytest.raises(ExternalDataError, match="not a regular file"):
        ir.load(path)


def test_a_link_to_a_device_is_refused(make: Make) -> None:
    path = make(location="null")
    (path.parent / "null").symlink_to(os.devnull)
    with pytest.raises(ExternalDataError, match="outside"):
        ir.load(path)


def test_a_directory_is_refused(make: Make) -> None:
    path = make(location="folder")
    (path.parent / "folder").mkdir()
    with pytest.raises(ExternalDataError, match="not a regular file"):
        ir.load(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "4"}, "do not fit"),
        ({"offset": "97"}, "needs bytes"),
        ({"offset": "4", "length": "96"}, "needs bytes"),
        ({"length": "92"}, "do not fit"),
        ({"offset": "-4", "length": "96"}, "not a byte count"),
        ({"length": "96.0"}, "not a byte count"),
        ({"length": "9" * 30}, "not a byte count"),
        ({"length": "٩٦"}, "not a byte count"),
        ({"offset": str(1 << 62), "length": "96"}, "needs bytes"),
    ],
)
def test_spans_that_are_not_there_are_refused(make: Make, entries: dict[str, str], message: str) -> None:
    with pytest.raises((ExternalDataError, MalformedModel), match=message):
        ir.load(make(location="w.bin", **entries))


@pytest.mark.parametrize("dims", [(1 << 40,), (-2, -12), (1 << 62, 1 << 62)])
def test_dims_that_lie_are_refused(make: Make, dims: tuple[int, ...]) -> None:
    with pytest.raises((ExternalDataError, MalformedModel), match="do not fit"):
        ir.load(make(location="w.bin", dims=dims))


@pytest.mark.parametrize(
    ("content", "helps"),
    [
        (b"\0" * 20, "w.bin, which has 20: it is cut off, or another model's"),
        (b"", "w.bin, which has 0: it is cut off, or another model's"),
        (b"version https://git-lfs.github.com/spec/v1\n", "'w.bin' is a Git LFS pointer; run `git lfs pull`"),
    ],
)
def test_data_that_is_cut_off_or_not_fetched_says_what_to_do(make: Make, content: bytes, helps: str) -> None:
    path = make(location="w.bin", offset="0", length="96")
    (path.parent / "w.bin").write_bytes(content)
    with pytest.raises(ExternalDataError, match=helps):
        ir.load(path)


def test_weights_that_were_taken_out_of_the_file_are_named(tmp_path: Path) -> None:
    proto = onnx.load(MODELS / "bn9.onnx")
    for tensor in proto.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
    onnx.save(proto, tmp_path / "stripped.onnx")
    with pytest.raises(
        MalformedModel, match=r"there is none.*The weights were taken out of the file; use the file as it"
    ):
        bnfold.optimize(tmp_path / "stripped.onnx")
    proto.graph.initializer[0].float_data.append(1.0)
    onnx.save(proto, tmp_path / "short.onnx")
    with pytest.raises(MalformedModel, match=r"does not fit its dims \[[^]]*\]"):
        bnfold.optimize(tmp_path / "short.onnx")


def test_missing_data_is_named(make: Make) -> None:
    with pytest.raises(ExternalDataError, match=r"model\.onnx: tensor 'w': external data 'gone\.bin' is missing"):
        ir.load(make(location="gone.bin"))


def test_strings_are_no_external_data(make: Make) -> None:
    with pytest.raises(ExternalDataError, match="strings"):
        ir.load(make(location="w.bin", dtype=TensorProto.STRING))


def test_bytes_have_no_directory_unless_one_is_given(make: Make) -> None:
    path = make(location="w.bin")
    with pytest.raises(ExternalDataError, match="not read from a file"):
        ir.load(path.read_bytes())
    tensor = ir.load(path.read_bytes(), base_dir=path.parent).graph.values["w"].tensor
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), VALUES)


def test_a_model_hub_keeps_links_to_files_side_by_side(make: Make, tmp_path: Path) -> None:
    """``snapshot/model.onnx`` and its data are links into one folder of blobs, under other names."""
    path = make(folder="blobs", location="weights.bin")
    path.rename(tmp_path / "blobs" / "1a2b")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.onnx").symlink_to("../blobs/1a2b")
    (snapshot / "weights.bin").symlink_to("../blobs/w.bin")
    np.testing.assert_array_equal(_weight(snapshot / "model.onnx").numpy(), VALUES)


def test_a_link_to_the_model_finds_its_data(make: Make, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.onnx").symlink_to(make(location="w.bin"))
    np.testing.assert_array_equal(_weight(tmp_path / "elsewhere.onnx").numpy(), VALUES)


def test_data_of_a_tensor_in_an_attribute(make: Make, tmp_path: Path) -> None:
    path = make(location="w.bin")
    tensor = onnx.load(path, load_external_data=False).graph.initializer[0]
    nodes = [onnx.helper.make_node("Constant", [], ["y"], value=tensor)]
    path.write_bytes(model(nodes).SerializeToString())
    loaded = ir.load(path)
    constant = analysis.constant(loaded.graph.values["y"])
    assert constant is not None
    np.testing.assert_array_equal(constant.numpy(), VALUES)
    back = written(loaded, tmp_path / "out.onnx", external_data="none")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(back.graph.node[0].attribute[0].t), VALUES)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts the open descriptors")
def test_a_file_for_every_tensor_needs_few_descriptors(tmp_path: Path) -> None:
    import resource

    count = MAX_HELD + 40
    tensors = []
    for index in range(count):
        (tmp_path / f"w{index}").write_bytes(np.full(3, index, dtype=np.float32).tobytes())
        tensor = TensorProto(name=f"w{index}", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=f"w{index}")
        tensors.append(tensor)
    path = tmp_path / "model.onnx"
    path.write_bytes(model([], tensors, outputs=["w0"]).SerializeToString())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + MAX_HELD + 10, limits[1]))
    try:
        back = written(ir.load(path), tmp_path / "out.onnx", external_data="none")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    firsts = [onnx.numpy_helper.to_array(tensor)[0] for tensor in back.graph.initializer]
    assert firsts == list(range(count))
