"""What is said about files that are no ONNX models: what they are, and what to do."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from bnfold.errors import CutOffModel, MalformedModel
from bnfold.ir.storage.load import load
from tests.conftest import MODELS


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as written:
        for name in names:
            written.writestr(name, b"\x80\x02}")
    return stream.getvalue()


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as written:
        written.add(MODELS / "bn9.onnx", "model.onnx")
    return stream.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.mark.parametrize(
    ("content", "kind", "remedy"),
    [
        (LFS, "Git LFS pointer", "git lfs pull"),
        (b"\x1f\x8b\x08" + bytes(20), "gzip", "unpack"),
        (b"BZh91AY", "bzip2", "unpack"),
        (b"\xfd7zXZ\x00\x00", "xz", "unpack"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd", "unpack"),
        (b"7z\xbc\xaf\x27\x1c\x00", "7-Zip", "unpack"),
        (tar(), "tar archive", "unpack"),
        (archive("model.onnx"), "zip archive", "unpack"),
        (archive("net/data.pkl", "net/version"), "PyTorch", "torch.onnx.export"),
        (archive("archive/version"), "PyTorch", "torch.onnx.export"),
        (b"\x80\x02}q\x00.", "PyTorch", "torch.onnx.export"),
        (archive("config.json"), "Keras", "tf2onnx"),
        (archive("x.npy"), ".npz", "another file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "HDF5", "tf2onnx"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(50), "TensorFlow Lite", "tf2onnx"),
        (b"\x20\x00\x00\x00ORTM" + bytes(50), "ORT format", ".onnx file"),
        (b"ftrt" + bytes(50), "TensorRT", ".onnx file"),
        (b"\x93NUMPY\x01\x00v\x00", "array of numpy", "another file"),
        (b"\x0a\x1a\x0a\x05input\x12\x0bPlaceholder" + bytes(9), "TensorFlow", "tf2onnx"),
        (b"\x08\x01\x12\xac\x02\x0a\x10\x22\x05serve" + bytes(300), "TensorFlow", "tf2onnx"),
        (b"\x08\x04\x12\x1e\x0a\x0b\x0a\x05image" + bytes(40), "Core ML", "export"),
        (b'\x08\x00\x00\x00\x00\x00\x00\x00{"a":{}}', "safetensors", "export"),
        (b"<!DOCTYPE html>\n<html></html>", "web page", "download"),
        (b'<?xml version="1.0"?><net/>', "XML", ""),
        (b"ir_version: 7\ngraph {\n}\n", "text form", "onnx.save"),
        (b"hello, I am a text file\n", "text file", ""),
    ],
)
def test_a_known_kind_of_file_is_named(content: bytes, kind: str, remedy: str) -> None:
    with pytest.raises(MalformedModel) as told:
        load(content)
    text = str(told.value)
    assert text.startswith("the data: not an ONNX model: ")
    assert kind in text
    assert remedy in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "content",
    [(MODELS / "bn9.onnx").read_bytes()[:-40], b"\x08\x08", bytes(range(1, 40)), b"\xff"],
    ids=["truncated", "no graph", "noise", "one byte"],
)
def test_what_looks_like_nothing_known_may_be_a_damaged_model(content: bytes) -> None:
    with pytest.raises(MalformedModel, match=r"not an ONNX model, or a damaged one|is cut off"):
        load(content)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_no_model_is_taken_for_something_else(path: object) -> None:
    load(str(path))


@pytest.mark.parametrize("share", [0.4, 0.7, 0.999])
def test_a_file_that_is_cut_off_says_so(share: float, tmp_path: Path) -> None:
    whole = (MODELS / "resnet_opset6.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(CutOffModel) as caught:
        load(tmp_path / "cut.onnx")
    found = re.search(
        r"cut.onnx: is cut off: ([\d,]+) of ([\d,]+) bytes. Download or export it again$", str(caught.value)
    )
    assert found is not None
    here, wanted = (int(number.replace(",", "")) for number in found.groups())
    assert here == int(len(whole) * share)
    assert here < wanted <= len(whole)
