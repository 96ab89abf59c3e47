"""Versions of a domain of one's own: steps up and down, what has no form there, and what is said of it."""

# ruff: noqa: ARG005 - callers' functions take what they are given, and some are wrong on purpose

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.errors import BadSetting, ConversionBlocked, VerificationFailed
from bnfold.operators import NodeForm, OperatorNode, Versions
from tests import acme


def with_attributes(x: Any, *, gain: Any, bias: Any = None) -> Any:
    return acme.gain(x, np.asarray(gain), None if bias is None else np.asarray(bias))


def to_attributes(node: OperatorNode) -> NodeForm:
    bias = {"bias": node.constant(2).tolist()} if node.has_constant(2) else {}
    return NodeForm({"gain": node.constant(1).tolist(), **bias}, [0])


def to_inputs(node: OperatorNode) -> NodeForm:
    names = [name for name in ("gain", "bias") if name in node.attributes]
    return NodeForm(inputs=[0, *(np.array(node.attributes[name]) for name in names)])


def by_table(node: OperatorNode) -> NodeForm:
    """Version 4 has both in a table."""
    table = np.array([node.attributes["gain"], node.attributes.get("bias", np.zeros(4))], np.float32)
    return NodeForm({"table": table, "from": node.version}, None)


def with_table(x: Any, *, table: Any, **_: Any) -> Any:
    return acme.gain(x, table[0], table[1])


@pytest.fixture
def versions() -> Iterator[None]:
    with acme.registered(versions=[1]):
        common: dict[str, Any] = {"shape": acme.same_type}
        second, third = Versions((3, 2), to_attributes, to_inputs), Versions((4,), by_table)
        bnfold.register_operator("com.acme", "Gain", kernel=with_attributes, versions=second, **common)
        bnfold.register_operator("com.acme", "Gain", kernel=with_table, versions=third, **common)
        yield


def version(proto: onnx.ModelProto) -> int:
    return next(int(entry.version) for entry in proto.opset_import if entry.domain == "com.acme")


@pytest.mark.parametrize("build", [acme.model, acme.in_branch, acme.in_loop])
@pytest.mark.usefixtures("versions")
def test_there_and_back(build: Any) -> None:
    newer = bnfold.convert(build(), domain_opsets={"com.acme": 3})
    assert (newer.verified, version(newer.to_proto())) == (True, 3)
    assert newer.report.opset_after == 15
    row = next(row for row in newer.report.conversion if row["operator"] == "com.acme::Gain")
    assert row["respelled"] == 1
    older = bnfold.convert(newer.to_proto(), domain_opsets={"com.acme": 1})
    assert (older.verified, version(older.to_proto())) == (True, 1)
    assert bnfold.verify(build(), older.to_proto())


@pytest.mark.usefixtures("versions")
def test_several_steps_see_the_version_that_they_start_from() -> None:
    outcome = bnfold.convert(acme.model(), domain_opsets={"com.acme": 4}, opset=17)
    assert outcome.verified
    proto = outcome.to_proto()
    assert (version(proto), proto.opset_import[0].version) == (4, 17)
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in proto.graph.node[0].attribute}
    assert attributes["from"] == 2
    assert onnx.numpy_helper.to_array(attributes["table"])[0].tolist() == [1, -2, 3, 4]


@pytest.mark.usefixtures("versions")
def test_versions_of_one_meaning_change_nothing_but_the_import() -> None:
    second = bnfold.convert(acme.model(), domain_opsets={"com.acme": 2}).to_proto()
    third = bnfold.convert(second, domain_opsets={"com.acme": 3})
    assert third.verified
    assert [node.SerializeToString() for node in third.to_proto().graph.node] == [
        node.SerializeToString() for node in second.graph.node
    ]


@pytest.mark.usefixtures("versions")
def test_folding_and_a_lower_opset_go_with_it() -> None:
    outcome = bnfold.optimize(acme.model(), domain_opsets={"com.acme": 2}, target_opset=11)
    assert outcome.verified
    assert version(outcome.to_proto()) == 2


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (7, "Gain ('c'): com.acme::Gain is not registered for version 7 of its domain"),
        (0, "0 is not in the range x>=1"),
    ],
)
@pytest.mark.usefixtures("versions")
def test_a_version_that_is_not_there_is_an_error(wanted: int, text: str) -> None:
    with pytest.raises((ConversionBlocked, BadSetting), match=r".") as caught:
        bnfold.convert(acme.model(), domain_opsets={"com.acme": wanted})
    assert text in str(caught.value)
    assert "opset" not in str(caught.value).replace("domain_opsets", "")


