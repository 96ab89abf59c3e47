"""scripts/mutate.py: what it alters, and that it sees what verification does not."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mutate
import numpy as np
import onnx
import pytest
from _referee import altering, judging, rewriting, serving, tasks
from _referee.rewriting import Trial

from bnfold import errors
from tests.conftest import MODELS, ROOT
from tests.verification.graphs import model

pytestmark = [
    pytest.mark.large,  # a script, which changes seldom
    pytest.mark.skipif(sys.platform == "win32", reason="it forks"),
]

CODE = '''"""A docstring with 1 < 2."""
LIMIT: tuple[int, int] = (2, 3)
def f(x, axis=0):
    """Another."""
    assert x != 7
    if not x:
        return None
    if x < 1 and axis in (0, 1):
        raise ValueError(f"{x - 1}")
    z = x.transpose(1, axis)
    return [-y for y in x - axis if y]
'''


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "planted.py").write_text(CODE, encoding="utf-8")
    return tmp_path


def altered(root: Path, kind: str, text: str) -> str:
    """The altered code of the one alteration of a kind that reads so."""
    every = altering.alterations(root, "planted.py", altering.expressions)
    (found,) = [each for each in every if each.kind == kind and each.text == text]
    return ast.unparse(altering.altered(root, found, altering.expressions))


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("constant+1", "2 → 3", "LIMIT: tuple[int, int] = (3, 3)"),
        ("constant-1", "2 → 1", "LIMIT: tuple[int, int] = (1, 3)"),
        ("axes", "(2, 3) → (3, 2)", "LIMIT: tuple[int, int] = (3, 2)"),
        ("not", "not x → x", "if x:"),
        ("guard", "not x → False", "if False:"),
        ("guard", "x < 1 and axis in (0, 1) → False", "if False:"),
        ("compare", "x < 1 → x <= 1", "if x <= 1 and axis in (0, 1):"),
        ("compare", "axis in (0, 1) → axis not in (0, 1)", "if x < 1 and axis not in (0, 1):"),
        ("and", "x < 1 and axis in (0, 1) → x < 1", "if x < 1:"),
        ("sign", "-y → y", "return [y for y in x - axis if y]"),
        ("sign", "x - axis → x + axis", "return [-y for y in x + axis if y]"),
        ("operands", "x - axis → axis - x", "return [-y for y in axis - x if y]"),
        (
            "filter",
            " for y in x - axis if y →  for y in x - axis",
            "return [-y for y in x - axis]",
        ),
        (
            "axes",
            "x.transpose(1, axis) → x.transpose(axis, 1)",
            "z = x.transpose(axis, 1)",
        ),
    ],
)
def test_one_expression_is_altered(code: Path, kind: str, text: str, line: str) -> None:
    before, after = (each.splitlines() for each in (ast.unparse(ast.parse(CODE)), altered(code, kind, text)))
    assert [new.strip() for old, new in zip(before, after, strict=True) if old != new] == [line]


def test_annotations_messages_and_docstrings_are_not_altered(code: Path) -> None:
    every = altering.alterations(code, "planted.py", altering.expressions)
    assert {each.line for each in every}.isdisjoint({1, 4, 5, 9})
    assert len({each.label for each in every}) == len(every)
    assert [each.statement for each in every if each.line in (10, 11)] == [10] * 3 + [11] * 4
    assert {each.statement for each in every if each.line in (2, 3)} == {0}


def test_a_number_is_ten_times_as_large_and_as_small(code: Path) -> None:
    found = [each.text for each in altering.alterations(code, "planted.py", altering.literals)]
    assert found[:4] == ["2 → 20", "2 → 0", "3 → 30", "3 → 0"]


def test_every_alteration_of_a_room_is_code() -> None:
    for file in sorted((ROOT / "bnfold" / "equalize").glob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        for each in altering.alterations(ROOT, name, altering.expressions)[::10]:
            compile(altering.altered(ROOT, each, altering.expressions), name, "exec")


def test_an_altered_module_is_served_in_a_process_of_its_own(tmp_path: Path) -> None:
    source = (ROOT / "bnfold" / "errors.py").read_text(encoding="utf-8")

    def work(_: Path) -> int:
        serving.serve({"bnfold.errors": ast.parse(f"{source}\nPLANTED = 5")}, "bnfold")
        import bnfold.errors

        return int(vars(bnfold.errors)["PLANTED"])

    assert serving.in_child(work, tmp_path, 20.0) == 5
    assert not hasattr(errors, "PLANTED")


SWAPPED = """
def at_once(): return 1
LIMIT = at_once()
def twice(x, by=2): return [each * by for each in x]
class Box:
    size = 3
    @property
    def half(self): return (lambda x: x / 2)(self.size)
