import pytest
from onnx import defs

from bnfold.converting import function_body, table, table_down
from bnfold.ir.schemas import schema_of, versions_of

STEPS = [
    (op_type, older, newer)
    for op_type in sorted({schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain})
    for older, newer in zip(versions_of(op_type), versions_of(op_type)[1:], strict=False)
]
REVIEWED_OPSET = 28
"""Up to here somebody read what every version changed; raise it with the lists in the table."""


def test_every_step_is_compatible_or_adapted() -> None:
    for op_type, older, newer in STEPS:
        (step,) = table.steps(op_type, older, newer)
        assert step.version == newer
        assert step.blocked is None, f"{op_type} {older} → {newer}: {step.blocked}"


def test_nobody_has_looked_at_a_newer_opset_yet() -> None:
    assert defs.onnx_opset_version() <= REVIEWED_OPSET


@pytest.mark.parametrize("op_type", sorted(table.BY_HAND))
def test_every_version_of_what_bnfold_is_about_was_read_by_hand(op_type: str) -> None:
    listed = {version for name, version in (*table.ADAPTERS, *table.REVIEWED) if name == op_type}
    assert listed == set(versions_of(op_type)[1:])


def test_a_version_of_batchnorm_that_nobody_has_read_is_blocked() -> None:
    assert table.unproven("BatchNormalization", 99) == "version 99 is newer than this bnfold"


def test_the_lists_name_real_steps_and_do_not_contradict_each_other() -> None:
    steps = {(op_type, newer) for op_type, _, newer in STEPS}
    known = defs.onnx_opset_version()  # an older onnx has fewer
    lists = [{step for step in listed if step[1] <= known} for listed in (table.ADAPTERS, table.REVIEWED)]
    assert set().union(*lists) <= steps
    assert sum(map(len, lists)) == len(set().union(*lists))


@pytest.mark.parametrize(
    ("op_type", "version"),
    [("PRelu", 7), ("GroupNormalization", 21), ("RoiAlign", 16), ("Split", 18), ("QuantizeLinear", 19)],
)
def test_a_change_of_meaning_behind_a_compatible_schema_has_an_adapter(op_type: str, version: int) -> None:
    assert (op_type, version) in table.ADAPTERS


def test_of_a_withdrawn_operator_the_last_version_with_a_meaning_counts() -> None:
    assert table.living_version("Upsample", 15) == 9
    assert table.living_version("Scatter", 15) == 9
    assert table.living_version("Add", 15) == 14
    assert table.living_version("NoSuchOperator", 15) is None


def test_the_steps_down_name_real_versions() -> None:
    known = defs.onnx_opset_version()  # an older onnx has fewer
    for op_type, version in table_down.DOWN:
        assert version in versions_of(op_type) or version > known


def test_a_step_down_says_more_than_the_schemas() -> None:
    """Each is of a step that changes the form, or begins an operator, or adds what can be said otherwise."""
    narrower = {("OneHot", 11), ("Shape", 15), ("Reshape", 14), ("Resize", 18), ("Resize", 13), ("Pad", 18)}
    narrower |= {(f"Scatter{what}", version) for what in ("Elements", "ND") for version in (16, 18)}
    narrower |= {("Constant", 12), ("Constant", 11), ("Loop", 11), ("Constant", 9), ("Attention", 24), ("LpPool", 18)}
    narrower |= {
        ("Gemm", 11),
        ("Equal", 11),
        ("DepthToSpace", 11),
        ("AveragePool", 19),
        ("ArgMax", 12),
        ("ArgMin", 12),
        ("BitShift", 28),
    }
    narrower |= {(op_type, 22) for op_type in ("AveragePool", "LpPool", "MaxPool")}
    narrower |= {(op_type, 12) for op_type in ("Max", "Min", "Clip", "Pow")}
    narrower |= {(op_type, version) for op_type in ("QuantizeLinear", "DequantizeLinear") for version in (13, 19, 21)}
    narrower |= {(op_type, 10) for op_type in ("AveragePool", "MaxPool")}
    narrower |= {(op_type, 8) for op_type in ("Max", "Mean", "Min", "Sum")}
    narrower |= {("If", 11), ("Mod", 28), ("IsInf", 20), ("OptionalHasElement", 18), ("OptionalGetElement", 18)}
    narrower |= {(op_type, 14) for op_type in ("Add", "Sub", "Mul", "Div")}
    for op_type, version in table_down.DOWN:
        if version in versions_of(op_type)[1:]:
            assert (op_type, version) in table.ADAPTERS or (op_type, version) in narrower


def test_every_version_has_an_opinion_downwards() -> None:
    """A step down is the same, narrower (the schemas say how), an adapter's, or the operator begins there."""
    unsaid = []
    for op_type, older, newer in STEPS:
        schema = schema_of(op_type, newer)
        (step,) = table.steps(op_type, older, newer)
        is_narrower = step.adapter is None and step.blocked is None
        if is_narrower or schema.deprecated or op_type in table.BY_HAND or (op_type, newer) in table_down.DOWN:
            continue
        if op_type not in function_body.SOUND and (op_type, newer) not in table_down.ONE_WAY:
            unsaid.append((op_type, newer))
    assert not unsaid


def test_every_operator_that_begins_late_has_an_opinion() -> None:
    """It is composed of others, has a sound function body, or is listed as new in its own right."""
    unsaid = []
    for op_type in sorted({schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain}):
        versions = versions_of(op_type)
        if not versions or versions[0] == 1 or op_type in table.BY_HAND:
            continue
        if (op_type, versions[0]) not in table_down.DOWN and op_type not in function_body.SOUND:
            unsaid.append((op_type, versions[0]))
    known = defs.onnx_opset_version()  # an older onnx has fewer
    assert {*unsaid} == {begin for begin in table_down.BEGIN if begin[1] <= known}