@pytest.mark.usefixtures("versions")
def test_a_version_that_is_in_the_way_of_an_opset_is_named() -> None:
    text = 'domain_opsets={"com.acme": 7} is in the way, and without it target_opset=11 gets there'
    with pytest.raises(ConversionBlocked, match=r"not registered for version 7") as caught:
        bnfold.convert(acme.model(), domain_opsets={"com.acme": 7}, opset=11)
    assert text in str(caught.value)


@pytest.mark.usefixtures("versions")
def test_a_step_that_is_missing_is_an_error() -> None:
    newest = bnfold.convert(acme.model(), domain_opsets={"com.acme": 4}).to_proto()
    with pytest.raises(ConversionBlocked, match="registered without downgrade= between versions 2 and 4"):
        bnfold.convert(newest, domain_opsets={"com.acme": 1})


def test_nothing_is_registered() -> None:
    with pytest.raises(ConversionBlocked, match=r"com\.acme::Gain is not registered for version 1 of its domain"):
        bnfold.convert(acme.model(), domain_opsets={"com.acme": 2})
    with pytest.raises(BadSetting, match=r"no operators of com\.other; it has those of com\.acme"):
        bnfold.convert(acme.model(), domain_opsets={"com.other": 2})


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (lambda node: node.attributes["alpha"], "its step to version 2 raised KeyError: 'alpha'"),
        (lambda node: 3, "raised TypeError: it returned int in place of NodeForm"),
        (lambda node: NodeForm({}, [9]), "raised ValueError: there is no input 9"),
        (
            lambda node: NodeForm({"a": node.constant(0)}),
            "has no form in version 2 of its domain: input 0 is no constant",
        ),
        (lambda node: NodeForm({"a": object()}), "its step to version 2 raised"),
    ],
)
def test_a_step_that_fails_names_the_node(step: Any, text: str) -> None:
    with acme.registered(versions=[1]):
        bnfold.register_operator("com.acme", "Gain", kernel=with_attributes, versions=Versions((2,), step))
        with pytest.raises(ConversionBlocked, match=r"Gain \('c'\)") as caught:
            bnfold.convert(acme.model(), domain_opsets={"com.acme": 2})
    assert text in str(caught.value)


def test_a_step_that_lies_ends_in_failed() -> None:
    lie = Versions((2,), lambda node: NodeForm({"gain": (1.001 * node.constant(1)).tolist()}, [0]))
    with acme.registered(versions=[1]):
        bnfold.register_operator("com.acme", "Gain", kernel=with_attributes, shape=acme.same_type, versions=lie)
        with pytest.raises(VerificationFailed, match="differs by"):
            bnfold.convert(acme.model(), domain_opsets={"com.acme": 2})


def test_versions_without_a_kernel_are_nobodys_proof() -> None:
    with acme.registered(versions=[1, 2], kernel=None):
        outcome = bnfold.convert(acme.model(), domain_opsets={"com.acme": 2})
    assert outcome.status == "unverified"


@pytest.mark.usefixtures("versions")
def test_in_a_function_a_step_needs_constants_that_are_there() -> None:
    with pytest.raises(ConversionBlocked, match=r"'y' in f::F\): has no form in version 2 .* input 1 is no constant"):
        bnfold.convert(acme.in_function(), domain_opsets={"com.acme": 2})


def test_a_function_takes_the_version_as_the_model_does() -> None:
    with acme.registered(versions=[1, 2]):
        proto = bnfold.convert(acme.in_function(), domain_opsets={"com.acme": 2}).to_proto()
    versions = [entry.version for entry in proto.functions[0].opset_import if entry.domain == "com.acme"]
    assert [version(proto), *versions] == [2, 2]


@pytest.mark.parametrize("domain", ["", "ai.onnx", "ai.onnx.ml"])
def test_domains_of_onnx_have_options_of_their_own(domain: str) -> None:
    with pytest.raises(BadSetting, match="is converted with --"):
        bnfold.Options(domain_opsets={domain: 2})
