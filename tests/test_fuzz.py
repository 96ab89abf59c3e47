"""The fuzzer sees what it is there for; tests/test_findings.py runs it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
from fuzz import (
    builder,
    bytes_,
    case,
    draw,
    faults,
    feeding,
    graphs,
    learned,
    modes,
    near_misses,
    outside,
    promises,
    rewriting,
    runtime,
    sabotage,
    showing,
    smaller,
    verifying,
    watch,
)
from fuzz.campaign import Campaign
from fuzz.case import Case, Outcome
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir, verification
from bnfold.ir.storage import external
from bnfold.pipeline import passes
from tests.conftest import MODELS
from tests.test_findings import FINDINGS

pytestmark = pytest.mark.large  # a script, which changes seldom


def test_the_same_seed_draws_the_same_case() -> None:
    for mode in modes.MODES.values():
        assert mode.draw(5, []).digest == mode.draw(5, []).digest


def test_a_case_is_read_as_it_was_kept(tmp_path: Path) -> None:
    drawn = rewriting.draw("decompose", 3)
    drawn = dataclasses.replace(drawn, files={"a.bin": b"1"}, links={"b": "../c"})
    drawn.keep(tmp_path / "kept")
    again = case.read(tmp_path / "kept")
    assert (again.model, again.files, again.links, again.settings) == (
        drawn.model, drawn.files, drawn.links, drawn.settings,
    )  # fmt: skip
    assert all(np.array_equal(again.feeds[name], array) for name, array in drawn.feeds.items())


def test_a_scalar_is_stored_as_a_scalar() -> None:
    """And stays one when its number is changed."""
    b = builder.Builder(np.random.default_rng(0), plain=True)
    b.weight(np.array(2.0))
    b.own(np.array(2.0))
    model = helper.make_model(helper.make_graph([], "g", [], [], b.weights))
    sabotage.change_weight(model, b.rng)
    assert [list(tensor.dims) for tensor in model.graph.initializer] == [[], []]


def ending(action: str) -> Case:
    return Case(b"", settings={"action": action})


@pytest.mark.parametrize(
    ("action", "found"),
    [
        ("while True: pass", "hang: too much"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "death: SIGSEGV"),
        ("kept = bytearray(700 << 20)", "memory: the case took"),
        ("raise RecursionError('too deep')", "RecursionError"),
    ],
)
def test_what_ends_a_worker_is_found_and_survived(action: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\nif 'fuzz.worker' in sys.orig_argv:\n"
        "    timer = signal.setitimer\n"
        "    signal.setitimer = lambda which, seconds: timer(which, min(seconds, 3))\n"
        "    from fuzz import modes, case, watch\n"
        "    def judge(case_, folder):\n"
        "        try:\n"
        "            exec(case_.settings.get('action', 'pass'))\n"
        "        except Exception as error:\n"
        "            return case.Outcome(watch.crash(error))\n"
        "        return case.Outcome()\n"
        "    modes.MODES['bytes'] = modes.Mode(modes.MODES['bytes'].draw, judge)\n"
    )
    ending(action).keep(tmp_path / "bad")
    ending("pass").keep(tmp_path / "good")
    with pytest.MonkeyPatch.context() as patch, Campaign("bytes", corpus=None, keep=tmp_path / "found") as campaign:
        plain = watch.environment()
        patch.setattr(watch, "environment", lambda: plain | {"PYTHONPATH": f"{tmp_path}:{plain['PYTHONPATH']}"})
        assert campaign.replay(tmp_path / "bad").startswith(found)
        assert campaign.replay(tmp_path / "good") == ""
        assert list((tmp_path / "found" / "bytes").iterdir())


def test_a_draw_that_fails_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Campaign("graphs", corpus=None, keep=tmp_path / "found") as campaign:
        campaign.found("death: exit 1", tmp_path / "never drawn")
    assert "FINDING death: exit 1" in capsys.readouterr().out
    assert len(campaign.totals.findings) == 1


def test_a_kept_case_whose_data_nobody_can_read_is_drawn_from_all_the_same(tmp_path: Path) -> None:
    model = onnx.load(MODELS / "dense.onnx")
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="gone.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert all(graphs.draw(seed, [path]).model for seed in range(20))


def test_a_failing_model_is_made_smaller() -> None:
    model = onnx.load(MODELS / "dense.onnx")

    def fails(candidate: Case) -> bool:
        try:
            return any(
                node.op_type == "BatchNormalization" for node in onnx.ModelProto.FromString(candidate.model).graph.node
            )
        except Exception:  # noqa: BLE001 - protobuf's own; bytes that do not parse are not this failure
            return False

    small = smaller.shrink(Case(model.SerializeToString()), fails)
    assert len(small.model) < 100
    assert fails(small)


def test_bytes_that_come_back_changed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (MODELS / "bn9.onnx").read_bytes()
    assert bytes_.examine(data).error == ""
    encode = ir.encode
    monkeypatch.setattr(ir, "encode", lambda model: encode(model).replace(b"Conv", b"Cons"))
    assert bytes_.examine((MODELS / "dense.onnx").read_bytes()).error.startswith("differs: the model is not")


def test_files_in_wrong_places_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Case((MODELS / "bn9.onnx").read_bytes(), settings={"external_data": "auto"})
    rewrite = passes.rewrite

    def stray(model: ir.Model, *rest: object, **options: object) -> object:
        assert model.path is not None
        (model.path.parent / "left behind").touch()
        return rewrite(model, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(passes, "rewrite", stray)
    assert graphs.judge(drawn, tmp_path).error == "stray: in/left behind"


def secretive() -> Case:
    """A model whose weight lies outside its folder."""
    tensor = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[len(outside.SECRET)])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=f"../{outside.SECRET_FILE}")
    info = helper.make_tensor_value_info("y", TensorProto.UINT8, None)
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [info], [tensor])
    return Case(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString())


def test_a_leak_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert graphs.judge(secretive(), tmp_path / "held").refused
    monkeypatch.setattr(external.ExternalFiles, "_find", lambda self, _, location: self._folders[0] / location)
    assert graphs.judge(secretive(), tmp_path / "leaky").error.startswith("leak: ")


def test_a_verifier_that_believes_everything_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = verification.Verdict("verified", "why not", "nothing", code=verification.Code.DIFFERS)
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verdict)
    errors = [verifying.judge(verifying.draw(seed), tmp_path / str(seed)).error for seed in range(12)]
    assert any(error.startswith("missed: ") for error in errors)


def test_a_verifier_that_believes_nothing_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = verification.Verdict("failed", "why not", "nothing", code=verification.Code.DIFFERS)
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verdict)
    errors = [verifying.judge(verifying.draw(seed), tmp_path / str(seed)).error for seed in range(12)]
    assert any(error.startswith("accused: ") for error in errors)


@pytest.mark.parametrize(("status", "finding"), [("verified", "missed by auto"), ("failed", "accused by auto")])
def test_one_answer_for_all_faults_and_rewrites_is_found_out(
    status: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = verification.Verdict(status, "why not", "nothing", code=verification.Code.DIFFERS)  # type: ignore[arg-type]
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verdict)
    errors = [faults.judge(faults.draw(seed), tmp_path / str(seed)).error for seed in range(12)]
    assert any(error.startswith(finding) for error in errors)


SIZED = "s = Shape (x)  n = Gather (s, one)  t = Slice (T, zero, n)  y = Add (x, t)"


def sized(head: str = "(float[2,N] x) => (float[2,M] y)", last: float = 1.0) -> onnx.ModelProto:
    """As much of a table of seven as the input is long."""
    held = {"T": np.array([1, 1, 1, 1, 1, 1, last], np.float32), "zero": np.array([0]), "one": np.array([1])}
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {head} {{ {SIZED} }}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
    return proto


@pytest.mark.parametrize(
    ("after", "truth"),
    [
        (sized(), "same"),
        (sized(last=2.0), "shows"),
        (sized("(float[2,N] x) => (float[2,1] y)"), "interface"),
        (sized("(float[2,5] x) => (float[2,M] y)"), "interface"),
        (sized("(float[2,N] x, float[1] z) => (float[2,M] y)"), "interface"),
        (sized("(float[2,N] x) => (float[2,M] y, float[2,M] x)"), "interface"),
    ],
    ids=["nothing", "a row that only the longest input reads", "output", "input", "one more input", "one more output"],
)
def test_what_few_sizes_or_only_callers_see_is_seen(after: onnx.ModelProto, truth: str, tmp_path: Path) -> None:
    for name, proto in (("before", sized()), ("after", after)):
        onnx.save(proto, tmp_path / name)
    assert showing.truth(tmp_path / "before", tmp_path / "after", {"x": np.ones((2, 3), np.float32)}) == truth


def test_a_declared_size_of_zero_is_tried_as_such_and_as_an_unknown_one(tmp_path: Path) -> None:
    head = "(float[2,0] x) => (float[2,M] y)"
    for name, proto in (("before", sized(head)), ("after", sized(head, last=2.0))):
        onnx.save(proto, tmp_path / name)
    proto = onnx.load(tmp_path / "before")
    drawn = {"x": np.ones((2, 3), np.float32)}
    empty = feeding.emptied(proto, drawn)
    assert empty is not None
    assert empty["x"].shape == (2, 0)
    assert feeding.emptied(sized(), drawn) is None
    assert showing.truth(tmp_path / "before", tmp_path / "before", drawn) == "same"
    assert showing.truth(tmp_path / "before", tmp_path / "after", drawn) == "shows"


@pytest.mark.parametrize(
    ("pool", "declared", "is_broken"),
    [
        ("auto_pad = 'SAME_UPPER', dilations = [2]", 4, False),  # as ONNX's text says; onnxruntime makes 3
        ("auto_pad = 'SAME_LOWER', dilations = [2]", 4, False),
        ("auto_pad = 'SAME_UPPER', dilations = [2]", 5, True),  # nobody says so
        ("auto_pad = 'SAME_UPPER', dilations = [1]", 3, True),  # no dispute: both make 4
        ("pads = [1, 1], dilations = [2]", 2, True),
    ],
)
def test_a_declared_size_that_follows_the_text_is_not_broken(pool: str, declared: int, is_broken: bool) -> None:
    kind = pool.replace("'", '"')
    body = f"y = MaxPool <kernel_shape = [3], strides = [2], {kind}> (x)"
    head = '<ir_version: 8, opset_import: ["" : 15]> g (float[1, 1, 8] x) =>'
    before, after = (
        onnx.parser.parse_model(f"{head} (float[1, 1, {size}] y) {{ {body} }}") for size in ("n", declared)
    )
    session = runtime.session(before.SerializeToString())
    (made,) = session.run(None, {"x": np.zeros((1, 1, 8), np.float32)})
    assert promises.is_broken(promises.of_outputs(before, after)["y"], made.shape) == is_broken


def test_near_misses_find_their_place() -> None:
    """What changes nothing was not carried out."""
    models = [draw.draw(seed, TensorProto.FLOAT)[0] for seed in range(320)]
    models += [learned.draw(seed)[0] for seed in range(20)]
    for fault in (*near_misses.RARE, *near_misses.INTERFACE):
        copies = [onnx.ModelProto.FromString(model.SerializeToString()) for model in models]
        for seed, copy in enumerate(copies):
            fault(copy, np.random.default_rng(seed))
        assert copies != models, fault.__name__
    bare = onnx.ModelProto()
    assert near_misses.near_miss(bare, np.random.default_rng(0)) is None


@pytest.mark.parametrize(("dtype", "error"), [(TensorProto.FLOAT, "differs: why not"), (TensorProto.INT64, "")])
def test_a_hostile_graph_counts_if_anybody_takes_it(
    dtype: int, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = verification.Verdict("failed", "why not", "nothing", code=verification.Code.DIFFERS)
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verdict)
    values = [helper.make_tensor_value_info(name, kind, [2]) for name, kind in (("x", TensorProto.FLOAT), ("y", dtype))]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["z"])], "g", values, [helper.make_empty_tensor_value_info("z")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    case = Case(model.SerializeToString(), settings={"only_if_accepted": True})
    outcome = graphs.judge(case, tmp_path)
    assert (outcome.error, outcome.refused) == (error, False)


def test_a_miss_counts_if_it_does_not_take_luck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that differ at one of 120 places, behind a Hardmax that is 1 at another one."""
    drawn = case.read(FINDINGS / "verify" / "5c3f2fef9c")
    assert verifying.judge(drawn, tmp_path).behaviour.startswith("different unverified")
    verdict = verification.Verdict("verified", "", "float64", code=verification.Code.TESTED)
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verdict)
    outcome = verifying.judge(drawn, tmp_path)
    assert (outcome.error, outcome.behaviour.split(" verified")[0]) == ("", "rarely different")


@pytest.mark.parametrize("mode", ["upgrade", "decompose"])
def test_a_rewrite_that_moves_a_number_is_found(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every weight of the result a little off."""
    save = ir.save

    def spoiled(model: ir.Model, path: Path) -> None:
        save(model, path)
        proto = onnx.load(path)
        for tensor in proto.graph.initializer:
            if tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE):
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 1.5, tensor.name))
        onnx.save(proto, path)

    monkeypatch.setattr(ir, "save", spoiled)
    found: list[Outcome] = []
    for seed in range(10):
        (tmp_path / str(seed)).mkdir()
        found.append(rewriting.judge(mode, rewriting.draw(mode, seed), tmp_path / str(seed)))
    assert any("relative error" in outcome.error for outcome in found)
