"""Convert one file to a lower opset, and judge what comes out in onnxruntime."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from _upgrade.running import alike, attempt, complaint, in_onnxruntime

VERDICTS = ("equal", "refused", "wrong", "invalid", "traceback", "not run")


class Judged(NamedTuple):
    """What became of one conversion.

    Attributes:
        verdict: One of ``VERDICTS``; *not run* if onnxruntime has no kernel for the result.
        status: bnfold's own verdict; empty if it was not reached.
        why: The reason for a refusal, or what is wrong.
        seconds: Time that bnfold took.
        doubt: The reason why bnfold did not say 'verified'.
    """

    verdict: str
    status: str = ""
    why: str = ""
    seconds: float = 0.0
    doubt: str = ""

    @property
    def is_false_alarm(self) -> bool:
        """Whether bnfold called a result failed that onnxruntime finds equal."""
        return self.verdict == "equal" and self.status == "failed"


class Original(NamedTuple):
    """A file, its inputs and what onnxruntime computes for them, or what it says."""

    path: Path
    feeds: dict[str, Any]
    outputs: list[Any] | Exception
    complaint: str


def original(path: Path) -> Original:
    """Load and run a file. A runtime error is kept in place of the outputs."""
    import numpy as np
    import onnx

    model = onnx.load(path)
    with np.load(path.with_suffix(".npz")) as stored:
        known = {value.name for value in model.graph.input}
        feeds = {name: array for name, array in stored.items() if name in known}
    return Original(path, feeds, attempt(lambda: in_onnxruntime(model, feeds)), complaint(model))


def judged(source: Original, opset: int) -> Judged:
    """Convert with verification as the command line does it, and compare in onnxruntime."""
    import bnfold

    began = time.perf_counter()
    doubt = ""
    try:
        outcome = bnfold.convert(source.path, opset=opset)
        status, seconds = outcome.status, time.perf_counter() - began
        doubt = "" if outcome.verdict is None or outcome.verified else outcome.verdict.reason
    except bnfold.errors.VerificationFailed as error:
        status, seconds, doubt = "failed", time.perf_counter() - began, str(error)
        outcome = bnfold.convert(source.path, opset=opset, verify=bnfold.VerifyOptions(depth="none"))
    except bnfold.BnfoldError as error:
        return Judged("refused", "", str(error), time.perf_counter() - began)
    except Exception as error:  # noqa: BLE001 - a bug of ours, to be counted with the others
        return Judged("traceback", "", repr(error), time.perf_counter() - began)
    lowered = outcome.to_proto()
    verdict, why = _compared(source, lowered)
    return Judged(verdict, status, why, seconds, doubt)


def _compared(source: Original, lowered: Any) -> tuple[str, str]:
    if (found := complaint(lowered)) and not source.complaint:
        return "invalid", found
    after = attempt(lambda: in_onnxruntime(lowered, source.feeds))
    if isinstance(after, Exception):
        return ("not run" if "NOT_IMPLEMENTED" in str(after) else "invalid"), str(after)
    assert not isinstance(source.outputs, Exception)
    is_equal = len(after) == len(source.outputs) and alike(source.outputs, after, 5)
    return ("equal", "") if is_equal else ("wrong", "other numbers in onnxruntime")


def kinds(refusal: str) -> list[str]:
    """Return the parts of a refusal, one for each operator, without the names and numbers of single nodes."""
    _, _, rest = refusal.partition(": ")
    return [_kind(part) for part in re.split(r"; (?=\d* ?[A-Z]\w+ \()", rest)]


def _kind(part: str) -> str:
    found = re.match(r"(?:\d+ )?(\w+) \((.*?)\): (.*)", part)
    operator, why = (found[1], found[3]) if found else ("", part)
    general = re.sub(r"'[^']*'", "…", why)
    return f"{operator}: {general}"
