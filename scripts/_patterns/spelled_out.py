"""Decomposed BatchNormalizations, in the forms that exporters and people write."""

from __future__ import annotations

from fuzz.builder import Builder, Drawn

from _patterns.parts import Pattern, conv, conv_transpose, gemm, given, image, node, weight


def _frozen(b: Builder, x: Drawn, inverse: str = "Reciprocal") -> Drawn:
    """Append detectron2's form: ``x·scale + (bias - mean·scale)`` with ``scale = weight / sqrt(var + eps)``."""
    channels = (1, x.shape[1], *[1] * (x.rank - 2))
    var, epsilon = b.weight(b.numbers(channels, 0.5, 2.0)), b.weight(b.numbers([], 1e-5, 2e-5))
    root = node(b, "Sqrt", node(b, "Add", var, epsilon))
    inverted = (
        node(b, "Reciprocal", root)
        if inverse == "Reciprocal"
        else node(b, "Div", b.weight(b.numbers([], 1.0, 1.0)), root)
    )
    scale = node(b, "Mul", weight(b, *channels), inverted)
    shift = node(b, "Sub", weight(b, *channels), node(b, "Mul", weight(b, *channels), scale))
    return node(b, "Add", node(b, "Mul", x, scale), shift)


def _normalised(b: Builder, *, by: str = "Div") -> Drawn:
    """Normalise an image: (x - mean) / deviation, for each colour."""
    return node(b, by, node(b, "Sub", image(b), weight(b, 1, 3, 1, 1)), weight(b, 1, 3, 1, 1))


ROWS = [
    Pattern("Conv → FrozenBatchNorm (Sqrt, Reciprocal)", lambda b: _frozen(b, conv(b, image(b)))),
    Pattern("Conv → FrozenBatchNorm (Sqrt, 1 / x)", lambda b: _frozen(b, conv(b, image(b)), "Div")),
    Pattern("ConvTranspose → FrozenBatchNorm", lambda b: _frozen(b, conv_transpose(b, image(b)))),
    Pattern("Gemm → FrozenBatchNorm", lambda b: _frozen(b, gemm(b, given(b, 3, 4)))),
    Pattern("Conv → FrozenBatchNorm → FrozenBatchNorm", lambda b: _frozen(b, _frozen(b, conv(b, image(b))))),
    Pattern("FrozenBatchNorm → Conv", lambda b: conv(b, _frozen(b, image(b)))),
    Pattern("normalised image (Sub, Div) → Conv", lambda b: conv(b, _normalised(b))),
    Pattern("normalised image (Sub, Mul) → Conv", lambda b: conv(b, _normalised(b, by="Mul"))),
    Pattern(
        "normalised image (Sub, Div) → padded Conv (an Add stays)", lambda b: conv(b, _normalised(b), pads=[1, 1, 1, 1])
    ),
]
