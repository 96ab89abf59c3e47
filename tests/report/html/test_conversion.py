"""What a conversion did is in the table, in the JSON document and on the page."""

import re
from dataclasses import replace
from pathlib import Path

import onnx

import bnfold
from bnfold.cli import before_after
from bnfold.report.html import html as render

TEXT = """<ir_version: 10, opset_import: ["" : 18]> g (float[2, 3, 8] x, float[8] s) => (float[2, 3, 8] y) {
  n = LayerNormalization (x, s)  a = Constant <value_ints = [1]> ()  r = ReduceMean (n, a)  y = Relu (r)
}"""


def test_each_of_the_three_shows_all_of_it(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "model.onnx")
    outcome = bnfold.convert(tmp_path / "model.onnx", opset="lowest")
    document = outcome.to_json()
    rows = {row["operator"]: row for row in document["conversion"]}
    assert (document["opset"], document["ir_version"]) == ({"before": 18, "after": 6}, {"before": 10, "after": 4})
    assert document["lowest"]["opset"] == 6
    assert [rows["LayerNormalization"][name] for name in ("spelled_out", "added")] == [1, 9]
    assert (rows["ReduceMean"]["respelled"], rows["Relu"]["as_is"]) == (1, 1)

    table = "\n".join(before_after.conversion(outcome.report))
    assert "LayerNormalization 1 decomposed (+9 nodes)" in table
    assert "ReduceMean 1 converted" in table
    assert "1 node as is" in table
    assert "lowest opset for this model: 6; cannot convert opset 18 to 5: LayerNormalization" in table

    assert "counted before" not in table
    outcome.report.after = replace(outcome.report.after, operators={"Relu": 1})
    assert "1 node as is (counted before the last rewrites, which left 1 of all nodes)" in "".join(
        before_after.conversion(outcome.report)
    )

    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", render([document])))
    assert "18 → 6 opset" in page
    assert "10 → 4 IR version" in page
    assert "Lowest opset for this model: 6; cannot convert opset 18 to 5: LayerNormalization" in page
    assert "operator as is converted decomposed" in page
    assert re.search(r"ReduceMean 1 .*LayerNormalization 1 \(\+9 nodes\) .*As they are: 1 Relu\.", page)
