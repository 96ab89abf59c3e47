"""Registered operators from end to end: what is folded and verified, what is refused, and whose word that rests on."""

# ruff: noqa: ARG001, ARG005, PLE0643 - callers' functions take what they are given, and some are wrong on purpose

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import bnfold
from bnfold import VerifyOptions
from bnfold.cli.commands import main
from bnfold.errors import BadSetting, VerificationFailed
from bnfold.operators import AffineRule, AffineStep, ChannelAffine, ValueType, Versions, plugins, unregister_operator
from bnfold.registered import table
from tests import acme
from tests.operators import client


def nothing(*_: Any) -> Any:
    raise AssertionError("it is not asked")


RULE = AffineRule(nothing)


@pytest.mark.parametrize("build", [acme.model, acme.open_sizes, acme.in_branch, acme.in_loop])
def test_it_is_folded_and_verified_on_the_callers_word(build: Callable[[], onnx.ModelProto]) -> None:
    with acme.registered():
        outcome = bnfold.fold(build(), verify=VerifyOptions(explain=""))
    assert outcome.verdict is not None
    assert outcome.verdict.summary.startswith("verified without an independent runtime: ")
    word = "computed by kernels that were registered, on the caller's word: com.acme::Gain (by tests.acme)"
    assert word in outcome.verdict.notes
    assert [e.verdict for e in outcome.report.batchnorms] == ["folded"]
    lines = [line for each in outcome.verdict.explanation for line in each.lines]
    assert f"  {word}" in lines[:4]
    assert lines.count(f"  {word}") >= 2  # at the part as well


def test_a_part_without_such_operators_is_nobodys_word() -> None:
    nodes = "a = com.acme.Gain(x, w)  c = Conv(x, w2)  n = BatchNormalization(c, s, b, m, v)  z = Add(n, a)"
    proto = acme.model(nodes)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w2"))
    with acme.registered():
        outcome = bnfold.fold(proto, verify=VerifyOptions(explain="", depth="local"))
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    parts = [each.lines for each in outcome.verdict.explanation if each.claims and each.claims[0].prover == "part"]
    assert parts
    assert not any("caller's word" in line for lines in parts for line in lines)


def test_functions_that_hold_one_are_computed_too() -> None:
    with acme.registered():
        outcome = bnfold.optimize(acme.in_function())
    assert outcome.verified


def test_a_models_own_function_is_what_the_node_means() -> None:
    own = '<domain: "com.acme", opset_import: ["": 15]> Gain (x, w) => (y) { y = Mul(x, x) }'
    with acme.registered(kernel=nothing, shape=nothing, affine=RULE):
        outcome = bnfold.fold(acme.model(functions=own))
    assert outcome.verified
    assert outcome.verdict is not None
    assert not any("caller's word" in note for note in outcome.verdict.notes)


def test_without_a_registration_nothing_is_folded_across() -> None:
    outcome = bnfold.fold(acme.model())
    (event,) = outcome.report.batchnorms
    assert event.verdict == "kept"


@pytest.mark.parametrize("build", [acme.model, acme.in_branch, acme.in_loop])
def test_a_rule_that_lies_ends_in_failed(build: Callable[[], onnx.ModelProto]) -> None:
    with acme.registered(affine=acme.gain_rule(lie=1.001)), pytest.raises(VerificationFailed, match="differs by"):
        bnfold.fold(build())


def test_a_rule_that_lies_without_a_kernel_is_unverified() -> None:
    with acme.registered(affine=acme.gain_rule(lie=1.001), kernel=None):
        outcome = bnfold.fold(acme.model())
    assert outcome.status == "unverified"


def double(x: Any, w: Any, b: Any = None) -> Any:
    x *= 2
    return x


