"""Sizes that a caller fixes, tried before anything is rewritten: refused, noted, or nothing said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import onnx.parser
import pytest

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.ir.fixing import fix_inputs
from bnfold.settings import Policy
from bnfold.verification import fixed_sizes
from bnfold.verification.fixed_sizes import FixedSizes
from bnfold.verification.runtimes.runtime import RuntimeObstacle, RuntimeProcess, RuntimeResult

ONNXRUNTIME = "onnxruntime"
Asked = Mapping[str, tuple[int, ...]]


def sizes(
    body: str, asked: Asked, inputs: str = "float[N,M] x", stored: str = "", runtime: str = "none", opset: int = 17
) -> FixedSizes:
    head = f'<ir_version: 8, opset_import: ["": {opset}, "me": 1]>'
    proto = onnx.parser.parse_model(f"{head} g ({inputs}) => (float y) <{stored}> {{ {body} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    original = ir.load(proto)
    fix_inputs(fixed := original.clone(), asked)
    return FixedSizes(original, fixed, asked, Policy(), runtime)


CONCAT = "y = Concat <axis = 1> (x, k)"
ONE = "float[1,2] k = {1, 2}"
OTHER = "float[2,1] l = {1, 2}"
POOL = "y = MaxPool <kernel_shape = [3, 3]> (x)"
IMAGE = "float[N,C,H,W] x"
REFLECT = 'y = Pad <mode = "reflect"> (x, p)'
TWO = "int64[4] p = {0, 2, 0, 2}"


def test_the_error_names_the_model_the_node_its_sizes_and_what_to_type() -> None:
    with pytest.raises(BadInput) as error:
        sizes(CONCAT, {"x": (8, 3)}, stored=ONE).require()
    assert str(error.value) == (
        "the model: the model cannot run at --fix-shapes x=8,3: node 'y' (Concat) gets x (8, 3), k (1, 2): "
        "its inputs do not fit: parts of the shapes (8, 3), (1, 2) along axis 1; it runs at --fix-shapes x=1,3"
    )
    assert error.value.exit_code == 1


@pytest.mark.parametrize(
    ("asked", "advice"),
    [
        ({"N": (8,), "M": (3,)}, "it runs at --fix-shapes N=1 --fix-shapes M=3"),
        ({"N": (8,)}, "it runs at --fix-shapes N=1; if other sizes of the open axes fit, give these as well"),
    ],
)
def test_sizes_are_advised_as_they_were_asked_for(asked: Asked, advice: str) -> None:
    with pytest.raises(BadInput, match="cannot run at --fix-shapes N=8") as error:
        sizes(CONCAT, asked, stored=ONE).require()
    assert str(error.value).endswith(advice)


@pytest.mark.parametrize("asked", [{"x": (1, 3)}, {"N": (1,)}])
def test_nothing_is_said_of_sizes_that_fit(asked: Asked) -> None:
    assert not sizes(CONCAT, asked, stored=ONE).require()


def test_sizes_that_only_others_fit_are_looked_for() -> None:
    """Of 4 rows each has to have 9 numbers."""
    flat = "int64[2] t = {1, 36}"
    assert not sizes("y = Reshape (x, t)", {"N": (4,)}, stored=flat).require()


def test_open_sizes_for_which_none_are_found_are_noted() -> None:
    """Whether there are some that fit is unknown then."""
    note = sizes("y = Concat <axis = 1> (x, k, l)", {"N": (4,)}, stored=f"{ONE}, {OTHER}").require()
    assert note.startswith("the model was not wholly tried at the fixed sizes: no sizes were found for those that stay")


def test_two_inputs_that_do_not_fit_each_other() -> None:
    with pytest.raises(BadInput, match=r"x=2,3 --fix-shapes z=4,3: node 'y' \(Add\) gets x \(2, 3\), z \(4, 3\)"):
        sizes("y = Add (x, z)", {"x": (2, 3), "z": (4, 3)}, "float[N,3] x, float[K,3] z").require()


def test_a_size_of_a_file_without_names_is_changed_in_the_advice() -> None:
    source = sizes(CONCAT, {"x": (8, 3)}, stored=ONE)
    source.original.proto.graph.input[0].type.tensor_type.ClearField("shape")
    source.original.reindex()
    with pytest.raises(BadInput, match="it runs at --fix-shapes x=1,3"):
        source.require()


def test_advice_is_given_if_there_is_some() -> None:
    with pytest.raises(BadInput, match="give other sizes, or leave that out"):
        sizes("a = Concat <axis = 1> (x, k, l) y = Relu (a)", {"x": (8, 3)}, stored=f"{ONE}, {OTHER}").require()


def test_advice_for_what_cannot_be_wholly_tried() -> None:
    with pytest.raises(BadInput, match="it may run at --fix-shapes x=1,3"):
        sizes("c = Concat <axis = 1> (x, k) y = me.Mine (c)", {"x": (8, 3)}, stored=ONE).require()


def test_what_is_of_another_version_is_noted() -> None:
    """Up to version 6, an Add says whether it broadcasts; later ones always do."""
    note = sizes("y = Add (x, k)", {"x": (8, 3)}, stored="float[1,1,3] k = {1, 2, 3}", opset=6).require()
    assert "form of its own version" in note


def test_inputs_that_cannot_be_made_up_are_noted() -> None:
    note = sizes("y = Relu (x)", {"x": (2, 3)}, "seq(float[N]) s, float[N,M] x").require()
    assert note.startswith("the model was not wholly tried at the fixed sizes: input 's' is a sequence")


def test_what_a_runtime_runs_is_not_refused() -> None:
    """It makes nothing of an image that is smaller than the window."""
    asked = {"x": (1, 3, 2, 2)}
    with pytest.raises(BadInput, match="a window larger"):
        sizes(POOL, asked, IMAGE).require()
    note = sizes(POOL, asked, IMAGE, runtime=ONNXRUNTIME).require()
    assert note.startswith("onnxruntime runs the model at the fixed sizes, but its operators' texts do not allow them")


def test_what_texts_leave_open_a_runtime_may_refuse() -> None:
    """Reflecting more than there is."""
    assert "not wholly tried" in sizes(REFLECT, {"x": (2, 2)}, stored=TWO).require()
    with pytest.raises(BadInput, match=r"x=2,2: onnxruntime says Non-zero .*Pad node.*it runs at --fix-shapes x="):
        sizes(REFLECT, {"x": (2, 2)}, stored=TWO, runtime=ONNXRUNTIME).require()


def test_what_a_runtime_runs_needs_no_note() -> None:
    body = "n = NonZero (x) y = Cast <to = 1> (n)"
    assert "depend on numbers" in sizes(body, {"x": (2, 3)}).require()
    assert not sizes(body, {"x": (2, 3)}, runtime=ONNXRUNTIME).require()


def test_a_runtime_is_asked_about_a_model_that_nothing_else_refuses() -> None:
    sizes(REFLECT, {"x": (2, 3)}, stored=TWO, runtime=ONNXRUNTIME).require_runtime()
    sizes(REFLECT, {"N": (2,)}, stored=TWO, runtime=ONNXRUNTIME).require_runtime()
    with pytest.raises(BadInput, match="Pad reflect"):
        sizes(REFLECT, {"x": (2, 2)}, stored=TWO, runtime=ONNXRUNTIME).require_runtime()


@pytest.mark.parametrize("obstacle", ["not looked", "crashed"])
def test_a_runtime_that_fails_otherwise_refuses_no_sizes(
    obstacle: RuntimeObstacle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only at the fixed sizes, and for another reason than these."""
    plain = RuntimeProcess.run

    def run(self: RuntimeProcess, source: Any, samples: Any, *rest: Any) -> RuntimeResult:
        if any(sample["x"].shape == (2, 2) for sample in samples):
            return RuntimeResult(ONNXRUNTIME, error="it took too long", obstacle=obstacle)
        return plain(self, source, samples, *rest)

    monkeypatch.setattr(RuntimeProcess, "run", run)
    assert "not wholly tried" in sizes(REFLECT, {"x": (2, 2)}, stored=TWO, runtime=ONNXRUNTIME).require()


