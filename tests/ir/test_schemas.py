import pytest
from onnx import defs

from bnfold.ir import schemas


@pytest.mark.parametrize(
    ("op_type", "opset", "version"),
    [("Add", 1, 1), ("Add", 6, 6), ("Add", 12, 7), ("Add", 15, 14), ("Where", 8, None), ("NoSuch", 15, None)],
)
def test_version_in_force(op_type: str, opset: int, version: int | None) -> None:
    assert schemas.version_at(op_type, opset) == version


def test_histories_rise_and_agree_with_onnx() -> None:
    for op_type in {schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain}:
        history = schemas.versions_of(op_type)
        assert list(history) == sorted(set(history))
        assert schemas.schema_of(op_type, history[-1]).since_version == history[-1]
    assert schemas.newest_opset() == defs.onnx_opset_version()


def test_other_domains_are_not_ours() -> None:
    assert schemas.versions_of("ZipMap") == ()