NOISE = np.random.default_rng(0)
KERNELS: dict[str, tuple[Any, str]] = {
    "raises": (lambda x, w, b=None: [][0].none, "refuses the inputs: list index out of range"),
    "breaks": (lambda x, w, b=None: x.none, "raised AttributeError"),
    "declines": (lambda *_: nothing_for("this form"), "does not apply: this form"),
    "float32": (lambda x, w, b=None: acme.gain(x, w, b).astype(np.float32), "returned float32, and has to compute in"),
    "shape": (lambda x, w, b=None: acme.gain(x, w, b)[:, :1], "where its shape function says float64 of shape"),
    "kind": (lambda x, w, b=None: acme.gain(x, w, b) > 0, "made bool of shape"),
    "list": (lambda x, w, b=None: [1], "returned list for output 0, no array"),
    "nothing": (lambda x, w, b=None: None, "returned NoneType for output 0, no array"),
    "too few": (lambda x, w, b=None: (), "returned 0 results, and output 1 is read"),
    "in place": (double, "writes to its inputs"),
    "random": (lambda x, w, b=None: acme.gain(x, w, b) + NOISE.random(), "computes other numbers each time"),
    "attributes": (lambda x, w, b: x, "missing 1 required positional argument"),
}


def nothing_for(what: str) -> Any:
    raise bnfold.operators.DoesNotApply(what)


@pytest.mark.parametrize("name", KERNELS)
def test_what_a_kernel_does_wrong_is_said_and_nothing_is_verified(name: str) -> None:
    kernel, text = KERNELS[name]
    with acme.registered(kernel=kernel):
        outcome = bnfold.fold(acme.model())
    assert outcome.status == "unverified"
    assert outcome.verdict is not None
    assert text in outcome.verdict.reason
    assert "com.acme:Gain-1 (node 'c')" in outcome.verdict.reason


def test_results_of_several_outputs_are_read_by_place() -> None:
    nodes = "c, d = com.acme.Both(x, w)  n = BatchNormalization(c, s, b, m, v)  z = Add(n, d)"

    def both(x: Any, w: Any) -> tuple[Any, Any]:
        return acme.gain(x, w), np.abs(x)

    with acme.registered("Both", kernel=both, shape=lambda x, _: [x, x]):
        outcome = bnfold.fold(acme.model(nodes))
    assert outcome.verified
    (event,) = outcome.report.batchnorms
    assert event.verdict == "kept"  # to scale the weight would change both


def test_inputs_that_are_left_out_are_none_and_attributes_keywords() -> None:
    seen: list[tuple[Any, ...]] = []

    def kernel(x: Any, middle: Any, last: Any, *, alpha: float, names: list[str], table: Any) -> Any:
        seen.append((x.dtype, middle, alpha, names, table.tolist(), last.flags.writeable))
        return x * last.reshape(1, -1, 1, 1)

    nodes = 'c = com.acme.Odd<alpha = 0.5, names = ["a", "b"], table = float[2] {1, 2}>(x, , w)  z = Relu(c)'
    proto = acme.model(nodes)
    with acme.registered("Odd", kernel=kernel, shape=None, affine=None):
        verdict = bnfold.verify(proto, onnx.compose.add_prefix(proto, "n_", rename_inputs=False, rename_outputs=False))
        assert verdict
        other = bnfold.convert(proto, opset=17)
        changed = onnx.ModelProto.FromString(other.to_proto().SerializeToString())
        changed.graph.node[0].attribute[0].f = 0.25
        assert bnfold.verify(proto, changed).status == "unverified"  # this kernel does not use it
    assert all(each == (np.float64, None, each[2], ["a", "b"], [1.0, 2.0], False) for each in seen)
    assert {each[2] for each in seen} == {0.5, 0.25}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"domain": ""}, "cannot be registered in onnx's own domain"),
        ({"domain": "ai.onnx"}, "cannot be registered in onnx's own domain"),
        ({"domain": "ai.onnx.ml"}, "in the domain ai.onnx.ml"),
        ({"domain": 3}, "3 is no text"),
        ({"op_type": ""}, "it is empty"),
        ({"op_type": None}, "None is no text"),
        ({"domain": "com.microsoft", "op_type": "FusedConv"}, "bnfold knows com.microsoft::FusedConv already"),
        ({"domain": "com.microsoft", "op_type": "QLinearAdd"}, "bnfold knows com.microsoft::QLinearAdd already"),
        ({"kernel": 1}, "kernel: 1 is no function"),
        ({"shape": "x"}, "shape: 'x' is no function"),
        ({"affine": acme.gain}, "is no AffineRule"),
        ({"affine": AffineRule()}, "give up or down"),
        ({"affine": AffineRule(up="x")}, "up='x' is no function"),  # type: ignore[arg-type]
        ({"affine": AffineRule(nothing, axis=True)}, "axis=True"),
        ({"affine": AffineRule(nothing, axis="1")}, "axis='1'"),  # type: ignore[arg-type]
        ({"kernel": None}, "give at least one"),
        ({"versions": []}, "there are none"),
        ({"versions": [0]}, "0 is no version"),
        ({"versions": 3}, "3 is neither Versions nor a list"),
        ({"versions": "12"}, "'12' is neither Versions nor a list"),
        ({"versions": Versions((1,), upgrade=3)}, "upgrade=3 is no function"),  # type: ignore[arg-type]
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, Any], text: str) -> None:
    arguments: dict[str, Any] = {"domain": "com.acme", "op_type": "Gain", "kernel": nothing, **given}
    with pytest.raises(BadSetting, match=r".*") as caught:
        bnfold.register_operator(arguments.pop("domain"), arguments.pop("op_type"), **arguments)
    assert text in str(caught.value)


