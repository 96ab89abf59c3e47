"""The modes by name: each draws a case from a seed, and judges one in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fuzz import bytes_, converts, faults, graphs, rewriting, sizes, verifying
from fuzz.case import Case, Outcome

HANG_SECONDS = 10.0
"""Seconds of processor time for one case of less than a megabyte."""


@dataclass(frozen=True)
class Mode:
    """A mode: ``draw`` takes a seed and the files of the corpus, ``judge`` a case and an empty folder.

    ``memory`` is the number of bytes that a case may take, ``seconds`` the processor time of one of its runs.
    """

    draw: Callable[[int, Sequence[Path]], Case]
    judge: Callable[[Case, Path], Outcome]
    memory: int = 512 << 20
    seconds: float = HANG_SECONDS


def _rewriting(mode: str) -> Mode:
    return Mode(lambda seed, _: rewriting.draw(mode, seed), partial(rewriting.judge, mode))


MODES: dict[str, Mode] = {
    "bytes": Mode(bytes_.draw, bytes_.judge),
    "graphs": Mode(graphs.draw, graphs.judge),
    **{mode: _rewriting(mode) for mode in rewriting.DEFAULTS if mode != "convert"},
    "convert": Mode(lambda seed, _: converts.draw(seed), converts.judge, memory=1 << 30),
    "sizes": Mode(lambda seed, _: sizes.draw(seed), sizes.judge, memory=1 << 30),
    "verify": Mode(lambda seed, _: verifying.draw(seed), verifying.judge, memory=3 << 30, seconds=30.0),
    "faults": Mode(lambda seed, _: faults.draw(seed), faults.judge, memory=3 << 30, seconds=30.0),
}
