import json

from bnfold.semantics import Repair


def test_a_repair_is_json_able() -> None:
    repair = Repair("absent-is-test", "bn1", "is_test is absent: read as inference")
    assert json.loads(json.dumps(repair.to_json())) == {
        "kind": "absent-is-test",
        "node": "bn1",
        "text": "is_test is absent: read as inference",
    }