def test_an_operator_is_registered_once_for_a_version() -> None:
    with acme.registered(versions=[1, 2]):
        with pytest.raises(BadSetting, match=r"registered already for version 2 by tests\.acme; .*unregister_operator"):
            bnfold.register_operator("com.acme", "Gain", kernel=nothing, versions=[2, 3])
        with pytest.raises(BadSetting, match="registered already for version 1, 2"):
            bnfold.register_operator("com.acme", "Gain", kernel=nothing)
        bnfold.register_operator("com.acme", "Gain", kernel=nothing, versions=[3])
    with pytest.raises(BadSetting, match=r"com\.acme::Gain is not registered"):
        unregister_operator("com.acme", "Gain")
    with acme.registered(), pytest.raises(BadSetting, match="registered already for every version"):
        bnfold.register_operator("com.acme", "Gain", kernel=nothing)


def test_a_version_that_was_not_registered_means_nothing() -> None:
    with acme.registered(versions=[2]):
        outcome = bnfold.fold(acme.model())
    assert [event.verdict for event in outcome.report.batchnorms] == ["kept"]


def test_options_take_the_names_of_registered_operators() -> None:
    with pytest.raises(BadSetting, match="there is no operator 'Gain'"):
        bnfold.Options(excluded=frozenset({"Gain"}))
    with acme.registered():
        outcome = bnfold.fold(acme.model(), excluded={"Gain"})
    (event,) = outcome.report.batchnorms
    assert event.reason is not None
    assert event.reason.code == "excluded"


@pytest.mark.parametrize("dims", [[-1], [1.5], [True]])
def test_a_size_is_a_number_a_name_or_none(dims: list[Any]) -> None:
    with pytest.raises(ValueError, match="is no size"):
        ValueType(dims, np.float32)
    assert repr(ValueType((1, "N", None, ""), "float16")) == "ValueType((1, 'N', None, None), float16)"


def test_an_affine_has_a_number_for_each_channel() -> None:
    affine = ChannelAffine(np.array([2.0, 3.0]), np.array(1.0))
    assert affine.shift.tolist() == [1.0, 1.0]
    assert affine.of(2).scale.tolist() == [2.0, 3.0]
    assert not affine.is_scale_only
    assert ChannelAffine(np.ones(1), np.zeros(1)).of(3).scale.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(bnfold.operators.DoesNotApply, match="factors for 2 channels meet 3"):
        affine.of(3)
    with pytest.raises(ValueError, match="are vectors"):
        ChannelAffine(np.ones((1, 2)), np.ones(2))


