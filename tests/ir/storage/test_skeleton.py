"""Lifting takes out what is large and nothing else, and believes no length."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from bnfold.errors import MalformedModel
from bnfold.ir.storage import wire
from bnfold.ir.storage.skeleton import insert_payloads, strip_payloads
from bnfold.ir.storage.source import BufferSource
from bnfold.ir.storage.walk import WINDOW, ByteWindow, Field, Reference
from tests.ir.build import LARGE, chain, everywhere, fields, weight

NONCE = b"0123456789abcdef"
TOKEN_LENGTH = 20


class Lifted:
    """An encoded model, lifted; `back` lowers it again."""

    def __init__(self, data: bytes, threshold: int = 4096) -> None:
        self.data = data
        self.spans: list[tuple[int, int, int]] = []
        self.rests: list[onnx.TensorProto] = []
        self.skeleton = strip_payloads(BufferSource(data), threshold, self._token)

    def _token(self, rest: bytes, field: int, offset: int, length: int) -> bytes:
        self.rests.append(onnx.TensorProto.FromString(rest))
        self.spans.append((field, offset, length))
        return NONCE + (len(self.spans) - 1).to_bytes(4, "big")

    def span(self, token: bytes) -> tuple[int, int, int]:
        return self.spans[int.from_bytes(token[16:], "big")]

    def back(self) -> bytes:
        pieces = insert_payloads(
            self.skeleton, NONCE, TOKEN_LENGTH, lambda token, _: (self.span(token)[0], self.span(token)[2])
        )
        return b"".join(self._bytes(piece) if isinstance(piece, Reference) else piece for piece in pieces)

    def _bytes(self, piece: Reference) -> bytes:
        _, offset, length = self.span(piece.token)
        assert length == piece.length
        return self.data[offset : offset + length]


def test_numbers_of_an_attribute_are_passed_over_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forest of trees has hundreds of thousands of them, each a field of its own."""
    looked: list[int] = []
    field = ByteWindow.field

    def counted(self: ByteWindow, start: int, end: int) -> Field:
        looked.append(start)
        return field(self, start, end)

    monkeypatch.setattr(ByteWindow, "field", counted)
    ints = [*range(-3, 40_000), 2**62, -(2**63)]
    floats = [0.5] * 40_000
    node = helper.make_node("Trees", ["x"], ["y"], ints=ints, floats=floats)
    held = helper.make_attribute("held", weight("w", 5000))
    node.attribute.append(held)
    graph = helper.make_graph([node], "g", [], [])
    lifted = Lifted(helper.make_model(graph).SerializeToString())
    assert len(lifted.spans) == 1
    assert lifted.back() == lifted.data
    assert len(looked) < 100


def test_every_large_tensor_is_lifted_at_any_depth_and_comes_back() -> None:
    proto = everywhere()
    lifted = Lifted(proto.SerializeToString())
    expected = [LARGE + extra for extra in (0, 1, 1, 2, 3, 4, 0, 5, 6, 7)]
    floats = [rest.dims[0] for rest in lifted.rests if rest.data_type == onnx.TensorProto.FLOAT]
    assert sorted(floats) == sorted(expected)
    assert len(lifted.skeleton) < 5000
    assert onnx.ModelProto.FromString(lifted.back()) == proto


def test_what_is_small_stays_byte_for_byte() -> None:
    proto = chain(weights=2, size=1023)
    data = proto.SerializeToString()
    assert Lifted(data).skeleton == data
    assert not Lifted(data).spans
    assert len(Lifted(data, threshold=4092).spans) == 2


def test_the_rest_of_a_tensor_is_handed_on() -> None:
    tensor = weight("wéight", 3, LARGE)
    tensor.doc_string = "kept"
    (rest,) = Lifted(_with(tensor)).rests
    assert (rest.name, list(rest.dims), rest.data_type, rest.doc_string) == ("wéight", [3, LARGE], 1, "kept")


def test_unknown_fields_survive() -> None:
    unknown = wire.record(1000, b"model") + wire.varint(999 << 3) + wire.varint(2**63)
    tensor = weight("w", LARGE).SerializeToString() + wire.record(77, b"tensor")
    data = wire.record(7, wire.record(5, tensor) + wire.record(500, b"graph")) + unknown
    back = Lifted(data).back()
    assert onnx.ModelProto.FromString(back).SerializeToString(deterministic=True) == onnx.ModelProto.FromString(
        data
    ).SerializeToString(deterministic=True)
    assert {number for number, _, _ in fields(back)} == {7, 999, 1000}


def test_a_graph_in_two_records_is_one_graph() -> None:
    first, second = chain(weights=1), everywhere()
    data = first.SerializeToString() + second.SerializeToString()
    lifted = Lifted(data)
    assert len(lifted.spans) == 1 + len(Lifted(second.SerializeToString()).spans)
    assert onnx.ModelProto.FromString(lifted.back()) == onnx.ModelProto.FromString(data)


