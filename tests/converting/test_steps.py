import pytest
from onnx import defs

from bnfold.converting import registry, steps
from bnfold.ir.schemas import schema_of, versions_of

STEPS = [
    (op_type, older, newer)
    for op_type in sorted({schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain})
    for older, newer in zip(versions_of(op_type), versions_of(op_type)[1:], strict=False)
]
NEWEST = defs.onnx_opset_version()
"""Steps of newer opsets are registered as well: an older onnx does not know them."""
REVIEWED_OPSET = 28
"""Up to here somebody read what every version changed; raise it with what adapters register."""


def test_every_step_is_compatible_or_adapted() -> None:
    for op_type, older, newer in STEPS:
        (step,) = steps.steps(op_type, older, newer)
        assert step.version == newer
        assert step.blocked is None, f"{op_type} {older} → {newer}: {step.blocked}"


def test_nobody_has_looked_at_a_newer_opset_yet() -> None:
    assert NEWEST <= REVIEWED_OPSET


def test_every_version_of_what_bnfold_is_about_was_read_by_hand() -> None:
    assert set(registry.BY_MEANING) == {"BatchNormalization", "InstanceNormalization"}
    for op_type in registry.BY_MEANING:
        assert {version for name, version in registry.UP if name == op_type} == set(versions_of(op_type)[1:])


def test_a_version_of_batchnorm_that_nobody_has_read_is_blocked() -> None:
    assert steps.unproven("BatchNormalization", 99) == "version 99 is newer than this bnfold"


def test_what_is_registered_names_real_steps() -> None:
    real = {(op_type, newer) for op_type, _, newer in STEPS}
    assert {step for step in registry.UP if step[1] <= NEWEST} <= real
    begin = {(op_type, versions_of(op_type)[0]) for op_type, _ in steps.downs() if versions_of(op_type)}
    assert {step for step in steps.downs() if step[1] <= NEWEST} <= real | begin


def test_a_step_is_registered_once() -> None:
    with pytest.raises(AssertionError, match="registered twice"):
        registry.down_unchanged("Split", next(version for name, version in steps.downs() if name == "Split"))


def test_what_is_registered_as_unchanged_says_more_than_the_schemas() -> None:
    assert {name for (name, _), adapter in registry.UP.items() if adapter is None} <= registry.BY_MEANING.keys()
    assert {key for key, step in steps.downs().items() if step.adapter is None} <= registry.UP.keys()


@pytest.mark.parametrize(
    ("op_type", "version"),
    [("PRelu", 7), ("GroupNormalization", 21), ("RoiAlign", 16), ("Split", 18), ("QuantizeLinear", 19)],
)
def test_a_change_of_meaning_behind_a_compatible_schema_has_an_adapter(op_type: str, version: int) -> None:
    assert registry.UP[op_type, version] is not None


def test_of_a_withdrawn_operator_the_last_version_with_a_meaning_counts() -> None:
    assert steps.living_version("Upsample", 15) == 9
    assert steps.living_version("Scatter", 15) == 9
    assert steps.living_version("Add", 15) == 14
    assert steps.living_version("NoSuchOperator", 15) is None


@pytest.mark.parametrize(
    ("op_type", "version", "way"),
    [("Relu", 14, "unchanged"),  # types only
     ("Relu", 6, "rewritten"),  # registered as unchanged: only a node that states what is gone is another one
     ("Split", 18, "rewritten"),
     ("BatchNormalization", 9, "rewritten"),  # by meaning
     ("BatchNormalization", 15, "unchanged"),
     ("Gelu", 20, "decomposed"),
     ("HannWindow", 17, "decomposed"),  # by its function body
     ("GRU", 3, "blocked"),  # a step that goes up only
     ("Where", 9, "blocked")],  # begins there
)  # fmt: skip
def test_the_way_down(op_type: str, version: int, way: str) -> None:
    assert steps.way_down(op_type, version) == way


@pytest.mark.parametrize("op_type", sorted(steps.sound_bodies()))
def test_every_operator_with_a_sound_body_has_one(op_type: str) -> None:
    if not versions_of(op_type):
        pytest.skip("this onnx does not know it")
    schema = schema_of(op_type, versions_of(op_type)[0])
    assert schema.has_function or schema.has_context_dependent_function  # type: ignore[attr-defined]  # the stubs lack these