def test_what_a_client_writes_is_typed_and_runs() -> None:
    """Mypy reads tests/operators/client.py as strictly as everything."""
    outcome = client.convert(acme.model("c = com.acme.Typed(x, w)  z = Relu(c)"))
    assert outcome.verified
    assert [(each.domain, each.version) for each in outcome.to_proto().opset_import][1] == ("com.acme", 2)
    (attribute,) = outcome.to_proto().graph.node[0].attribute
    assert (attribute.name, attribute.f) == ("beta", 2.0)


def test_a_step_is_only_data() -> None:
    step = AffineStep(passes=ChannelAffine(np.ones(1), np.zeros(1)))
    assert (step.constants, step.attributes, step.adds) == ({}, {}, None)


def quick_gelu(factor: float) -> Any:
    return lambda x, *, alpha=1.702: factor * x / (1 + np.exp(-alpha * x))


def with_quick_gelu() -> onnx.ModelProto:
    """Onnxruntime has the operator, and bnfold has no kernel for it."""
    proto = acme.model("k = BatchNormalization(x, s, b, m, v)  c = com.microsoft.QuickGelu(k)  z = Mul(c, x)")
    proto.opset_import.add(domain="com.microsoft", version=1)
    return proto


def test_a_runtime_that_has_the_operator_is_independent() -> None:
    bnfold.register_operator("com.microsoft", "QuickGelu", kernel=quick_gelu(1.0), shape=acme.same_type)
    try:
        outcome = bnfold.decompose(with_quick_gelu())
    finally:
        unregister_operator("com.microsoft", "QuickGelu")
    assert outcome.verdict is not None
    assert outcome.verdict.summary.startswith("verified: ")
    assert any("caller's word" in note for note in outcome.verdict.notes)


def test_a_runtime_that_computes_something_else_contradicts_a_kernel() -> None:
    bnfold.register_operator("com.microsoft", "QuickGelu", kernel=quick_gelu(1.5), shape=acme.same_type)
    try:
        outcome = bnfold.decompose(with_quick_gelu())
    finally:
        unregister_operator("com.microsoft", "QuickGelu")
    assert outcome.verdict is not None
    assert (outcome.status, outcome.verdict.code) == ("unverified", "kernel-contradicted")
    assert "contradicts kernels that were registered: output 'z' of the original differs" in outcome.verdict.reason


def test_a_library_of_operators_is_a_file_that_the_runtime_loads(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"there is no file .*none\.so"):
        bnfold.operators.register_runtime_library(tmp_path / "none.so")
    (tmp_path / "broken.so").write_text("no library", encoding="utf-8")
    try:
        bnfold.operators.register_runtime_library(tmp_path / "broken.so")
        with acme.registered():
            verdict = bnfold.fold(acme.model()).verdict
    finally:
        table.LIBRARIES.clear()
    assert verdict is not None
    assert "broken.so" in verdict.summary


