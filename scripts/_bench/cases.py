"""The cases of the benchmark: a model each, and the job that it is used for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Case:
    """A model and a job to be done on it.

    Attributes:
        name: Name of the row and of the model's file.
        job: `optimize`, `upgrade` or `start` (which has no model).
        recipe: Arguments of `generate.py`.
        external: Whether the weights are in a second file.
    """

    name: str
    job: str = "optimize"
    recipe: tuple[str, ...] = ()
    external: bool = False

    def path(self, folder: Path) -> Path:
        """Return the path of the model's file."""
        return folder / ("-".join(self.recipe) or "none") / "model.onnx"

    def make(self, folder: Path) -> Path:
        """Return the path of the model's file; a child writes it unless an earlier run left it there."""
        path = self.path(folder)
        if self.recipe and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            half_written = path.with_name("half.onnx")
            command = [sys.executable, str(_SCRIPTS / "_bench" / "generate.py"), str(half_written), *self.recipe]
            subprocess.run(command, check=True)
            half_written.rename(path)
        return path


START = Case("start", "start")
STANDARD = [
    START,
    Case("shufflenet", recipe=("full", "shufflenet")),
    Case("mobilenet_v2", recipe=("mobilenet",)),
    Case("densenet121", recipe=("full", "densenet121")),
    Case("inception_v2", recipe=("full", "inception_v2")),
    Case("resnet50", recipe=("full", "resnet50")),
    Case("resnet50 640x640", recipe=("full", "resnet50", "9", "640")),
    Case("resnet50 opset 6", recipe=("full", "resnet50", "6")),
    Case("resnet50 opset 22", recipe=("full", "resnet50", "22")),
    Case("resnet50 6 to 15", "upgrade", ("full", "resnet50", "6")),
    Case("2,000 Conv+BN", recipe=("chain", "2000", "8", "1")),
    Case("20,000 Conv+BN", recipe=("chain", "20000", "8", "1")),
]
LARGE = [
    Case("1.5 GB file", recipe=("chain", "40", "1024", "3")),
    Case("4 GB external", recipe=("chain", "108", "1024", "3", "external"), external=True),
]
QUICK = [
    START,
    Case("50 Conv+BN", recipe=("chain", "50", "8", "3")),
    Case("50 Conv+BN external", recipe=("chain", "50", "8", "3", "external"), external=True),
    Case("shufflenet 6 to 15", "upgrade", ("full", "shufflenet", "6")),
]
