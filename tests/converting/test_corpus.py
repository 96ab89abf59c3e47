"""Real models of many exporters: every valid one reaches opset 15."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

WITHDRAWN = ("needs 5 (X, scale, B, mean, var)", "version 14 allows 1 or 3")
"""What is said of the drafts of opset 12 and 14 that onnx published as tests and took back."""


def rows(corpus: Path) -> list[dict[str, str]]:
    with (corpus / "INDEX.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.large
def test_every_real_model_upgrades_and_every_withdrawn_draft_is_named(corpus: Path) -> None:
    blocked = {}
    for row in rows(corpus):
        model = ir.load(corpus / row["path"])
        try:
            report = convert(model)
        except ConversionBlocked as error:
            blocked[row["path"]] = str(error)
            continue
        assert report.after == max(15, report.before)
        assert not convert(model).changes
    assert all("training_mode" in path for path in blocked)
    assert all(any(reason in error for reason in WITHDRAWN) for error in blocked.values())
    assert len(blocked) == 8


@pytest.mark.large
def test_no_batchnorm_of_an_older_form_is_left(corpus: Path) -> None:
    for row in rows(corpus):
        model = ir.load(corpus / row["path"])
        try:
            convert(model)
        except ConversionBlocked:
            continue
        for node in model.nodes():
            if node.is_op("BatchNormalization"):
                assert set(node.attrs) <= {"epsilon", "momentum", "training_mode"}
                assert len(node.outputs) in (1, 3)
