"""Recognise files that are no ONNX models by their first bytes, and advise what to do; for the error message only."""

from __future__ import annotations

import re

from bnfold.ir.storage.source import Source

LFS_POINTER = b"version https://git-lfs"
"""What a file begins with that stands for one that Git LFS has not fetched."""
_HEAD = 512

_EXPORT = "export it to ONNX first"
_UNPACK = "unpack it first"
_SIGNATURES: tuple[tuple[int, bytes, str, str], ...] = (
    (0, LFS_POINTER, "a Git LFS pointer, not the model itself", "run `git lfs pull`"),
    (0, b"\x1f\x8b", "compressed by gzip", _UNPACK),
    (0, b"BZh", "compressed by bzip2", _UNPACK),
    (0, b"\xfd7zXZ\x00", "compressed by xz", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"\x93NUMPY", "an array of numpy's", "the model is another file"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", f"{_EXPORT}, for example with tf2onnx"),
    (4, b"TFL3", "a TensorFlow Lite model", f"{_EXPORT}, for example with tf2onnx"),
    (4, b"ORTM", "in ONNX Runtime's ORT format", "use the .onnx file that it was made from"),
    (0, b"ftrt", "a TensorRT engine", "use the .onnx file that it was made from"),
    (8, b'{"', "a safetensors file: weights without a network", f"load it into its network and {_EXPORT}"),
)
_PYTORCH = ("a PyTorch file", "load it and export it with torch.onnx.export")
_ZIP, _PICKLES = b"PK\x03\x04", (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def describe(source: Source) -> str:
    """Return ``a gzip file; unpack it first``, or nothing where the bytes look like nothing known."""
    head = source.read(0, min(_HEAD, source.size))
    for offset, signature, kind, remedy in _SIGNATURES:
        if head[offset : offset + len(signature)] == signature:
            return f"{kind}; {remedy}"
    if head.startswith(_PICKLES):
        return "; ".join(_PYTORCH)
    if head.startswith(_ZIP):
        return "; ".join(_zip(head))
    return _protobuf(head) or _text(head)


def _protobuf(head: bytes) -> str:
    """Recognise messages of other frameworks by their first fields.

    An ONNX model begins with a number, then a text.
    """
    tensorflow, core_ml = f"a TensorFlow model; {_EXPORT}, for example with tf2onnx", f"a Core ML model; {_EXPORT}"
    if re.match(rb"\x0a[\x00-\xff]{1,5}?\x0a.[\x20-\x7e]+\x12.[A-Z][A-Za-z0-9]+", head, re.DOTALL):
        return tensorflow  # a node with a name and an operator
    if re.match(rb"\x08\x01\x12[\x00-\xff]{1,5}?\x0a", head, re.DOTALL) and b"serve" in head:
        return tensorflow
    return core_ml if re.match(rb"\x08[\x01-\x0f]\x12[\x80-\xff]{0,4}[\x00-\x7f]\x0a", head, re.DOTALL) else ""


def _zip(head: bytes) -> tuple[str, str]:
    """Recognise a zip archive: its first entry shows which program wrote it."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith((b"data.pkl", b"/version", b".data/serialization_id")):
        return _PYTORCH
    if name in (b"metadata.json", b"config.json", b"model.weights.h5"):
        return "a Keras file", f"{_EXPORT}, for example with tf2onnx"
    if name.endswith(b".npy"):
        return "an .npz archive of arrays", "the model is another file"
    return "a zip archive", _UNPACK


def _text(head: bytes) -> str:
    """Recognise a page or a text that was saved under the model's name.

    A model's first bytes are control characters.
    """
    try:
        text = head.decode("ascii")
    except UnicodeDecodeError:
        return ""
    if not all(character.isprintable() or character in "\t\r\n" for character in text):
        return ""
    start = text.lstrip().lower()
    if start.startswith(("<!doctype html", "<html")):
        return "a web page; the download did not give the file itself"
    if start.startswith("<?xml"):
        return "an XML file"
    if start.startswith(("ir_version", "graph {", "producer_name")):
        return "a model in protobuf's text form; encode it with onnx.load(path, format='textproto') and onnx.save"
    return "a text file"
