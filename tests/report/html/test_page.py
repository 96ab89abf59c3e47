"""The page as text: complete, closed, and with nothing in it that a name could smuggle in."""

from __future__ import annotations

import html.parser
import json
import re
import zlib
from base64 import b64decode
from html import unescape
from pathlib import Path

import onnx
import pytest

import bnfold
from bnfold.report.html import html as render
from bnfold.report.html import page
from bnfold.report.reasons import Reason
from bnfold.report.totals import size
from tests.conftest import MODELS
from tests.report.html.reports import broken, failing_report, report

VOID = {"meta", "link", "input", "br"}


class Outline(html.parser.HTMLParser):
    """VerifyOptions that every element is closed, and gathers identifiers and targets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag == "a":
            self.targets.add((named["href"] or "").removeprefix("#"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_element_is_closed_every_id_unique_every_link_leads_somewhere() -> None:
    outline = Outline(render([report("dense.onnx", verified=True), failing_report(), broken(Path("x.onnx"))]))
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.targets <= set(outline.ids)
    assert {f"reason-{reason.code}" for reason in Reason} <= set(outline.ids)


def test_what_is_left_says_why_and_what_can_be_done() -> None:
    text = render([report("bn15_training.onnx")])
    assert "Why it is still there:" in text
    assert Reason.TRAINING_MODE.value in text
    assert "Export the model again in evaluation mode" in text


def test_names_from_the_model_are_escaped() -> None:
    document = report("dense.onnx")
    evil = '"><script>alert(1)</script>'
    document["batchnorms"][0]["name"] = evil
    document["batchnorms"][0]["drawing"]["before"]["nodes"][0]["name"] = evil
    document["input"]["path"] = evil
    text = render([document])
    assert "<script>alert" not in text
    assert text.count("<script>") == 1
    Outline(text)


def test_a_page_of_too_many_rows_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_ROWS", 3)
    monkeypatch.setattr(page, "MAX_DRAWINGS", 1)
    text = render([report("dense.onnx")])
    assert text.count('<details class="row"') == 3
    assert text.count('<svg class="diagram"') == 2, "before and after"
    assert "5 more rows are in the JSON form" in text


def test_long_lists_say_how_much_more_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnfold.report.html.plots.MAX_LISTED", 2)
    document = report("dense.onnx", verified=True)
    text = render([document])
    for listed in (document["verify"]["local"], document["names"]["removed"], document["names"]["renamed"]):
        assert f"{len(listed) - 2} more are in the JSON form" in text


def test_negative_channels_are_named() -> None:
    assert "2 negative (channels 2, 4)" in render([report("dense.onnx")])


def test_what_the_upgrade_wrote_anew_keeps_its_row() -> None:
    text = render([report("bn6_per_activation.onnx")])
    assert text.count('<details class="row"') == 1


def test_the_verdict_stands_at_the_top_in_the_words_of_the_command_line() -> None:
    document = report("dense.onnx", verified=True)
    assert document["verify"]["summary"].startswith("verified: outputs agree ")
    text = unescape(render([document]))
    assert text.index(document["verify"]["summary"]) < text.index("What was done")
    assert ">note</th>" not in text
    document["verify"]["local"][0]["note"] = "it was not run"
    assert ">note</th>" in render([document])


def test_bodies_of_many_rows_are_packed_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    document = report("dense.onnx")
    inline = render([document])
    monkeypatch.setattr(page, "MAX_INLINE", 3)
    text = render([document])
    assert "What the search tried" not in text
    packed = text.partition('class="packed">')[2].partition("<")[0]
    bodies = json.loads(zlib.decompress(b64decode(packed)))
    assert len(bodies) == 8
    assert all("".join(body.split()) in "".join(inline.split()) for body in bodies)


def test_what_was_skipped_says_what_was_left_and_what_failed_comes_first() -> None:
    counts = {"before": 8, "after": 2, "reasons": {"negative-scale": 2}}
    skipped = {"input": {"path": "a.onnx"}, "status": "skipped", "message": "up to date", "counts": counts}
    text = render([skipped, broken(Path("b.onnx"))])
    assert text.index(">b.onnx<") < text.index(">a.onnx<")
    assert 'up to date; 2 <a href="#reason-negative-scale">negative-scale</a>' in text
    assert "No BatchNormalization here was left" not in text


def test_the_failing_verdict_is_loud() -> None:
    text = render([failing_report()])
    assert '<p class="banner failed">FAILED: ' in text
    assert "(failed)" in text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (20_480, "20.5 kB"), (3.2e9, "3.20 GB")]
)
def test_sizes(count: float, text: str) -> None:
    assert size(count, digits=2) == text


def test_a_page_of_many_models_starts_with_sums_and_stays_small() -> None:
    doubtful = failing_report()
    doubtful["verify"] |= {"status": "unverified", "reason": "running both models needs about 70 s"}
    good = report("dense.onnx", verified=True)
    text = render([good] * 57 + [doubtful, failing_report(), broken(Path("x.onnx"))])
    assert len(text) < 2 << 20
    first = text[text.index('<p class="banner ') :]
    sums = "57 verified, 2 failed, 1 unverified; BatchNormalization 458 → 171"
    assert first.startswith(f'<p class="banner failed">{sums}<')
    assert '<td class="unverified">unverified</td>' in text
    assert '<td class="long">running both models needs about 70 s' in text
    shown = re.sub(r'data-copy="[^"]*"', "", text)
    assert shown.index("x.onnx") < shown.index("running both models") < shown.index(good["input"]["path"])


def test_a_verdict_is_said_once() -> None:
    text = render([report("dense.onnx", verified=True)])
    assert re.sub(r'data-copy="[^"]*"', "", text).count("verified: outputs agree") == 1


def test_a_page_begins_with_a_sentence_and_copies_as_markdown() -> None:
    document = bnfold.inspect(MODELS / "dense.onnx").to_json()
    page = render([document])
    sentence = "8 BatchNormalizations: 3 left, 5 folded; opset 12 → 15; 31 → 26 nodes"
    assert page.index(f'<p class="sentence">{sentence}.') < page.index("What was done")
    assert "| BatchNormalization | 8 | 3 |\n" in page
    assert "3 × `shared-value`: other nodes read the same value" in page  # noqa: RUF001 - it is one
    assert "bnfold explain shared-value" in page


def test_operators_that_changed_come_first() -> None:
    page = render([bnfold.inspect(MODELS / "dense.onnx").to_json()])
    table = page[page.index("Operators, before and after") :]
    changes = re.findall(r'<td class="n">([+-]\d+|same)</td>\n', table[: table.index("</tbody>")])
    assert changes == sorted(changes, key=lambda change: change == "same")
    assert {*changes} > {"same"}


def simplified_report() -> dict[str, object]:
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[2] x) => (float[2] y) {
        a = Identity (x) b = Identity (a) y = Relu (b) }"""
    return bnfold.inspect(onnx.parser.parse_model(text)).to_json()