def test_two_inputs_that_only_a_runtime_finds_unalike() -> None:
    """One has a size that nobody would guess, and the other has to have it, too."""
    body = "i = NonMaxSuppression (b, s) y = Cast <to = 1> (i)"
    inputs, asked = "float[N,B,4] b, float[N,C,D] s", {"b": (1, 5, 4), "s": (1, 2, 7)}
    with pytest.raises(BadInput, match="it may run at --fix-shapes b=1,5,4 --fix-shapes s=1,2,5"):
        sizes(body, asked, inputs, runtime=ONNXRUNTIME).require()


def test_a_model_that_a_runtime_runs_at_no_size_is_not_refused_for_its_sizes() -> None:
    """It lacks the operator, or no numbers fit."""
    body = "a = me.Mine (x) y = Relu (a)"
    assert "me:Mine" in sizes(body, {"x": (2, 3)}, runtime=ONNXRUNTIME).require()
    nowhere = "s = NonZero (x) e = Reshape (s, t) y = Cast <to = 1> (e)"
    note = sizes(nowhere, {"x": (2, 3)}, stored="int64[2] t = {1, 1009}", runtime=ONNXRUNTIME).require()
    assert "depend on numbers" in note


@pytest.mark.parametrize("limit", ["_LARGEST_RUN", "MOST_BYTES", "_RUNTIME_SECONDS", "_CHEAP_RUN"])
def test_a_runtime_is_not_asked_about_what_is_too_large(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any) -> RuntimeResult:
        raise AssertionError("it was asked")

    monkeypatch.setattr(fixed_sizes, limit, -1)
    monkeypatch.setattr(RuntimeProcess, "run", run)
    source = sizes(REFLECT, {"x": (2, 2)}, stored=TWO, runtime=ONNXRUNTIME)
    if limit != "_CHEAP_RUN":
        assert "not wholly tried" in source.require()
    source.require_runtime()


def test_the_search_for_advice_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed_sizes, "_HINT_SECONDS", -1.0)
    with pytest.raises(BadInput, match="give other sizes"):
        sizes(CONCAT, {"x": (8, 3)}, stored=ONE).require()
