"""Packed numbers are taken for whole exactly where protobuf parses them."""

from __future__ import annotations

from unittest import mock

import onnx
import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from bnfold import ir
from bnfold.errors import MalformedModel
from bnfold.ir.storage import stored, wire
from bnfold.ir.storage.source import BufferSource
from tests.ir.build import LARGE

FIELDS = sorted(wire.PAYLOAD_FIELDS - {wire.RAW_DATA})


def parses(data: bytes, field: int) -> bool:
    try:
        onnx.TensorProto.FromString(wire.record(field, data))
    except DecodeError:
        return False
    return True


runs = st.lists(
    st.one_of(
        st.integers(0, 2**64 - 1).map(wire.varint),
        st.builds(lambda length, last: b"\x80" * length + bytes([last]), st.integers(1, 12), st.integers(0, 127)),
        st.binary(max_size=4),
    ),
    max_size=8,
).map(b"".join)


@given(data=runs, field=st.sampled_from(FIELDS), before=st.integers(0, 3), chunk=st.integers(1, 12))
def test_as_protobuf_has_it(data: bytes, field: int, before: int, chunk: int) -> None:
    source = BufferSource(b"\xff" * before + data + b"\xff")
    with mock.patch.object(stored, "_CHUNK", chunk):
        assert stored.is_whole(stored.Span(source, before, len(data), field)) == parses(data, field)


@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_payload_is_refused_at_load(field: int) -> None:
    bad = b"\x80" * LARGE + b"\x01\x01"  # no number ends in time, and the length is no multiple of 4
    tensor = onnx.TensorProto(name="w", dims=[3], data_type=onnx.TensorProto.STRING).SerializeToString()
    model = onnx.ModelProto(ir_version=8).SerializeToString()
    data = model + wire.record(7, wire.record(5, tensor + wire.record(field, bad)))
    with pytest.raises(DecodeError):
        onnx.ModelProto.FromString(data)
    with pytest.raises(MalformedModel, match="'w': its data is damaged"):
        ir.load(data)
