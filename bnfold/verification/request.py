"""What is asked of a verification, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bnfold import ir, reference
from bnfold.verification.clock import Clock
from bnfold.verification.unscaled import Scaled

Depth = Literal["auto", "full", "local"]
Runtime = Literal["onnxruntime", "openvino", "none"]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Request:
    """The two models, opened, with the options of `bnfold.verification.verify`; the files where a model came as one."""

    before: ir.Model
    after: ir.Model
    before_file: Path | None
    after_file: Path | None
    cuts: tuple[ir.Cut, ...]
    depth: Depth
    inputs: Mapping[str, Sequence[int]]
    data: Path | None
    samples: int
    seed: int
    witness: Runtime
    policy: reference.Policy
    clock: Clock
    scaled: Scaled = field(default_factory=dict)
    progress: Progress = field(default=lambda _phase, _done, _total: None)
