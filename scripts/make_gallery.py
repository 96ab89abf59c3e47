#!/usr/bin/env python
"""Writes docs/gallery.md and its pictures: five real networks before and after, as bnfold's report draws them.

Needs the networks, a folder with an INDEX.tsv at $BNFOLD_CORPUS: `.venv/bin/python scripts/make_gallery.py`. The
gallery has pictures of a few operators and counts; no weights of any network.
"""

from __future__ import annotations

import csv
import re
import sys
from typing import Any, NamedTuple

from _environment import CORPUS, ROOT, require_files

import bnfold
from bnfold.report.html import display

PAGE = ROOT / "docs" / "gallery.md"
HEAD = """\
# Gallery

Five networks from public repositories, before and after `bnfold optimize`. Each picture is the neighbourhood of one
BatchNormalization, as the report draws it (`bnfold optimize model.onnx out.onnx --report why.html`): *this one* is
the BatchNormalization, *takes it over* marks the operator whose weights take its scale and shift. Weights are shown by
their shapes. [Networks](networks.md) has all 35, beside other tools.

The page is written by `scripts/make_gallery.py`.
"""


class Network(NamedTuple):
    """A network of the folder: the end of its source in INDEX.tsv, what it is, the rows that are drawn, and why."""

    source: str
    name: str
    about: str
    licence: str
    drawn: dict[str, str]


TEST = "an architecture of onnx's own tests, with constant weights, first written by Caffe2"
NETWORKS = (
    Network(
        source="models/onnx/version-RFB-320.onnx",
        name="Ultra-Light face detector",
        about="a face detector of 2019, exported by PyTorch 1.2",
        licence="MIT",
        drawn={"285": "A BatchNormalization between two convolutions goes into the first, which takes its name."},
    ),
    Network(
        source="rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        name="PP-OCR text direction",
        about="a network that finds text that is upside down; PaddlePaddle exported every weight as a Constant node",
        licence="Apache-2.0",
        drawn={"BatchNormalization@10": "An activation of several operators follows. It stays as it is."},
    ),
    Network(
        source="text_detection_en_ppocrv3_2023may.onnx",
        name="PP-OCRv3 text detection",
        about="a text detector of OpenCV's model zoo",
        licence="Apache-2.0",
        drawn={"p2o.BatchNormalization.48": "A transposed convolution has its bias in an Add. All three become one."},
    ),
    Network(
        source="data/light/light_densenet121.onnx",
        name="DenseNet-121",
        about=TEST,
        licence="Apache-2.0",
        drawn={
            "n15": "The file has scale and shift as a Mul and an Add behind each BatchNormalization. All three fold.",
            "n98": "A BatchNormalization behind a Concat of many layers stays: other operators read these layers as "
            "well, and an Add in its place would be no faster ([`no-gain`](reasons.md#no-gain)). It takes over the Mul "
            "and the Add.",
        },
    ),
    Network(
        source="data/light/light_shufflenet.onnx",
        name="ShuffleNet",
        about=TEST,
        licence="Apache-2.0",
        drawn={"n11": "A grouped convolution takes the scales channel by channel."},
    ),
)


def main() -> int:
    """Optimise each network, draw, and write the page."""
    with (CORPUS / "INDEX.tsv").open(encoding="utf-8", newline="") as stream:
        index = {row["source"]: CORPUS / row["path"] for row in csv.DictReader(stream, delimiter="\t")}
    pieces = [HEAD]
    (ROOT / "docs" / "gallery").mkdir(exist_ok=True)
    for network in NETWORKS:
        found = [path for source, path in sorted(index.items()) if source.endswith(network.source)]
        document = bnfold.optimize(require_files(found, sought=network.source)[0]).to_json()
        if document["verify"]["status"] != "verified":
            sys.exit(f"scripts/make_gallery.py: {network.name}: {document['verify']['summary']}")
        pieces += [section(network, next(source for source, path in index.items() if path == found[0]), document)]
    PAGE.write_text("\n".join(pieces), encoding="utf-8")
    return 0


def section(network: Network, source: str, document: dict[str, Any]) -> str:
    """Write the pictures of one network; return its part of the page."""
    lines = [
        f"## {network.name}", "",
        f"This is {network.about} ({network.licence}).", "",
        display.operators(document).markdown, "",
        document["verify"]["summary"][0].upper() + document["verify"]["summary"][1:] + ".", "",
    ]  # fmt: skip
    for name, text in network.drawn.items():
        row = next(row for row in document["batchnorms"] if row["name"] == name)
        file = f"{network.name.lower().replace(' ', '_')}-{name.rsplit('.', 1)[-1].rsplit('@', 1)[-1]}.svg"
        display.picture(row).save(ROOT / "docs" / "gallery" / file)
        alt = f"{network.name}, around {name}: before and after"
        lines += [text, "", f"![{alt}](gallery/{file})", ""]
    return "\n".join([*lines, f"Source: `{re.sub(r'~history[^)]*[)]', '', source).split(':', 1)[1]}`", ""])


if __name__ == "__main__":
    sys.exit(main())