def up_with(constants: Any, attributes: Any = None) -> AffineRule:
    return AffineRule(lambda node, affine: AffineStep(constants(affine.of(4)), attributes or {}))


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "an error of the rule": ({"affine": up_with(lambda _: [][0])}, "raised IndexError: list index out of range"),
    "a slot beyond those of the kernel": ({"affine": up_with(lambda a: {5: a.shift})}, "the kernel does not take what"),
    "a slot beyond those of the shape": (
        {"affine": up_with(lambda a: {1: a.scale, 2: a.shift}), "kernel": None, "shape": lambda x, _: [x]},
        "the shape function does not take what the rule sets",
    ),
    "a negative slot": ({"affine": up_with(lambda a: {-1: a.scale})}, "-1 in constants is not the number of an input"),
    "a slot that is text": ({"affine": up_with(lambda a: {"1": a.scale})}, "'1' in constants is not the number of an"),
    "a slot that is true": ({"affine": up_with(lambda a: {True: a.scale})}, "True in constants is not the number"),
    "constants that are a list": ({"affine": up_with(lambda a: [a.scale])}, "constants is a mapping, such as"),
    "an attribute that the kernel lacks": (
        {"affine": up_with(lambda a: {1: a.scale, 2: a.shift}, {"gamma": 1.0})},
        "unexpected keyword argument 'gamma'",
    ),
    "an attribute without a name": ({"affine": up_with(lambda a: {}, {3: 1.0})}, "3 in attributes is not the name of"),
    "an error of the shape function": (
        {"shape": lambda *_: [][0]},
        "the shape function of com.acme::Gain raised Index",
    ),
    "another element type than a consumer reads": (
        {"shape": lambda x, *_: [ValueType(x.dims, np.float64)]},
        "the shape function of com.acme::Gain says double for 'c', where the model says float; it is not believed",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_callers_function_is_noted_and_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    said, text = FAULTS[name]
    with acme.registered(**said):
        outcome = bnfold.fold(acme.model(), verify=VerifyOptions(depth="none"))
    (note,) = (note for note in outcome.report.notes if text in note)
    assert [event.verdict for event in outcome.report.batchnorms] == ["kept"]
    assert [record.levelname for record in caplog.records if record.getMessage() == note] == ["WARNING"]


def test_the_command_line_says_what_a_plugin_does_wrong(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import bnfold\n"
        "from bnfold.operators import AffineRule\n"
        "rule = AffineRule(lambda node, affine: affine.size)\n"
        "bnfold.register_operator('com.acme', 'Gain', affine=rule, shape=lambda x, *_: [x])\n",
        encoding="utf-8",
    )
    onnx.save(acme.model(), tmp_path / "m.onnx")
    line = ["optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--plugin", tmp_path / "broken.py", "--no-verify"]
    try:
        result = CliRunner().invoke(main, [*map(str, line)])
    finally:
        unregister_operator("com.acme", "Gain")
        plugins._LOADED.clear()
    assert result.exit_code == 0, result.output
    assert "note: the rule (up) that was registered for Gain 'c' raised AttributeError" in " ".join(
        result.stderr.split()
    )


@pytest.mark.parametrize(
    ("nodes", "value"),
    [("z = com.acme.Gain(x, w)", "z"), ("c = com.acme.Gain(x, w)  d = Relu(c)  z = Add(d, x)", "c")],
)
def test_an_element_type_is_compared_with_what_is_declared_or_read(nodes: str, value: str) -> None:
    with acme.registered(shape=lambda x, *_: [ValueType(x.dims, np.int64)]):
        report = bnfold.inspect(acme.model(nodes)).report
        right = bnfold.inspect(acme.model("c = com.acme.Gain(x, w)  d = Cast<to = 1>(c)  z = Relu(d)")).report
    assert report.notes == [
        f"the shape function of com.acme::Gain says int64 for {value!r}, where the model says float; it is not believed"
    ]
    assert not right.notes


def test_a_shape_function_is_only_distrusted_for_a_model_that_it_contradicts() -> None:
    wrong = acme.model("c = com.acme.Gain(x, w)  d = Relu(c)  z = Add(d, x)")
    with acme.registered(shape=lambda x, *_: [ValueType(x.dims, np.int64)]):
        assert bnfold.inspect(wrong).report.notes
    with acme.registered():
        assert not bnfold.inspect(wrong).report.notes
        assert bnfold.fold(acme.model()).verified


def test_a_kernel_that_is_not_written_in_python_takes_what_it_takes() -> None:
    with acme.registered(kernel=max, affine=up_with(lambda a: {1: a.scale, 2: a.shift})):
        outcome = bnfold.fold(acme.model())
    assert outcome.status == "unverified"
