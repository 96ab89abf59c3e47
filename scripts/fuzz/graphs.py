"""Mode ``graphs``: the whole job on real models with hostile changes.

The model is refused in one line, or written. If both it and the result run, they are numerically equivalent. Nothing
outside the model's folder is read, and nothing but the result is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from bnfold import ir, verification
from bnfold.errors import BnfoldError
from bnfold.ir.tensor import FLOATS
from bnfold.pipeline.job import process
from bnfold.settings import Options, OutputOptions, VerifyOptions
from bnfold.verification.tolerance.floats import float_type
from fuzz import draw as chains
from fuzz import outside, phases, runtime, seeds, watch
from fuzz.case import MODEL, Case, Outcome
from fuzz.hostile import CHANGES

RESULT = "result.onnx"
LARGEST = 1 << 18
"""Elements of all inputs together above which the results are not compared: that takes more time than all the rest."""
MANY = 1 << 10
"""Terms of a sum."""
BUDGET_SECONDS = 2.0
"""Seconds for comparing whole models; after that the changed subgraphs are compared."""


def draw(seed: int, corpus: Sequence[Path]) -> Case:
    """Draw a model of the seeds or the corpus, or a random one, and one to four changes to it."""
    rng = np.random.default_rng(seed)
    options = corpus if corpus and rng.random() < 0.3 else seeds.models() if rng.random() < 0.3 else seeds.small()
    path = options[int(rng.integers(len(options)))]
    model = chains.draw(seed, onnx.TensorProto.FLOAT)[0] if rng.random() < 0.2 else _loaded(path)
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for _ in range(int(rng.integers(1, 5))):
        CHANGES[int(rng.integers(len(CHANGES)))](model, rng)
    if rng.random() < 0.3:
        outside.move_out(model, files, links, rng)
    settings = {
        "target_opset": [None, None, "keep", 21][int(rng.integers(4))],
        "decompose": ["never", "remaining", "all"][int(rng.integers(3))],
        "all_affines": bool(rng.random() < 0.3),
        "external_data": ["auto", "keep", "none", "weights.bin"][int(rng.integers(4))],
        "merge_branches": bool(rng.random() < 0.3),
        "only_if_accepted": True,  # older kept cases lack it: their results have to be right without it
    }
    return Case(model.SerializeToString(), files, links, settings=settings)


def _loaded(path: Path) -> onnx.ModelProto:
    """Load a kept case: without its data if that cannot be read, and another case if it is too deep."""
    try:
        return onnx.load(path)
    except DecodeError:
        return onnx.load(seeds.small()[0])
    except (onnx.checker.ValidationError, OSError, ValueError):
        return onnx.load(path, load_external_data=False)


def judge(case: Case, folder: Path) -> Outcome:
    """Optimise without verification, and inspect every file that remains."""
    source, out = case.lay_out(folder / "in"), folder / "out"
    out.mkdir()
    (folder / outside.SECRET_FILE).write_bytes(outside.SECRET)
    before = watch.listing(folder)
    try:
        outcome = _optimize(source, out / RESULT, case.settings)
    except BnfoldError as refusal:
        stray = _changes(before, watch.listing(folder))
        return Outcome(f"stray: {stray}" if stray else "", watch.refusal(refusal), refused=True)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    events = outcome.report.batchnorms
    behaviour = " ".join(sorted({f"{event.verdict} {event.reason}" for event in events}))
    error = _leak(out) or _strays(before, watch.listing(folder), case.settings.get("external_data", "auto"))
    compared = False
    if not error:
        error, compared = _compare(source, out / RESULT, frozen=bool(outcome.report.frozen))
    if error.startswith("differs") and case.settings.get("only_if_accepted") and not _accepted(source, out / RESULT):
        error = ""  # only bnfold has a meaning for the model, and by default bnfold refuses to write the result
    return Outcome(error, behaviour, len(events), outcome.report.count("folded"), compared=compared)


def _optimize(source: Path, target: Path, settings: Any) -> Any:
    options = Options(
        target_opset=settings.get("target_opset"),
        decompose=settings.get("decompose", "never"),
        all_affines=settings.get("all_affines", False),
        merge_branches=settings.get("merge_branches", False),
    )
    delivery = OutputOptions(target, external_data=settings.get("external_data", "auto"), explained=True)
    outcome = process(source, delivery, options, VerifyOptions(depth="none"))
    outcome.to_json()
    return outcome


def _changes(before: dict[str, str], after: dict[str, str]) -> str:
    return ", ".join(sorted(dict(before.items() ^ after.items())))


def _strays(before: dict[str, str], after: dict[str, str], external_data: str) -> str:
    allowed = {f"out/{RESULT}", f"out/{RESULT}.data", f"out/{external_data}"}
    found = [name for name in dict(before.items() ^ after.items()) if name not in allowed]
    return f"stray: {', '.join(sorted(found))}" if found else ""


def _leak(folder: Path) -> str:
    if any(outside.SECRET in path.read_bytes() for path in folder.iterdir() if path.is_file()):
        return "leak: bytes from outside the model's folder are in the result"
    return ""


def _elements(path: Path) -> float:
    """Count the elements of all inputs together, with small sizes for dynamic dims."""
    infos = onnx.load(path, load_external_data=False).graph.input
    shapes = [[abs(dim.dim_value) or 8 for dim in info.type.tensor_type.shape.dim] for info in infos]
    return float(sum(np.prod(shape, dtype=np.float64) for shape in shapes))


def _has_overflowing_weights(path: Path) -> bool:
    """Whether there are infinite weights, or weights whose sums are infinite."""
    values = [value for graph in ir.load(path).graphs() for value in graph.values.values()]
    held = [value.tensor for value in values if value.tensor_proto is not None]
    with suppress(BnfoldError, ValueError):  # unreadable weights are another kind of failure
        return any(tensor.dtype in FLOATS and _overflows(tensor) for tensor in held if tensor)
    return False


def _overflows(tensor: ir.Tensor) -> bool:
    return bool((np.abs(tensor.float64()) > float_type(tensor.dtype).largest / MANY).any())


def _accepted(*models: Path) -> bool:
    return any(runtime.accepts(model) for model in models)


def _compare(before: Path, after: Path, *, frozen: bool) -> tuple[str, bool]:
    """Compare; return the finding, and whether there was anything to compare."""
    if _elements(before) > LARGEST:
        return "", False
    with phases.theirs("verify"):
        try:
            verdict = verification.verify(before, after, frozen=frozen, runtime="none", budget_seconds=BUDGET_SECONDS)
        except (BnfoldError, MemoryError):
            return "", False
        except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
            return f"verify: {watch.crash(crash)}", False
    if verdict.status == "failed":
        overflows = "overflow" in verdict.reason and ", 0 did" not in verdict.reason
        if verdict.decided_by == "storage precision" and (overflows or _has_overflowing_weights(before)):
            return "", True  # equal in float64; in the stored type a roundoff before an infinite factor matters
        return f"differs: {verdict.reason}", True
    with phases.theirs("onnxruntime"):
        error, ran = runtime.compare(before, after)
    return error, ran or verdict.status == "verified"


__all__ = ["MODEL", "draw", "judge"]
