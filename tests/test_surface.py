"""The public surface is the recorded one, and nothing in it is of a type that is not public."""

from __future__ import annotations

import inspect
import json
import pickle
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import onnx_ir
import pytest
import surface

import bnfold
from bnfold import errors, passes
from bnfold.errors import BadSetting, printable
from tests.conftest import ROOT

PUBLIC = {name: getattr(module, name) for module in surface.modules() for name in surface.names(module)}
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}
MAY_BE_ANY = {
    *("Outcome.to_json", "Report.to_json", "Verdict.to_json", "StepRow.to_json", "BatchNormEvent.to_json"),
    *("Products.to_json", "Growth.to_json", "RewriteCount.to_json", "SimplifyEvent.to_json", "EqualizeEvent.to_json"),
    *("ModuleVerdict.to_json", "TorchOutcome.to_json", "diff", "Report.lowest", "Report.conversion", "Report.runtime"),
    *("FileResult.report", "FileResult.to_json", "FolderResult.to_json", "Counts.to_json", "Counts.of"),
    *("Report.latency", "TorchOutcome.program", "pytorch.optimize", "ScaledValue.factors", "SelectedValue.constants"),
    *("AffineStep.adds", "AffineStep.constants", "ChannelAffine.scale", "ChannelAffine.shift", "NodeForm.attributes"),
    *("NodeForm.inputs", "OperatorNode.attributes", "OperatorNode.constant", "OperatorNode.read", "ValueType"),
    *("ChannelEvent.to_json", "register_operator"),
}
"""JSON documents, objects of PyTorch, which not everybody has, the shape of numpy's arrays, values of attributes, and a
caller's functions."""


def test_the_surface_is_the_recorded_one() -> None:
    """If this fails and the change is meant: docs/stability.md says how, and scripts/surface.py records it."""
    assert surface.surface() == json.loads(surface.RECORD.read_text(encoding="utf-8"))


def test_a_change_of_any_kind_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = surface.surface()
    changes: list[tuple[Any, str, Any]] = [
        (bnfold.api, "fold", lambda source: source),
        (errors.BnfoldError, "exit_code", 9),
        (bnfold.Outcome, "extra", property(surface.names)),
        (bnfold.Options, "__dataclass_fields__", {}),
        (passes, "__all__", ["FoldBatchNormPass"]),
        (surface, "NAMED", {}),
        (surface, "README", "READ.ME"),
    ]
    for where, name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value, raising=False)
            assert surface.surface() != recorded, name
    schema = json.loads(surface.SCHEMA.read_text(encoding="utf-8"))
    del schema["properties"]["notes"]
    assert set(surface._keys(schema)) == set(recorded["report"]) - {"notes"}


def hints(thing: Any) -> dict[str, Any]:
    return typing.get_type_hints(thing, localns={**PUBLIC, "onnx_ir": onnx_ir})


def stated() -> Iterator[tuple[str, Any]]:
    """What is annotated in public: the name of a field, a property, a method or a function, and a type."""
    for name, thing in PUBLIC.items():
        if inspect.isfunction(thing):
            label = f"{thing.__module__.split('.')[2]}.{name}" if "pytorch" in thing.__module__ else name
            yield from ((label, hint) for hint in hints(thing).values())
    for name, kind in CLASSES.items():
        known = hints(kind)
        yield from ((f"{name}.{field}", known[field]) for field, _ in surface.fields(kind))
        for member, value in surface.members(kind):
            label = name if member == "__init__" else f"{name}.{member}"
            yield from ((label, hint) for hint in hints(surface.getter(value)).values())


def parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from parts(part)


def test_what_is_public_is_of_public_types() -> None:
    private, vague = {}, {}
    allowed = {id(thing) for thing in PUBLIC.values()}
    for label, hint in stated():
        for part in parts(hint):
            if part is object or (part is Any and label not in MAY_BE_ANY):
                vague[label] = hint
            if inspect.isclass(part) and part.__module__.startswith("bnfold") and id(part) not in allowed:
                private[label] = part
    assert (private, vague) == ({}, {})
    assert len([*stated()]) > 300


def test_what_may_be_any_is_there() -> None:
    assert {label for label, hint in stated() if Any in parts(hint)} >= MAY_BE_ANY - {"pytorch.optimize"}


@pytest.mark.parametrize("module", surface.modules(), ids=lambda module: module.__name__)
def test_every_public_thing_is_documented(module: types.ModuleType) -> None:
    assert all(inspect.getdoc(getattr(module, name)) for name in surface.names(module) if name in CLASSES)


