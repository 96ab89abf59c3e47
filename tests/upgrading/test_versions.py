import pytest
from onnx import defs

from bnfold.upgrading import versions


@pytest.mark.parametrize(
    ("op_type", "opset", "version"),
    [("Add", 1, 1), ("Add", 6, 6), ("Add", 12, 7), ("Add", 15, 14), ("Where", 8, None), ("NoSuch", 15, None)],
)
def test_version_in_force(op_type: str, opset: int, version: int | None) -> None:
    assert versions.version_at(op_type, opset) == version


def test_histories_rise_and_agree_with_onnx() -> None:
    for op_type in versions.operator_names():
        history = versions.versions_of(op_type)
        assert list(history) == sorted(set(history))
        assert versions.schema_of(op_type, history[-1]).since_version == history[-1]
    assert versions.newest_opset() == defs.onnx_opset_version()


def test_other_domains_are_not_ours() -> None:
    assert versions.versions_of("ZipMap") == ()
