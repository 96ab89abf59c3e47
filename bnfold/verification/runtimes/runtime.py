"""Run a model in a runtime (onnxruntime, OpenVINO), in a subprocess with a time limit."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from bnfold import ir
from bnfold.errors import OutputError
from bnfold.ir.elements import Array
from bnfold.registered.table import LIBRARIES
from bnfold.verification.runtimes import helpers
from bnfold.verification.runtimes.helpers import RuntimeSample
from bnfold.verification.runtimes.threads import in_background

RuntimeSource = ir.Model | Path | str
"""What a runtime is given: a model, or where its file is."""
Ran = TypeVar("Ran")
RuntimeObstacle = Literal["refused", "crashed", "not looked"]
"""The runtime rejects the model or its inputs; it crashed; or it was absent, late, killed or short of memory."""


class RuntimeResult(NamedTuple):
    """The outputs of a model for each sample, or the error that stopped the run and what kind of error it is."""

    runtime: str
    results: tuple[RuntimeSample, ...] = ()
    error: str = ""
    obstacle: RuntimeObstacle = "refused"

    @property
    def ran(self) -> bool:
        """Whether there are results."""
        return not self.error


@contextmanager
def stored(model: RuntimeSource) -> Iterator[Path | str]:
    """Yield the file of a model, or a text that says why there is none.

    What was only in memory is gone after the block.
    """
    if not isinstance(model, ir.Model):
        yield model
        return
    with ExitStack() as folders:
        file: Path | str
        try:
            folder = folders.enter_context(tempfile.TemporaryDirectory(prefix="bnfold-"))
            file = Path(folder) / "model.onnx"
            ir.save(model, file)
        except (OSError, OutputError) as error:  # no folder for temporary files, or no room there
            file = f"no place for the model: {error}"
        yield file


@contextmanager
def beside(
    sources: Sequence[RuntimeSource], run: Callable[[Path | str, Path | str], Ran]
) -> Iterator[Callable[[], Ran]]:
    """Let ``run`` ask a runtime about two models beside other work; the yielded function waits for its result.

    It is given files, for others go on to work with the models.
    """
    before, after = sources
    with stored(before) as old, stored(after) as new, in_background(partial(run, old, new)) as wait:
        yield wait


@dataclass(slots=True, eq=False)
class RuntimeProcess:
    """A subprocess of ``python``, the interpreter that the runtime is installed for."""

    runtime: str
    python: str = field(default=sys.executable)

    def run(
        self,
        model: RuntimeSource,
        samples: Sequence[Mapping[str, Array]],
        limit_seconds: float,
        initializers: Mapping[str, Array] | None = None,
    ) -> RuntimeResult:
        """Run ``model`` on ``samples``; one that is only in memory goes to a folder that is gone afterwards.

        A text says why there is no file (`stored`).

        ``initializers`` take the place of those that are stored under these names; only onnxruntime can do that.
        """
        asked = [*samples, initializers] if initializers else samples
        given = {"has_initializers": bool(initializers)}
        if isinstance(model, ir.Model):
            with stored(model) as file:
                return self.run(file, samples, limit_seconds, initializers)
        if isinstance(model, str):
            return self._not_looked(model)
        return self._ask(model, asked, limit_seconds, given)

    def _ask(
        self, path: Path, samples: Sequence[Mapping[str, Array]], limit_seconds: float, given: Mapping[str, bool]
    ) -> RuntimeResult:
        libraries = [*LIBRARIES] if self.runtime == "onnxruntime" else []
        request = {"runtime": self.runtime, "model": str(path.absolute()), "libraries": libraries, **given}
        try:
            head, results = helpers.ask(self.python, request, samples, limit_seconds)
        except helpers.HelperDied as error:
            told = self._not_looked(str(error))
            return told._replace(obstacle="crashed") if error.crashed else told
        except helpers.HelperLate as error:
            return self._not_looked(str(error))
        except OSError as error:
            return self._not_looked(f"cannot be started: {error}")
        obstacle: RuntimeObstacle = "refused" if head.get("has_looked", True) else "not looked"
        return RuntimeResult(head["version"], tuple(results), _one_line(head["error"]), obstacle)

    def _not_looked(self, why: str) -> RuntimeResult:
        return RuntimeResult(self.runtime, error=_one_line(why), obstacle="not looked")


def run_until(
    end: float,
    runtime: str,
    model: RuntimeSource,
    samples: Sequence[Mapping[str, Array]],
    initializers: Mapping[str, Array] | None = None,
) -> RuntimeResult:
    """Run ``model`` in a runtime; it is not asked once ``end`` (of `time.monotonic`) is over."""
    left = end - time.monotonic()
    if left <= 0:
        return RuntimeResult(runtime, error="there is no time left to ask it", obstacle="not looked")
    return RuntimeProcess(runtime).run(model, samples, left, initializers)


_HEADINGS = re.compile(
    r"^\w+: \[ONNXRuntimeError\] : \d+ : \w+ : "  # the exception, and the status that it is made from
    r"|Load model from .*? failed:\s*(?:Load model .*? failed\. )?"
    r"|/\S+\.(?:cc|h):\d+ [^(]*\((?:[^()]|\([^()]*\))*\)\s*"  # the C++ function that complains
)


def _one_line(text: str) -> str:
    """Return what a runtime says without what only its own developers need."""
    text = _HEADINGS.sub("", " ".join(text.split()))
    return text if len(text) <= 300 else f"{text[:297]}..."