RENAMED = "the old name works until bnfold 0.3"
OLD = {
    "bnfold.errors.UpgradeBlocked": errors.ConversionBlocked,
    "bnfold.passes.UpgradeBatchNormPass": passes.ConvertOpsetPass,
}


@pytest.mark.parametrize("path", OLD)
def test_an_old_name_warns_and_works(path: str) -> None:
    module, _, name = path.rpartition(".")
    with pytest.warns(
        DeprecationWarning, match=rf"{path} is called {OLD[path].__module__}\.{OLD[path].__name__} now"
    ) as told:
        old = getattr(__import__(module, fromlist=["x"]), name)
    assert issubclass(old, OLD[path])
    assert told[0].filename == __file__
    assert path.rpartition(".")[2] in (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


def test_what_was_caught_by_an_old_name_still_is() -> None:
    with pytest.warns(DeprecationWarning, match=RENAMED), pytest.raises(errors.UpgradeBlocked) as caught:
        raise errors.ConversionBlocked("no", ["a"], [("", "v")])
    assert (caught.value.blockers, caught.value.places) == (("a",), (("", "v"),))


def test_pickles_with_old_names_are_read() -> None:
    now = pickle.dumps(errors.ConversionBlocked("no", ["a"]), protocol=0)
    with pytest.warns(DeprecationWarning, match=RENAMED):
        error = pickle.loads(now.replace(b"ConversionBlocked", b"UpgradeBlocked"))
    assert (type(error), error.blockers) == (errors.ConversionBlocked, ("a",))
    with pytest.warns(DeprecationWarning, match=RENAMED):
        old = passes.UpgradeBatchNormPass(18)
    with pytest.warns(DeprecationWarning, match=RENAMED):
        again = pickle.loads(pickle.dumps(old))
    assert isinstance(again, passes.ConvertOpsetPass)
    assert again.options == passes.ConvertOpsetPass(18).options == old.options
    with (
        pytest.warns(DeprecationWarning, match=RENAMED),
        pytest.raises(ValueError, match="decides decompose by itself"),
    ):
        passes.UpgradeBatchNormPass(18, bnfold.Options(decompose="all"))


def test_new_names_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert passes.ConvertOpsetPass(18).options.target_opset == 18
        assert errors.ConversionBlocked.exit_code == 1
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        errors.Nothing  # type: ignore[attr-defined] # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        passes.Nothing  # type: ignore[attr-defined] # noqa: B018


BOTH: list[Callable[..., Any]] = [
    bnfold.optimize,
    bnfold.fold,
    bnfold.upgrade,
    bnfold.convert,
    bnfold.decompose,
    bnfold.inspect,
]


@pytest.mark.parametrize("function", BOTH, ids=lambda function: function.__name__)
def test_opset_and_target_opset_are_two_names_of_one_option(function: Callable[..., bnfold.Outcome]) -> None:
    source = ROOT / "models" / "bn9.onnx"
    checks = {} if function is bnfold.inspect else {"verify": bnfold.VerifyOptions(depth="none")}
    for given in ({"opset": 17}, {"target_opset": 17}, {"opset": 17, "target_opset": 17}):
        assert function(source, **given, **checks).report.opset_after == 17
    with pytest.raises(BadSetting, match="opset: 17 and target_opset=16 contradict each other"):
        function(source, opset=17, target_opset=16, **checks)


def test_so_they_are_where_options_and_passes_are_made() -> None:
    assert bnfold.Options(opset=13) == bnfold.Options(target_opset=13) == bnfold.Options(opset=13, target_opset=13)
    assert bnfold.Options(opset=None).target_opset is None
    assert passes.ConvertOpsetPass(target_opset=13).options == passes.ConvertOpsetPass(opset=13).options
    assert passes.ConvertOpsetPass().options.target_opset is None
    for make in (bnfold.Options, passes.ConvertOpsetPass):
        with pytest.raises(BadSetting, match="opset: 13 and target_opset='keep' contradict"):
            make(opset=13, target_opset="keep")
    with pytest.raises(BadSetting, match="target_opset: 'old' is not a whole number"):
        bnfold.Options(opset="old")  # type: ignore[arg-type]
    with pytest.raises(bnfold.errors.WrongUsage, match="give an opset or an ir_version"):
        bnfold.convert(ROOT / "models" / "bn9.onnx", opset=None)
    assert printable(str(pickle.loads(pickle.dumps(bnfold.Options(opset=13))).target_opset)) == "13"


def test_keywords_count_more_than_options() -> None:
    given = bnfold.Options(target_opset=16)
    source = ROOT / "models" / "bn9.onnx"
    assert bnfold.inspect(source, options=given, opset=17).report.opset_after == 17
