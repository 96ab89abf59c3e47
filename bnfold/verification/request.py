"""What is asked of a verification, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bnfold import ir, reference
from bnfold.settings import Checks
from bnfold.verification.clock import Clock
from bnfold.verification.unscaled import Scaled


@dataclass(frozen=True, slots=True)
class Request:
    """The two models, opened, with the arguments of `bnfold.verification.verify`; the files where they came as such."""

    before: ir.Model
    after: ir.Model
    checks: Checks
    before_file: Path | None
    after_file: Path | None
    cuts: tuple[ir.Cut, ...]
    policy: reference.Policy
    clock: Clock
    scaled: Scaled
    progress: Callable[[str, int, int], None]