def test_a_payload_in_several_records_is_left_to_protobuf() -> None:
    half = wire.record(wire.FLOAT_DATA, np.arange(LARGE, dtype="<f4").tobytes())
    data = _with(wire.varint(2 << 3) + b"\1" + half + half)
    lifted = Lifted(data)
    assert not lifted.spans
    assert len(onnx.ModelProto.FromString(lifted.back()).graph.initializer[0].float_data) == 2 * LARGE


def test_unpacked_elements_are_left_to_protobuf() -> None:
    unpacked = b"".join(wire.varint(wire.FLOAT_DATA << 3 | wire.FIXED32) + b"\0\0\x80\x3f" for _ in range(LARGE))
    data = _with(unpacked)
    assert not Lifted(data).spans
    assert Lifted(data).back() == data


@pytest.mark.parametrize("field", ["float_data", "int32_data", "int64_data", "double_data", "uint64_data"])
def test_packed_fields_are_lifted_as_they_are(field: str) -> None:
    tensor = onnx.TensorProto(name="w", dims=[LARGE], data_type=1)
    getattr(tensor, field).extend([300] * LARGE)
    lifted = Lifted(_with(tensor))
    number = onnx.TensorProto.DESCRIPTOR.fields_by_name[field].number
    assert [span[0] for span in lifted.spans] == [number]
    assert onnx.ModelProto.FromString(lifted.back()).graph.initializer[0] == tensor


def test_records_may_straddle_the_window() -> None:
    """Node names of every length push tags and lengths over the edge of the buffer, byte by byte."""
    nodes = [helper.make_node("Relu", ["x"], [f"v{index}"], name="n" * (index % 150)) for index in range(3000)]
    for shift in range(24):
        proto = onnx.ModelProto(producer_name="p" * shift)
        proto.graph.node.extend(nodes)
        proto.graph.initializer.append(weight("w", LARGE))
        data = proto.SerializeToString()
        assert len(data) > 2 * WINDOW
        lifted = Lifted(data)
        assert len(lifted.spans) == 1
        assert lifted.back() == data


def test_long_numbers_mean_the_same() -> None:
    """A number may be encoded with more bytes than it needs."""
    tensor = weight("w", LARGE).SerializeToString()
    length = wire.varint(len(tensor))
    padded = length[:-1] + bytes([length[-1] | 0x80, 0x80, 0x00])
    data = wire.record(7, b"\xaa\x00" + padded + tensor)
    assert len(Lifted(data).spans) == 1
    assert onnx.ModelProto.FromString(Lifted(data).back()) == onnx.ModelProto.FromString(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x3a\xff\xff\xff\xff\x0f", "points outside"),
        (wire.record(7, b"\x2a\xff\x7f" + bytes(5000)), "cut off"),
        (wire.record(7, bytes(4097)), "field number is zero"),
        (b"\x3a", "runs past the end"),
        (b"\x3a" + b"\xff" * 12, "runs past the end"),
        (wire.record(7, b"\x2b" + bytes(5000)), "wire type 3"),
        (wire.record(7, b"\x2f" + bytes(5000)), "wire type 7"),
        (b"\x3d\0\0", "points outside"),
        (b"\x39\0\0", "points outside"),
        (wire.record(7, wire.record(5, b"\x4a\xff\xff\x03" + bytes(5000))), "points outside"),
    ],
)
def test_lengths_that_lie_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(MalformedModel, match=message):
        Lifted(data)


@pytest.mark.parametrize("bits", [34, 40, 62])
def test_a_huge_claim_costs_nothing(bits: int) -> None:
    claim = b"".join(wire.length_prefix(number, 1 << bits - number) for number in (7, 5, 9)) + bytes(1000)
    tracemalloc.start()
    with pytest.raises(MalformedModel, match=r"points outside|runs past"):
        Lifted(claim)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"\xba\x80\x80\x80\x80\x00", id="a tag of six bytes"),
        pytest.param(b"\xba\x80\x80\x80\x70", id="a tag beyond 32 bits"),
        pytest.param(b"\x3a\x80\x80\x80\x80\x80\x00", id="a length of six bytes"),
    ],
)
def test_what_protobuf_refuses_is_refused(head: bytes) -> None:
    with pytest.raises(DecodeError):
        onnx.ModelProto.FromString(head + bytes(5))
    with pytest.raises(MalformedModel, match=r"runs past|too large"):
        Lifted(head + bytes(5))


def test_nesting_bombs_are_refused() -> None:
    graph = wire.record(5, weight("w", LARGE).SerializeToString())
    for _ in range(40):
        graph = wire.record(1, wire.record(5, wire.record(6, graph)))
    with pytest.raises(MalformedModel, match="nested"):
        Lifted(wire.record(7, graph))