def test_a_model_without_batchnormalization_has_simplifications_and_no_empty_panels() -> None:
    text = render([simplified_report()])
    Outline(text)
    panel = text[text.index("Rewrites</h2>") :]
    row = r"<th scope=\"row\">[^<]*Identity[^<]*<br><code>remove-identity</code></th><td class=\"count\">2</td>"
    assert re.search(rf"{row}<td>equal bit for bit</td>", panel)
    assert "Every BatchNormalization" not in text
    assert "Reasons that do not occur here" not in text
    assert "Rewritten:" in text
    folded = render([report("dense.onnx")])
    assert "Every BatchNormalization" in folded
    assert "Reasons that do not occur here" in folded


@pytest.mark.parametrize("node", ["Mul (b, c)  d = Add (a, c)", "Add (b, c)  d = Mul (a, c)"])
def test_arithmetic_in_the_place_of_a_batchnorm_has_a_card(node: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 4] x) => (float[2, 3] y)
        <float[4] c = {{1, 2, 3, 4}}> {{ b = Relu (x)  a = {node}  y = MatMul (d, w) }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4, 3], [*range(12)]))
    text = render([bnfold.optimize(proto).to_json()])
    assert "constant arithmetic in the place of a BatchNormalization" in text
    assert "scale = γ / √(var + ε)" not in text  # noqa: RUF001