"""


@pytest.mark.parametrize(
    ("old", "new", "is_loaded"),
    [
        ("each * by", "each + by", True),
        ("x / 2", "x / 3", True),
        ("by=2", "by=3", False),  # a default is computed when the module is imported, ...
        ("size = 3", "size = 5", False),  # ... as a class is, ...
        ("return 1", "return 4", False),  # ... and what runs then
        ("lambda x: x / 2", "lambda x: x / by", True),
    ],
)
def test_an_altered_function_takes_its_place_in_a_loaded_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, *, is_loaded: bool
) -> None:
    (tmp_path / "swapped.py").write_text(SWAPPED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def work(_: Path) -> tuple[bool, dict[str, object]]:
        serving.preload("swapped", ["swapped"])
        before = sys.modules["swapped"]
        serving.alter({"swapped": ast.parse(SWAPPED.replace(old, new))}, "swapped")
        return importlib.import_module("swapped") is before, results(vars(importlib.import_module("swapped")))

    def results(names: dict[str, Any]) -> dict[str, object]:
        try:
            half = names["Box"]().half
        except NameError:
            half = "no name"
        return {"limit": names["LIMIT"], "twice": names["twice"]([1, 5]), "half": half}

    fresh: dict[str, Any] = {}
    exec(SWAPPED.replace(old, new), fresh)
    assert serving.in_child(work, tmp_path, 20.0) == (is_loaded, results(fresh))
    assert results(fresh) != {"limit": 1, "twice": [2, 10], "half": 1.5}


def test_a_process_that_hangs_is_killed_and_one_that_raises_says_so(tmp_path: Path) -> None:
    def hang(_: Path) -> None:
        while True:
            pass

    with pytest.raises(serving.Late):
        serving.in_child(hang, tmp_path, 0.2)
    with pytest.raises(serving.Late):
        serving.in_child(lambda _: time.sleep(60), tmp_path, 0.02)
    with pytest.raises(serving.Died, match="ZeroDivisionError"):
        serving.in_child(lambda _: 1 / 0, tmp_path, 20.0)


BELIEVING = """
def judge(request):
    from bnfold.verification.codes import Code
    return Verdict("verified", "planted", "nothing", code=Code.TESTED)
