"""Every value of an option that offers a choice matters: on some model the result, or the report on it, is another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import click
import onnx
import pytest
from click.testing import CliRunner

import bnfold
from bnfold.cli.commands import main
from bnfold.cli.invocation import CliOptions
from bnfold.settings import Options, OutputOptions, Policy, VerifyOptions
from bnfold.settings.checked import type_hints
from tests.conftest import MODELS

PARAMETERS = "float[3] s = {1, 2, 3}, float[3] b = {1, 2, 3}, float[3] m = {1, 2, 3}, float[3] v = {1, 2, 3}"
WEIGHT = "float[3,3,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 1}"
LISTED = "float[3] s, float[3] b, float[3] m, float[3] v"


class Case(NamedTuple):
    """A model, a file of ``models`` or text, and what is asked for beside the option; ``command`` writes to ``OUT``."""

    model: str
    arguments: tuple[str, ...] = ()
    command: tuple[str, ...] = ("optimize", "IN", "OUT", "--json")


def text(opset: int, head: str, body: str, constants: str = f"{WEIGHT}, {PARAMETERS}", domain: str = "") -> str:
    return f'<ir_version: 8, opset_import: ["": {opset}{domain}]> g {head} <{constants}> {{ {body} }}'


NORM = "c = Conv (x, w) y = BatchNormalization (c, s, b, m, v)"
FIVE = "c = Conv (x, w) y, p, q, r, t = BatchNormalization (c, s, b, m, v)"
UNKNOWN = text(
    15, "(float[2,3,5] x) => (float[2,3,5] y)", f"{NORM.replace('y =', 'n =')} y = d.Op (n)", domain=', "d": 1'
)
EXCHANGED = text(
    15,
    "(float[2,3,5] x) => (float[2,3,7] y)",
    "n = BatchNormalization (x, s, b, m, v) y = Conv <pads = [1, 1]> (n, w)",
)

CASES: Mapping[str, tuple[Case, ...]] = {
    "decompose": (Case("dense.onnx"),),
    "decompose_form": (Case("dense.onnx", ("--decompose", "all")),),
    "constants": (Case("constant_nodes.onnx"),),
    "overridable": (
        Case(text(15, f"(float[2,3,5] x, float[3,3,1] w, {LISTED}) => (float[2,3,5] y)", NORM)),
        Case(text(15, f"(float[2,3,5] x, {LISTED}) => (float[2,3,5] y)", NORM)),
    ),
    "exchange": (Case(EXCHANGED),),
    "simplify": (Case("constant_nodes.onnx"),),
    "legacy_mode": (
        Case("bn6_no_is_test.onnx"),
        Case(text(6, "(float[2,3,5] x) => (float[2,3,5] y)", FIVE)),
    ),
    "saved_var": (
        Case(
            text(9, "(float[2,3,5] x) => (float[2,3,5] y, float[3] t)", FIVE),
            ("--decompose", "remaining", "--target-opset", "13"),
        ),
    ),
    "depth": (Case("bn15.onnx"), Case(UNKNOWN)),
    "runtime": (Case("bn15.onnx"),),
    "output_format": (Case("dense.onnx", command=("inspect", "IN")),),
}
NEEDS = {"onnxslim": "onnxslim", "openvino": "openvino"}
FLAGS = {"depth": "--verify"}


def offered() -> dict[str, tuple[str, ...]]:
    """The values of each field that is a choice."""
    found = {}
    for kind in (Options, Policy, VerifyOptions, OutputOptions, CliOptions):
        for name, hint in type_hints(kind).items():
            inner = next(iter(get_args(hint)), None) if get_origin(hint) is not Literal else hint
            if get_origin(inner) is Literal:
                found[name] = get_args(inner)
    return found


def parameters() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The values of each option of the command line that is a choice."""
    for command in main.commands.values():
        for parameter in command.params:
            is_option = isinstance(parameter, click.Option)
            if is_option and isinstance(parameter.type, click.Choice) and parameter.name is not None:
                yield parameter.name, tuple(parameter.type.choices)


def seen(case: Case, folder: Path, option: str, value: str) -> str:
    """What the command line makes of a case: the exit code, the file and the report, but for what was asked."""
    source, out = folder / "in.onnx", folder / "out.onnx"
    is_file = case.model.endswith(".onnx")
    onnx.save(onnx.load(MODELS / case.model) if is_file else onnx.parser.parse_model(case.model), source)
    out.unlink(missing_ok=True)
    flag = FLAGS.get(option, f"--{option.replace('_', '-')}")
    files = {"IN": str(source), "OUT": str(out)}
    command = [*(files.get(word, word) for word in case.command), *case.arguments, f"{flag}={value}"]
    result = CliRunner().invoke(main, command)
    if "--json" not in command:
        return f"{result.exit_code} {result.output}"
    document: dict[str, Any] = json.loads(result.stdout) if result.stdout else {}
    for asked in ("options", "seconds", "output"):
        document.pop(asked, None)
    for timed in (document.get("verify") or {}, *document.get("steps", ())):
        timed.pop("seconds", None)
    made = out.read_bytes().hex() if out.exists() else ""
    return f"{result.exit_code} {made} {json.dumps(document, sort_keys=True)}"


def test_every_option_that_offers_a_choice_has_a_case() -> None:
    assert offered().keys() == CASES.keys()
    for name, values in parameters():
        assert set(values) <= set(offered()[name])


@pytest.mark.parametrize("option", CASES)
def test_no_two_values_of_an_option_do_the_same(option: str, tmp_path: Path) -> None:
    values = [value for value in offered()[option] if find_spec(NEEDS.get(value, "onnx")) is not None]
    results = {value: [seen(case, tmp_path, option, value) for case in CASES[option]] for value in values}
    for value, result in results.items():
        assert [other for other in values if results[other] == result] == [value]


@pytest.mark.parametrize("name", ["dense.onnx", "resnet_opset6.onnx", "generator.onnx"])
def test_decompose_all_folds_nothing_as_the_function_of_that_name(name: str, tmp_path: Path) -> None:
    command = ["optimize", str(MODELS / name), str(tmp_path / "out.onnx"), "--decompose", "all"]
    assert CliRunner().invoke(main, command).exit_code == 0
    outcome = bnfold.decompose(MODELS / name, target_opset=15)
    assert onnx.load(tmp_path / "out.onnx").graph == outcome.to_proto().graph
    assert {event.verdict for event in outcome.report.batchnorms} == {"decomposed"}
