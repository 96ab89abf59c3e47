"""The protobuf wire format of ONNX, as far as tensors are concerned: which messages lead to one, and how to write one.

Source: https://protobuf.dev/programming-guides/encoding; the field numbers are those of onnx's own descriptors.
"""

from __future__ import annotations

import onnx

TP = onnx.TensorProto
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 96  # protobuf itself refuses messages nested more than 100 deep


MODEL, ATTRIBUTE, TENSOR = "ModelProto", "AttributeProto", "TensorProto"
_HOLDERS = {
    kind.DESCRIPTOR.name: kind.DESCRIPTOR
    for kind in (
        *(onnx.ModelProto, onnx.TrainingInfoProto, onnx.GraphProto, onnx.NodeProto, onnx.AttributeProto),
        *(onnx.FunctionProto, onnx.SparseTensorProto, onnx.TensorProto),
    )
}
CHILDREN: dict[str, dict[int, str]] = {
    name: {
        field.number: field.message_type.name
        for field in descriptor.fields
        if field.message_type is not None and field.message_type.name in _HOLDERS
    }
    for name, descriptor in _HOLDERS.items()
}
"""By kind of message: its fields that can hold, directly or deeper, a tensor, and what kind of message they are."""

FLOAT_DATA, INT32_DATA, INT64_DATA, RAW_DATA, DOUBLE_DATA, UINT64_DATA = 4, 5, 7, 9, 10, 11
PAYLOAD_FIELDS = frozenset({FLOAT_DATA, INT32_DATA, INT64_DATA, RAW_DATA, DOUBLE_DATA, UINT64_DATA})


def varint(value: int) -> bytes:
    """Encode an unsigned integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def length_prefix(field: int, length: int) -> bytes:
    """Return tag and length of a length-delimited field."""
    if field < 16 and length < 128:
        return bytes((field << 3 | BYTES, length))
    return varint(field << 3 | BYTES) + varint(length)


def record(field: int, content: bytes) -> bytes:
    """Return a whole length-delimited field."""
    return length_prefix(field, len(content)) + content


def external_fields(location: str, offset: int, length: int) -> bytes:
    """Return the fields of a TensorProto that say where its external data lies."""
    entries = (("location", location), ("offset", str(offset)), ("length", str(length)))
    told = [onnx.StringStringEntryProto(key=key, value=text) for key, text in entries]
    return bytes(TP(external_data=told, data_location=TP.EXTERNAL).SerializeToString())
