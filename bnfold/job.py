"""One model from file to file: load, rewrite, write beside the place, verify, and only then put it there."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bnfold import ir, pipeline
from bnfold.errors import BadInput, OutputError, VerificationFailed
from bnfold.ir.stream import RangeViolation
from bnfold.pipeline import Options
from bnfold.report import Report

if TYPE_CHECKING:
    from bnfold.verify import Verdict

Progress = Callable[[str, int, int], None]
MAX_REPLANS = 8


@dataclass(frozen=True, slots=True)
class Checks:
    """How the result is verified before it is put in place.

    Attributes:
        depth: ``full`` compares whole models, ``local`` every rewrite on its own, ``auto`` both within the time
            budget, ``none`` nothing.
        inputs: Shapes for inputs, by name, where the model leaves dims open.
        data: Recorded inputs: an .npz archive or a folder of ``input_*.pb``.
        samples: How many random inputs.
        seed: Of the random inputs.
        witness: The runtime that computes in storage precision.
    """

    depth: Literal["auto", "full", "local", "none"] = "auto"
    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    data: Path | None = None
    samples: int = 1
    seed: int = 0
    witness: Literal["onnxruntime", "openvino", "none"] = "onnxruntime"


@dataclass(slots=True)
class Outcome:
    """What became of one model.

    Attributes:
        model: The rewritten model.
        report: What was done, and why not.
        verdict: What verification found; None where none was asked for.
        output: Where the model was written; None if it was not.
        seconds: Time by phase.
    """

    model: ir.Model
    report: Report
    options: Options
    checks: Checks
    source: Path | None = None
    output: Path | None = None
    verdict: Verdict | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The whole report, files and versions included; the schema is in the documentation."""
        document = self.report.to_json()
        document["input"] = _file_facts(self.source)
        document["output"] = _file_facts(self.output)
        document["verify"] = self.verdict.to_json() if self.verdict is not None else None
        document["options"] = _plain(asdict(self.options))
        document["seed"] = self.checks.seed
        document["seconds"] = {phase: round(spent, 4) for phase, spent in self.seconds.items()}
        document["versions"] = versions()
        return document


def process(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | None,
    options: Options,
    checks: Checks,
    *,
    external_data: str = "auto",
    overwrite_input: bool = False,
    keep_failed: Path | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Rewrite the model at ``source``, verify it, and write it to ``output`` (None: only rewrite, in memory).

    Raises:
        BadInput, Unsupported: The model cannot be read or processed.
        OutputError: The output cannot be written, or would overwrite the input unasked.
        VerificationFailed: The result differs; nothing was written (but to ``keep_failed``).
    """
    path = Path(source)
    if output is not None and not overwrite_input and _same_file(path, Path(output)):
        raise OutputError(f"{output}: would overwrite the input; choose another name, or ask for it with --in-place")
    if output is not None and not Path(output).absolute().parent.is_dir():
        raise OutputError(f"{output}: there is no directory {Path(output).absolute().parent}")
    tell = progress or (lambda *_: None)
    for _ in range(MAX_REPLANS):
        outcome = _rewrite(path, options, checks, tell)
        if output is None:
            return outcome
        try:
            _write(outcome, Path(output), external_data, keep_failed, tell)
        except RangeViolation as violation:
            banned = outcome.report.makers.get(id(violation.tensor))
            if banned is None:
                raise AssertionError("a weight overflows that no fold made") from violation
            options = replace(options, banned=options.banned | {banned.key})
        else:
            return outcome
    raise BadInput(f"{path}: folding overflows in more than {MAX_REPLANS} weights; fold it with --except or in float32")


def _rewrite(path: Path, options: Options, checks: Checks, progress: Progress) -> Outcome:
    started = time.perf_counter()
    model = ir.load(path)
    loaded = time.perf_counter()
    report = pipeline.rewrite(model, options, progress)
    seconds = {"load": loaded - started, "rewrite": time.perf_counter() - loaded}
    return Outcome(model, report, options, checks, source=path, seconds=seconds)


def _write(outcome: Outcome, output: Path, external_data: str, keep_failed: Path | None, progress: Progress) -> None:
    started = time.perf_counter()
    written = 0

    def wrote(count: int) -> None:
        nonlocal written
        written += count
        progress("write", written, 0)

    with ir.stage(outcome.model, output, external_data=external_data, progress=wrote) as staged:
        outcome.seconds["write"] = time.perf_counter() - started
        verify_staged(outcome, staged.path, progress)
        verdict = outcome.verdict
        if verdict is not None and verdict.status == "failed":
            if keep_failed is not None:
                ir.save(outcome.model, keep_failed, external_data=external_data)
            raise VerificationFailed(f"{output}: not written: {verdict.reason}", outcome)
        staged.commit()
    outcome.output = output


def verify_staged(outcome: Outcome, staged: Path, progress: Progress) -> None:
    """Compare the file that was staged with the one that was read."""
    checks = outcome.checks
    if checks.depth == "none" or outcome.source is None:
        return
    from bnfold import reference, verify

    started = time.perf_counter()
    policy = outcome.options.policy
    outcome.verdict = verify.verify(
        outcome.source,
        staged,
        cuts=outcome.report.cuts,
        depth=checks.depth,
        inputs=checks.inputs,
        data=checks.data,
        samples=checks.samples,
        seed=checks.seed,
        witness=checks.witness,
        policy=reference.Policy(
            legacy_mode=policy.legacy_mode, force_inference=policy.force_inference, saved_var=policy.saved_var
        ),
        progress=progress,
    )
    outcome.seconds["verify"] = time.perf_counter() - started


def _same_file(first: Path, second: Path) -> bool:
    try:
        return first.resolve() == second.resolve() or os.path.samefile(first, second)
    except OSError:
        return False


def _file_facts(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"path": str(path), "bytes": path.stat().st_size, "sha256": digest}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(_plain(item) for item in value)
    return list(value) if isinstance(value, tuple) else value


def versions() -> dict[str, str]:
    """The versions that results depend on; an onnxruntime variant counts under its own name."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("bnfold", "onnx", "numpy", "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "openvino"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
