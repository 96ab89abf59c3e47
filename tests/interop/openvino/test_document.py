from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bnfold import BnfoldError, inspect
from bnfold.interop.openvino.document import read_document
from bnfold.interop.openvino.load import load
from tests.interop.openvino.text import Text, convolution_and_norm


def test_constants_stay_on_disk_and_are_read_where_they_lie(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    document = read_document(path)
    kernel = next(layer for layer in document.constants() if layer.name == "kernel")
    tensor = document.tensor(kernel)
    assert tensor is not None
    expected = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert document.version == 11
    assert document.opset == 5


BAD: list[tuple[str, Callable[[str], str], str]] = [
    ("entities", lambda text: text.replace("<net", '<!DOCTYPE net [<!ENTITY a "b">]><net', 1), "document type"),
    (
        "outside",
        lambda text: text.replace("<net", '<!DOCTYPE net SYSTEM "file:///etc/passwd"><net', 1),
        "document type",
    ),
    ("not XML", lambda text: text[:-40], "not XML, or damaged"),
    ("another root", lambda text: text.replace("net", "html"), "not an OpenVINO IR"),
    ("old", lambda text: text.replace('version="11"', 'version="7"'), "IR version 7; versions 10 and 11"),
    ("no layers", lambda text: text.replace("layers>", "strata>"), "no <layers>"),
    ("ids", lambda text: text.replace('layer id="1"', 'layer id="0"'), "layer id '0' is missing or given twice"),
    ("edges", lambda text: text.replace('from-layer="2"', 'from-layer="99"'), "leads nowhere"),
    ("ports", lambda text: text.replace('from-layer="2" from-port="2"', 'from-layer="2" from-port="9"'), "port 9"),
    ("offset", lambda text: re.sub(r'offset="0"', 'offset="100000"', text), "outside the constants' file"),
    ("negative", lambda text: re.sub(r'offset="0"', 'offset="-4"', text), "no number"),
    ("size", lambda text: text.replace('size="432"', 'size="436"'), "436 bytes do not fit its shape"),
    ("shape", lambda text: text.replace('shape="4,3,3,3"', 'shape="4,x"'), "no list of numbers"),
    ("no epsilon", lambda text: text.replace('epsilon="0.001"', ""), "'bn' (BatchNormInference) has no epsilon"),
    ("epsilon", lambda text: text.replace('"0.001"', '"-1"'), "epsilon=-1 is not a finite number"),
    ("nan", lambda text: text.replace('"0.001"', '"nan"'), "epsilon=nan is not a finite number"),
    ("word", lambda text: text.replace('"0.001"', '"small"'), "epsilon='small' is no number"),
]


@pytest.mark.parametrize(("damage", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, damage: Callable[[str], str], message: str) -> None:
    text = convolution_and_norm()
    path = text.save(tmp_path / "m.xml")
    whole = str(text)
    assert damage(whole) != whole
    path.write_text(damage(whole), encoding="utf-8")
    with pytest.raises(BnfoldError, match=re.escape(message)) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("opset", ["opset1", "opset5"])
def test_a_missing_epsilon_is_an_error_in_both_versions(tmp_path: Path, opset: str) -> None:
    text = Text()
    text.result(text.norm(text.parameter((2, 3, 4)), name="stage2/bn", opset=opset))
    with pytest.raises(BnfoldError, match=r"'stage2/bn' .* has no epsilon"):
        inspect(text.save(tmp_path / "m.xml"))


def test_constants_that_are_not_there(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    path.with_suffix(".bin").unlink()
    with pytest.raises(BnfoldError, match=r"m\.bin belongs beside it"):
        load(path)
    with pytest.raises(BnfoldError, match="cannot be read"):
        load(tmp_path / "other.xml")


def test_another_layer_that_keeps_bytes_in_the_file_is_refused(tmp_path: Path) -> None:
    text = Text()
    text.result(text.layer("Blob", (), (2,), offset=0, size=8))
    with pytest.raises(BnfoldError, match="only Const is known to"):
        load(text.save(tmp_path / "m.xml"))
