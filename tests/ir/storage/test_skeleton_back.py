"""Lowering replaces tokens where tokens were put, and gives what stands in for them its place."""

from __future__ import annotations

import onnx
from onnx import helper

from bnfold.ir.storage import wire
from bnfold.ir.storage.skeleton import insert_payloads
from bnfold.ir.storage.walk import Reference, Segment
from tests.ir.build import model

NONCE = b"abcdefghijklmnop"
LENGTH = 18


def _token(index: int) -> bytes:
    return NONCE + index.to_bytes(2, "big")


def _tensor(name: str, index: int) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, data_type=1, dims=[5], raw_data=_token(index))


def _bytes(segments: list[Segment]) -> bytes:
    return b"".join(b"!" * piece.length if isinstance(piece, Reference) else bytes(piece) for piece in segments)


def test_lengths_of_all_that_encloses_a_payload_are_recomputed() -> None:
    branch = helper.make_graph([], "branch", [], [], [_tensor("inner", 1)])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=helper.make_graph([], "e", [], []))]
    proto = model(nodes, [_tensor("w", 0)])
    lengths = {_token(0): 100_000, _token(1): 3}
    segments = insert_payloads(
        proto.SerializeToString(), NONCE, LENGTH, lambda token, _: (wire.RAW_DATA, lengths[token])
    )
    read = onnx.ModelProto.FromString(_bytes(segments))
    assert read.graph.initializer[0].raw_data == b"!" * 100_000
    (then_branch,) = (one.g for one in read.graph.node[0].attribute if one.name == "then_branch")
    assert then_branch.initializer[0].raw_data == b"!" * 3
    assert [piece.token for piece in segments if isinstance(piece, Reference)] == [_token(1), _token(0)]


def test_who_places_is_told_whether_the_tensor_is_an_attribute() -> None:
    proto = model([helper.make_node("Constant", [], ["k"], value=_tensor("", 1))], [_tensor("w", 0)])
    told: dict[bytes, bool] = {}

    def place(token: bytes, in_attribute: bool) -> tuple[int, int]:
        told[token] = in_attribute
        return wire.RAW_DATA, 1

    insert_payloads(proto.SerializeToString(), NONCE, LENGTH, place)
    assert told == {_token(0): False, _token(1): True}


def test_fields_may_stand_in_for_a_payload() -> None:
    proto = model([], [_tensor("w", 0)])
    segments = insert_payloads(
        proto.SerializeToString(), NONCE, LENGTH, lambda *_: wire.external_fields("there", 64, 20)
    )
    tensor = onnx.ModelProto.FromString(_bytes(segments)).graph.initializer[0]
    assert not tensor.HasField("raw_data")
    assert (tensor.name, tensor.external_data[1].value) == ("w", "64")


def test_a_token_in_another_place_is_only_bytes() -> None:
    """A copy of the nonce in a name, or in raw_data of another length, is not ours."""
    proto = model([], [onnx.TensorProto(name="w", raw_data=_token(0) + b"tail")])
    proto.doc_string = "x"
    proto.metadata_props.add(key="k", value=_token(0).decode("latin1"))
    data = proto.SerializeToString()
    assert _bytes(insert_payloads(data, NONCE, LENGTH, lambda *_: (wire.RAW_DATA, 1))) == data


def test_nothing_to_replace_is_nothing_changed() -> None:
    data = model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    assert _bytes(insert_payloads(data, NONCE, LENGTH, lambda *_: (wire.RAW_DATA, 1))) == data