"""


def planted(room_file: str, text: str, *, believes: bool) -> dict[str, ast.Module]:
    """Alter one expression of the rewriting side, and perhaps let verification believe everything."""
    every = altering.alterations(ROOT, room_file, altering.expressions)
    found = next(each for each in every if each.text == text)
    trees = {found.module: altering.altered(ROOT, found, altering.expressions)}
    if believes:
        decision = (ROOT / "bnfold" / "verification" / "policy.py").read_text(encoding="utf-8")
        trees["bnfold.verification.policy"] = ast.parse(decision + BELIEVING)
    return trees


@pytest.mark.parametrize("believes", [False, True])
def test_a_wrong_number_is_seen_and_whether_it_was_verified(believes: bool, tmp_path: Path) -> None:
    file = MODELS / "bn9.onnx"
    drawn = [tasks.Task(file.name, file, tasks.draw_feeds(file), "optimize")]
    right = rewriting.baseline(drawn, tmp_path / "right")
    assert right.results[0].how == "written"
    assert any(file == "bnfold/folding/affine.py" for file, _ in right.lines)
    trees = planted(*PLANTED, believes=believes)
    found = rewriting.findings(trees, [0], drawn, right, tmp_path / "altered", Trial())
    assert {finding.runtime for finding in found} == {"onnxruntime", "none"}
    assert {finding.kind for finding in found} == {"WRONG & VERIFIED" if believes else "wrong & failed"}
    assert rewriting.findings({}, [0], drawn, right, tmp_path / "altered", Trial()) == []


PLANTED = ("bnfold/folding/chains.py", "bias - mean * s → bias + mean * s")


def test_results_are_judged_beside_the_original_and_the_right_result(tmp_path: Path) -> None:
    def save(name: str, body: str, **weights: float) -> Path:
        arrays = {key: np.full(3, value, np.float32) for key, value in weights.items()}
        onnx.save(model(f"(float[N,3] x) => (float[N,3] y) {{ {body} }}", arrays), tmp_path / name)
        return tmp_path / name

    before = save("before.onnx", "z = Mul (x, a)  y = Mul (z, b)", a=2.0, b=3.0)
    feeds = {"x": np.ones((2, 3), np.float32)}
    results = {
        "right": save("right.onnx", "y = Mul (x, a)", a=6.0),
        "wrong": save("wrong.onnx", "y = Mul (x, a)", a=5.0),
        "loads nowhere": save("broken.onnx", "y = Mul (x, nothing)"),
    }
    assert {name: judging.judge(before, None, file, feeds) for name, file in results.items()} == {
        name: name for name in results
    }
    nowhere = save("nowhere.onnx", "y = Nobody (x)")
    assert judging.judge(nowhere, results["right"], results["wrong"], {}) == "wrong"
    assert judging.judge(nowhere, None, results["wrong"], feeds) == "unclear"


def test_what_amplifies_rounding_is_not_judged(tmp_path: Path) -> None:
    """Beyond 1e12, the sines of two neighbouring numbers are any two numbers."""

    def save(name: str, body: str, scale: float) -> Path:
        arrays = {"a": np.full(3, scale, np.float32)}
        onnx.save(model(f"(float[N,3] x) => (float[N,3] y) {{ {body} }}", arrays), tmp_path / name)
        return tmp_path / name

    feeds = {"x": np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)}
    for scale, judgement in ((2.0, "wrong"), (3e12, "amplified")):
        before = save("before.onnx", "z = Mul (x, a)  y = Sin (z)", scale)
        after = save("after.onnx", "z = Mul (x, a)  s = Sin (z)  y = Mul (s, s)", scale)
        assert judging._in_onnx(before, after, feeds) == judgement
        assert judging._in_onnxruntime(before, after, feeds) == judgement
        assert judging.judge(before, before, after, feeds) == ("unclear" if judgement == "amplified" else judgement)


def test_one_alteration_is_replayed_from_the_command_line(tmp_path: Path) -> None:
    file, text = PLANTED
    label = next(e.label for e in altering.alterations(ROOT, file, altering.expressions) if e.text == text)
    out = tmp_path / "found.json"
    words: list[str | Path] = ["--only", label, "--models", MODELS / "bn9.onnx", "--json", out]
    command: list[str | Path] = [sys.executable, ROOT / "scripts" / "mutate.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text(encoding="utf-8"))
    assert row["alteration"] == label
    assert {found["kind"] for found in row["found"]} <= {"wrong & failed", "legal"}
    assert "| wrong & failed | 1 / 1 | 1 / 1 |" in done.stdout


def test_kinds_take_turns() -> None:
    every = altering.alterations(ROOT, "bnfold/folding/affine.py", altering.expressions)
    chosen = mutate.choose(every, seed=0)
    assert sorted(chosen) == sorted(every)
    assert chosen == mutate.choose(every, seed=0) != mutate.choose(every, seed=1)
    assert len({each.kind for each in chosen[:5]}) == 5
