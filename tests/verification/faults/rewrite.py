"""What a row of the table is."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

from bnfold import ir

BN = "BatchNormalization <epsilon = 1e-5>"


@dataclass
class Rewrite:
    """``cut`` is (inputs, outputs) as the rewrite's own event would give them.

    ``shows_whole``: whether few samples of whole models show the faults; else these may leave them unverified.
    """

    name: str
    before: onnx.ModelProto
    after: onnx.ModelProto
    wrong: dict[str, onnx.ModelProto] = field(default_factory=dict)
    cut: tuple[tuple[str, ...], tuple[str, ...]] = (("x",), ("y",))
    shows_whole: bool = True

    @property
    def cuts(self) -> list[ir.Cut]:
        return [ir.Cut("", *self.cut, self.name)]