def _with(tensor: onnx.TensorProto | bytes) -> bytes:
    encoded = tensor if isinstance(tensor, bytes) else tensor.SerializeToString()
    return wire.record(7, wire.record(5, encoded))


# -- anything at all

scalars = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda number: (0, wire.varint(number))),
    st.binary(min_size=8, max_size=8).map(lambda data: (1, data)),
    st.binary(min_size=4, max_size=4).map(lambda data: (5, data)),
    st.binary(max_size=40).map(lambda data: (2, wire.varint(len(data)) + data)),
)


def _message(parts: list[tuple[int, tuple[int, bytes]]]) -> bytes:
    return b"".join(wire.varint(number << 3 | kind) + content for number, (kind, content) in parts)


numbers = st.sampled_from([1, 2, 4, 5, 6, 7, 9, 10, 11, 13, 14, 15, 20, 22, 23, 25, 99])
messages = st.recursive(
    st.lists(st.tuples(numbers, scalars), max_size=4).map(_message),
    lambda inner: st.lists(
        st.tuples(numbers, st.one_of(scalars, inner.map(lambda data: (2, wire.varint(len(data)) + data)))), max_size=4
    ).map(_message),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(messages, st.integers(1, 30))
def test_any_message_is_lifted_and_comes_back(data: bytes, threshold: int) -> None:
    """Down to single bytes lifted; at every level each field number keeps its records, in their order."""
    try:
        lifted = Lifted(data, threshold)
    except MalformedModel:
        assert _has_opaque_message(_normal(data))
        return
    assert _normal(lifted.back()) == _normal(data)


OPAQUE = -1
"""In place of a wire type: the bytes of something that should be a message and is none."""


def _has_opaque_message(tree: list[tuple[int, int, object]]) -> bool:
    return any(kind == OPAQUE or (isinstance(inner, list) and _has_opaque_message(inner)) for _, kind, inner in tree)


def _normal(data: bytes) -> list[tuple[int, int, object]]:
    """The tree of a message; what lies in a tensor is sorted by field number, because payloads are moved to its end."""

    def walk(kind: str, content: bytes) -> list[tuple[int, int, object]]:
        tree: list[tuple[int, int, object]] = []
        for number, wire_type, part in fields(content):
            child = wire.CHILDREN[kind].get(number) if wire_type == wire.BYTES else None
            try:
                tree.append((number, wire_type, walk(child, part) if child else part))
            except (IndexError, KeyError):
                tree.append((number, OPAQUE, part))
        return sorted(tree, key=lambda item: item[0]) if kind == wire.TENSOR else tree

    return walk(wire.MODEL, data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 30))
def test_any_bytes_are_refused_or_lifted(data: bytes, threshold: int) -> None:
    try:
        lifted = Lifted(data, threshold)
    except MalformedModel:
        return
    assert onnx_reads(lifted.back()) == onnx_reads(data)


def onnx_reads(data: bytes) -> bytes | None:
    """As protobuf understands it; bytes, because a message that holds NaN is not equal to itself."""
    try:
        return bytes(onnx.ModelProto.FromString(data).SerializeToString(deterministic=True))
    except DecodeError:
        return None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_model_is_refused_or_lifted(data: st.DataObject) -> None:
    whole = everywhere().SerializeToString()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        # Between the payloads, where the structure is.
        damaged[data.draw(st.sampled_from(STRUCTURE))] = data.draw(st.integers(0, 255))
    try:
        back = Lifted(bytes(damaged)).back()
    except MalformedModel:
        return
    except DecodeError:  # of what describes a payload; `load` refuses that, too
        assert onnx_reads(bytes(damaged)) is None
        return
    assert onnx_reads(back) == onnx_reads(bytes(damaged))


def _structure() -> list[int]:
    whole = everywhere().SerializeToString()
    inside = {place for _, offset, length in Lifted(whole).spans for place in range(offset, offset + length)}
    return [place for place in range(len(whole)) if place not in inside]


STRUCTURE = _structure()


def test_a_payload_partly_in_single_numbers_stays() -> None:
    """Protobuf merges packed and single ones, so the packed record alone is not the payload."""
    single = wire.varint(wire.FLOAT_DATA << 3 | wire.FIXED32) + b"\0\0\x80\x3f"
    packed = onnx.TensorProto(name="w", data_type=1, dims=[LARGE + 1], float_data=[2.0] * LARGE)
    tensor = packed.SerializeToString() + single
    data = wire.record(7, wire.record(5, tensor))
    assert len(onnx.ModelProto.FromString(data).graph.initializer[0].float_data) == LARGE + 1
    assert Lifted(data).skeleton == data
