"""Mode ``bytes``: load → inspect → save on damaged files.

A file that loads has to be written again as protobuf itself would read it. Any other is refused in one line.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.pipeline.job import process
from bnfold.settings import Options, VerifyOptions
from fuzz import seeds, watch
from fuzz.case import Case, Outcome
from fuzz.scramble import mutate

SETTINGS: tuple[Options, ...] = (
    Options(),
    Options(decompose="remaining", max_growth=1 << 20),
    Options(target_opset="keep", all_affines=True),
    Options(target_opset=21, fold=False),
)


def draw(seed: int, corpus: Sequence[Path]) -> Case:
    """Draw a small model with damage in its bytes; half of them come from the corpus, if there is one."""
    rng = np.random.default_rng(seed)
    kept = [path for path in corpus if path.stat().st_size < 1 << 18] if rng.random() < 0.5 else []
    sources = kept or seeds.small()
    first, second = (sources[int(rng.integers(len(sources)))].read_bytes() for _ in range(2))
    return Case(mutate(first, rng, [second]))


def judge(case: Case, folder: Path) -> Outcome:  # noqa: ARG001 - nothing is written
    """Judge as `examine`."""
    return examine(case.model)


def examine(data: bytes) -> Outcome:
    """Load, write and inspect. The bytes decide which payloads count as large, and the use of the model."""
    key = zlib.crc32(data)
    with mock.patch("bnfold.ir.storage.load.THRESHOLD", 16 if key & 1 else 1024):
        try:
            error = _round_trip(data)
            outcome = process(data, None, SETTINGS[(key >> 1) % len(SETTINGS)], VerifyOptions(depth="none"))
            outcome.to_json()
            written = ir.encode(outcome.model)
            ir.load(written)
        except BnfoldError as refusal:
            return Outcome(behaviour=watch.refusal(refusal), refused=True)
        except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
            return Outcome(watch.crash(crash))
    norms = outcome.report.batchnorms
    behaviour = " ".join(sorted({event.verdict for event in norms} | {str(event.reason) for event in norms}))
    return Outcome(error, behaviour, len(norms), outcome.report.count("folded"))


def _round_trip(data: bytes) -> str:
    """Check that loading and writing a model changes nothing that protobuf sees."""
    written = ir.encode(ir.load(data))
    try:
        expected = onnx.ModelProto.FromString(data)
    except DecodeError:
        return "differs: protobuf refuses the file, bnfold writes it again"
    found = onnx.ModelProto.FromString(written)
    if found.SerializeToString(deterministic=True) != expected.SerializeToString(deterministic=True):
        return "differs: the model is not what it was after loading and writing it"
    return ""
