"""What `bnfold.ir.storage.wire` encodes, protobuf itself reads, and the field numbers are those of onnx."""

from __future__ import annotations

import onnx
import pytest
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from bnfold.ir.storage import wire
from tests.ir.build import fields


@given(st.integers(0, 2**64 - 1))
def test_varint_is_what_protobuf_reads(value: int) -> None:
    encoded = wire.varint(14 << 3) + wire.varint(value)  # an unknown field of an OperatorSetIdProto
    assert onnx.OperatorSetIdProto.FromString(encoded).SerializeToString() == encoded


@given(st.integers(1, 2**20), st.binary(max_size=300))
def test_a_record_holds_its_content(number: int, content: bytes) -> None:
    assert fields(wire.record(number, content)) == [(number, wire.BYTES, content)]


def test_external_fields_read_as_external_data() -> None:
    tensor = onnx.TensorProto.FromString(wire.external_fields("wéights.bin", 4096, 12345))
    assert {entry.key: entry.value for entry in tensor.external_data} == {
        "location": "wéights.bin",
        "offset": "4096",
        "length": "12345",
    }
    assert tensor.data_location == onnx.TensorProto.EXTERNAL


@pytest.mark.parametrize("kind", wire.CHILDREN)
def test_every_way_to_a_tensor_is_known(kind: str) -> None:
    """A message that onnx adds tomorrow, and that leads to a tensor, makes this fail."""
    descriptor = getattr(onnx, kind).DESCRIPTOR
    fields = [field for field in descriptor.fields if _leads_to_tensor(field.message_type)]
    assert wire.CHILDREN[kind] == {field.number: field.message_type.name for field in fields}


def _leads_to_tensor(descriptor: Descriptor | None, seen: frozenset[str] = frozenset()) -> bool:
    if descriptor is None or descriptor.name in seen:
        return False
    if descriptor.name == "TensorProto":
        return True
    return any(_leads_to_tensor(field.message_type, seen | {descriptor.name}) for field in descriptor.fields)


def test_payload_fields_are_those_of_numbers() -> None:
    names = {field.number: field.name for field in onnx.TensorProto.DESCRIPTOR.fields}
    assert {names[number] for number in wire.PAYLOAD_FIELDS} == {
        *("float_data", "int32_data", "int64_data"),
        *("raw_data", "double_data", "uint64_data"),
    }
