"""Settings: what cannot be is refused when it is chosen, by name; the command line says the same of its options."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import bnfold
from bnfold import passes, settings
from bnfold.cli.commands import main
from bnfold.cli.invocation import CliOptions
from bnfold.cli.options import STATED
from bnfold.errors import BadSetting
from bnfold.interop.openvino.operators import _TABLE, ONNX_NAMES
from bnfold.settings import Options, OutputOptions, Policy, VerifyOptions, to_json
from bnfold.settings.checked import OPENVINO_OPERATORS, type_hints
from bnfold.settings.python_words import FLAGS
from tests.conftest import MODELS

NEWEST = onnx.defs.onnx_opset_version()
made: Any = settings  # what is wrong below is wrong by its type, too
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: made.Options(decompose="none"), "decompose: 'none' is not one of 'never', 'remaining', 'all'"),
    (lambda: made.Options(decompose_form="conv"), "decompose_form: 'conv' is not one of 'mul_add', "),
    (lambda: made.Options(decompose_ops=frozenset({"Conv"})), "decompose_ops: there is no operator 'Conv'"),
    (lambda: made.Options(only=frozenset({"Foo"})), "only: there is no operator 'Foo'"),
    (lambda: made.Options(excluded=frozenset({"conv"})), "excluded: there is no operator 'conv'; did you mean Conv?"),
    (lambda: made.Options(only="Conv"), "only: 'Conv' is one text, and a list is wanted: ['Conv']"),
    (lambda: made.Options(disable="a-b, c"), "disable: 'a-b, c' is one text, and a list is wanted: ['a-b', 'c']"),
    (lambda: made.Options(simplify="onnxscript"), "simplify: 'onnxscript' is one text, and a list is wanted"),
    (lambda: made.Options(only=["Conv", 1]), "only: ['Conv', 1] is not a list or set of texts"),
    (lambda: made.Options(only=b"Conv"), "only: b'Conv' is not a list or set of texts"),
    (lambda: made.Options(excluded=3), "excluded: 3 is not a list or set of texts"),
    (
        lambda: made.Options(target_opset=NEWEST + 1),
        f"target_opset: opset {NEWEST + 1} does not exist: the installed onnx",
    ),
    (lambda: made.Options(target_opset=0), "target_opset: opset 0 does not exist"),
    (
        lambda: made.Options(target_opset="17"),
        "target_opset: '17' is not a whole number or one of 'keep', 'latest', 'lowest' or None",
    ),
    (lambda: made.Options(target_opset=True), "target_opset: True is not a whole number"),
    (lambda: made.Options(fold="no"), "fold: 'no' is not True or False"),
    (lambda: made.Options(all_affines=1), "all_affines: 1 is not True or False"),
    (lambda: made.Options(max_growth=-1), "max_growth: -1 is not in the range x>=0"),
    (lambda: made.Options(max_growth=1.5), "max_growth: 1.5 is not a whole number or None"),
    (lambda: made.Options(policy="auto"), "policy: 'auto' is not a Policy"),
    (
        lambda: made.Policy(legacy_mode="zzz"),
        "legacy_mode: 'zzz' is not one of 'auto', 'inference', 'training', 'error'",
    ),
    (lambda: made.Policy(saved_var="std"), "saved_var: 'std' is not one of 'variance', 'inv-std'"),
    (lambda: made.Policy(force_inference=None), "force_inference: None is not True or False"),
    (lambda: made.VerifyOptions(depth="nope"), "depth: 'nope' is not one of 'auto', 'full', 'local', 'none'"),
    (
        lambda: made.VerifyOptions(runtime="tensorrt"),
        "runtime: 'tensorrt' is not one of 'onnxruntime', 'openvino', 'none'",
    ),
    (lambda: made.VerifyOptions(samples=0), "samples: 0 is not in the range x>=1"),
    (lambda: made.VerifyOptions(samples="3"), "samples: '3' is not a whole number"),
    (lambda: made.VerifyOptions(seed=-1), "seed: -1 is not in the range x>=0"),
    (lambda: made.VerifyOptions(data=3), "data: 3 is not a path or None"),
    (lambda: made.VerifyOptions(inputs={"x": (1, -2)}), "inputs: -2 is not in the range x>=0"),
    (
        lambda: made.VerifyOptions(inputs={"x": "12"}),
        "inputs: {'x': '12'} is not a mapping of names to sizes",
    ),
    (lambda: made.VerifyOptions(inputs=("x", (1, 2))), "inputs: ('x', (1, 2)) is not a mapping of names to sizes"),
    (lambda: made.OutputOptions(Path("out.onnx"), size_threshold=-1), "size_threshold: -1 is not in the range x>=0"),
    (lambda: made.OutputOptions(None), "path: None is not a path"),
    (lambda: bnfold.fold(MODELS / "bn9.onnx", decompose="residue"), "decompose: 'residue' is not one of"),  # type: ignore[arg-type]
    (lambda: bnfold.upgrade(MODELS / "bn9.onnx", target_opset=NEWEST + 1), "target_opset: opset"),
    (lambda: passes.ConvertOpsetPass(NEWEST + 1), "target_opset: opset"),
    (lambda: replace(made.Options(), decompose="none"), "decompose: 'none' is not one of"),
]


@pytest.mark.parametrize(("make", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_cannot_be_is_refused_when_it_is_made(make: Callable[[], object], told: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(told)) as caught:
        make()
    assert isinstance(caught.value, bnfold.errors.BadInput | ValueError)
    assert "\n" not in str(caught.value)


def test_what_is_not_installed_is_told_when_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnfold.settings.result.find_spec", lambda _: None)
    with pytest.raises(BadSetting, match=r"runtime: openvino is not installed: pip install openvino"):
        VerifyOptions(runtime="openvino")


def test_values_are_held_as_their_fields_say() -> None:
    options = made.Options(only={"Conv", "Gemm"}, max_growth=np.int64(7), target_opset=np.int32(15))
    assert (options.only, type(options.only)) == ({"Conv", "Gemm"}, frozenset)
    for names in (["Conv", "Gemm"], ("Gemm", "Conv"), iter(["Conv", "Gemm"]), {"Conv": 1, "Gemm": 2}.keys()):
        assert made.Options(only=names) == made.Options(only={"Conv", "Gemm"})
    assert (type(options.max_growth), type(options.target_opset)) == (int, int)
    checks = made.VerifyOptions(data="inputs.npz", inputs={"x": [1, np.int64(3)]}, samples=np.uint8(2))
    assert (checks.data, checks.inputs) == (Path("inputs.npz"), {"x": (1, 3)})
    assert pickle.loads(pickle.dumps(checks)) == checks
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_refusal_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(BadSetting("samples", "0 is too few")))
    assert (str(error), error.name) == ("samples: 0 is too few", "samples")


def test_equal_settings_have_equal_text() -> None:
    names = ("Conv", "Gemm", "MatMul", "Add", "Mul")
    assert to_json(Options(only=frozenset(names))) == to_json(Options(only=frozenset(reversed(names))))
    assert to_json(Options(only=frozenset(names)))["only"] == sorted(names)
    assert to_json(VerifyOptions(data=Path("a.npz"), inputs={"x": (1, 2)})) == {
        "depth": "auto",
        "data": "a.npz",
        "inputs": {"x": [1, 2]},
        "samples": 1,
        "seed": 0,
        "verify_seconds": 300,
        "runtime": "onnxruntime",
        "tolerance": None,
        "explain": None,
        "save": None,
        "frozen": False,
    }


def test_names_of_openvino_are_known_and_are_refused_for_onnx(tmp_path: Path) -> None:
    assert set(_TABLE) | set(ONNX_NAMES) <= OPENVINO_OPERATORS
    options = Options(only=frozenset({"Convolution"}), decompose_ops=frozenset({"BatchNormInference"}))
    with pytest.raises(BadSetting, match=r"only: there is no operator 'Convolution'"):
        bnfold.optimize(MODELS / "bn9.onnx", tmp_path / "out.onnx", options=options)
    assert not list(tmp_path.iterdir())


# -- the command line is made of them


def told(*arguments: str) -> tuple[int, str]:
    command = ["optimize", "in.onnx", "out.onnx"] if arguments[0] != "--output-format" else ["inspect", "in.onnx"]
    command[1] = str(MODELS / "bn9.onnx")
    result = CliRunner().invoke(main, [*command, *arguments])
    return result.exit_code, " ".join(result.stderr.split())


@pytest.mark.parametrize("name", sorted(STATED))
def test_every_field_s_choices_and_bounds_are_those_of_its_option(name: str) -> None:
    kind: Any
    kind, member = STATED[name]
    hint, low = type_hints(kind)[name], member.metadata.get("low")
    flag = FLAGS.get(name, (f"--{name.replace('_', '-')}",))[-1]
    given: dict[str, Any] = {"path": "out.onnx"} if kind is OutputOptions else {}
    if get_origin(hint) is Literal:
        with pytest.raises(BadSetting) as caught:
            kind(**given, **{name: "nope"})
        code, said = told(flag, "nope")
        assert (code, str(caught.value).partition(": ")[2] in said) == (2, True), said
        assert all(repr(choice) in said for choice in get_args(hint))
    elif low is not None and name not in ("inputs", "fix_shapes", "domain_opsets"):
        with pytest.raises(BadSetting) as caught:
            kind(**given, **{name: low - 1})
        code, said = told(flag, str(low - 1))
        assert (code, str(caught.value).partition(": ")[2] in said) == (2, True), said
    elif "operators" in member.metadata:
        with pytest.raises(BadSetting) as caught:
            kind(**given, **{name: frozenset({"Nope"})})
        code, said = told(flag, "Nope")
        assert (code, f"{flag}: {str(caught.value).partition(': ')[2]}" in said) == (2, True), said


def test_help_and_documentation_need_no_docstrings() -> None:
    """Python leaves them out with -OO."""
    texts = []
    for flags in ((), ("-OO",)):
        done = subprocess.run(
            [sys.executable, *flags, "-m", "bnfold", "verify", "--help"], capture_output=True, text=True, check=True
        )
        texts.append(done.stdout.partition("Verification:")[2] or done.stdout.partition("--")[2])
    assert texts[0] == texts[1] != ""
    assert "verify_seconds: Time limit for the verification" in (made.VerifyOptions.__doc__ or "")


def test_every_option_of_the_command_line_is_a_field_with_a_help() -> None:
    seen = set()
    for command in main.commands.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                seen.add(parameter.name)
                assert parameter.name in STATED
                assert parameter.help or command.name == "verify", parameter.name
    hidden = {"fold", "policy", "path", "explained", "command"}
    assert seen == set(STATED) - hidden


def test_every_option_reaches_its_field(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("bnfold.cli.commands._run", seen.append)
    np.savez(tmp_path / "data.npz", x=np.zeros(1))
    line = (
        "--target-opset 17 --decompose all --decompose-form sub_mul_add --decompose-ops InstanceNormalization "
        "--assert-none Conv,Relu --overridable freeze --max-growth 5 --only Conv --only Gemm --except Add "
        "--all-affines --legacy-mode training --force-inference --saved-var inv-std --input a=1,2 --input b=3 "
        f"--samples 4 --seed 5 --runtime none --verify-seconds 8 --data {tmp_path / 'data.npz'} --verify local "
        "--report r.json --json "
        "--external-data none --size-threshold 9 --require-verified --keep-failed bad.onnx --jobs 2 "
        "--scheduler tcp://x --force -v"
    )
    result = CliRunner().invoke(main, ["optimize", "in.onnx", "out.onnx", *line.split()])
    assert result.exit_code == 0, result.output
    (asked,) = seen
    policy = Policy("training", force_inference=True, saved_var="inv-std")
    assert asked.options == Options(
        target_opset=17, decompose="all", decompose_form="sub_mul_add", policy=policy, overridable="freeze",
        decompose_ops=frozenset({"InstanceNormalization"}), max_growth=5, only=frozenset({"Conv", "Gemm"}),
        excluded=frozenset({"Add"}), all_affines=True,
    )  # fmt: skip
    assert asked.checks == VerifyOptions("local", {"a": (1, 2), "b": (3,)}, tmp_path / "data.npz", 4, 5, "none", 8)
    assert asked.delivery == OutputOptions(
        Path("out.onnx"), "none", 9, require_verified=True, keep_failed=Path("bad.onnx"), explained=True
    )
    assert asked.run == CliOptions(
        ("r.json",), as_json=True, assert_none=frozenset({"Conv", "Relu"}), jobs=2,
        scheduler="tcp://x", force=True, verbose=True,
    )  # fmt: skip
    CliRunner().invoke(main, ["optimize", "in.onnx", "out.onnx", "--verify", "full", "--no-verify"])
    assert seen[1].checks == VerifyOptions(depth="none")
    CliRunner().invoke(main, ["optimize", "in.onnx", "--in-place", "-q"])
    assert (seen[2].delivery.path, seen[2].delivery.in_place) == (Path("in.onnx"), True)
    assert (seen[2].output, seen[2].run.quiet) == ("", True)


def test_what_a_command_decides_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("bnfold.cli.commands._run", seen.append)
    for command in ("fold", "upgrade", "optimize"):
        assert CliRunner().invoke(main, [command, "in.onnx", "out.onnx"]).exit_code == 0
    assert [asked.options for asked in seen] == [
        Options(target_opset="keep", constants="keep", no_simplify=True),
        Options(fold=False, constants="keep", no_simplify=True),
        Options(),
    ]
    assert all(asked.checks == VerifyOptions() for asked in seen)


def test_inspect_counts_what_is_left_as_well(tmp_path: Path) -> None:
    for place in (MODELS / "bn15_training.onnx", tmp_path):
        (tmp_path / "a.onnx").write_bytes((MODELS / "bn15_training.onnx").read_bytes())
        result = CliRunner().invoke(main, ["inspect", str(place), "--assert-none", "BatchNormalization"])
        assert result.exit_code == 4, result.output
    assert CliRunner().invoke(main, ["inspect", str(tmp_path), "--assert-none", "Gemm"]).exit_code == 0
