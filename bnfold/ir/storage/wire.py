"""The protobuf wire format of ONNX, as far as tensors are concerned: which messages lead to one, and how to write one.

Source: https://protobuf.dev/programming-guides/encoding and the field numbers of onnx.proto3.
"""

from __future__ import annotations

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 96  # protobuf itself refuses messages nested more than 100 deep


class Message:
    """A message kind: which of its length-delimited fields can hold, directly or deeper, a tensor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: dict[int, Message] = {}

    def __repr__(self) -> str:
        return self.name


MODEL = Message("ModelProto")
TRAINING = Message("TrainingInfoProto")
GRAPH = Message("GraphProto")
NODE = Message("NodeProto")
ATTRIBUTE = Message("AttributeProto")
FUNCTION = Message("FunctionProto")
SPARSE = Message("SparseTensorProto")
TENSOR = Message("TensorProto")

MODEL.children = {7: GRAPH, 20: TRAINING, 25: FUNCTION}
TRAINING.children = {1: GRAPH, 2: GRAPH}
GRAPH.children = {1: NODE, 5: TENSOR, 15: SPARSE}
NODE.children = {5: ATTRIBUTE}
ATTRIBUTE.children = {5: TENSOR, 6: GRAPH, 10: TENSOR, 11: GRAPH, 22: SPARSE, 23: SPARSE}
FUNCTION.children = {7: NODE, 11: ATTRIBUTE}
SPARSE.children = {1: TENSOR, 2: TENSOR}

FLOAT_DATA, INT32_DATA, INT64_DATA, RAW_DATA, DOUBLE_DATA, UINT64_DATA = 4, 5, 7, 9, 10, 11
EXTERNAL_DATA, DATA_LOCATION = 13, 14
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
    """Tag and length of a length-delimited field."""
    if field < 16 and length < 128:
        return bytes((field << 3 | BYTES, length))
    return varint(field << 3 | BYTES) + varint(length)


def record(field: int, content: bytes) -> bytes:
    """A whole length-delimited field."""
    return length_prefix(field, len(content)) + content


def external_fields(location: str, offset: int, length: int) -> bytes:
    """The fields of a TensorProto that say where its external data lies."""
    entries = (("location", location), ("offset", str(offset)), ("length", str(length)))
    encoded = (record(EXTERNAL_DATA, record(1, key.encode()) + record(2, text.encode())) for key, text in entries)
    return b"".join(encoded) + varint(DATA_LOCATION << 3 | VARINT) + varint(1)
