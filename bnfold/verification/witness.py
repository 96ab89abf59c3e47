"""Ask a runtime that shares nothing with the referee, in a process of its own and for a limited time."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from bnfold import ir
from bnfold.errors import OutputError
from bnfold.frozen import frozen
from bnfold.verification import worker
from bnfold.verification.worker import Array, Sample


@frozen
class Testimony:
    """What a runtime made of a model: one mapping of output arrays a sample, or the reason why there is none."""

    runtime: str
    results: tuple[Sample, ...] = ()
    error: str = ""

    @property
    def ran(self) -> bool:
        """Whether there are results."""
        return not self.error


@dataclass(slots=True)
class Witness:
    """``python`` is the interpreter that the runtime is installed for."""

    runtime: str
    python: str = field(default=sys.executable)

    def testify(
        self, model: ir.Model | Path, samples: Sequence[Mapping[str, Array]], limit_seconds: float
    ) -> Testimony:
        """Run ``model`` on ``samples``; one that is only in memory goes to a folder that is gone afterwards."""
        if isinstance(model, Path):
            return self._ask(model, samples, limit_seconds)
        try:
            with tempfile.TemporaryDirectory(prefix="bnfold-") as folder:
                path = Path(folder) / "model.onnx"
                ir.save(model, path)
                return self._ask(path, samples, limit_seconds)
        except (OSError, OutputError) as error:  # no folder for temporary files, or no room there
            return Testimony(self.runtime, error=_one_line(f"no place for the model: {error}"))

    def _ask(self, path: Path, samples: Sequence[Mapping[str, Array]], limit_seconds: float) -> Testimony:
        request = worker.pack({"runtime": self.runtime, "model": str(path)}, samples)
        try:
            process = subprocess.run(
                [self.python, "-P", worker.__file__],
                input=request,
                capture_output=True,
                timeout=limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Testimony(self.runtime, error=f"took longer than {limit_seconds:.0f} s")
        except OSError as error:
            return Testimony(self.runtime, error=_one_line(f"cannot be started: {error}"))
        if process.returncode != 0:
            return Testimony(self.runtime, error=_how_it_died(process))
        head, results = worker.unpack(BytesIO(process.stdout))
        return Testimony(head["version"], tuple(results), _one_line(head["error"]))


def _how_it_died(process: subprocess.CompletedProcess[bytes]) -> str:
    if process.returncode < 0:
        return f"crashed ({signal.Signals(-process.returncode).name})"
    last = process.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"ended with code {process.returncode}" + (f": {_one_line(last[0])}" if last else "")


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:297]}..."
