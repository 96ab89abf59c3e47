"""How the result of a rewrite is verified, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias

from bnfold.errors import BadSetting
from bnfold.settings.checked import Checked, about, documented

Tolerance: TypeAlias = float | Literal["float16", "bfloat16"]
"""An error that is accepted, as a share of an output's largest value, or the type that values were rounded to."""


@documented
@dataclass(frozen=True, slots=True)
class VerifyOptions(Checked):
    """How the result is verified before it is written."""

    depth: Literal["auto", "full", "local", "none"] = field(
        default="auto",
        metadata=about(
            "How to check the result: both models in float64 (full), each rewrite separately (local), or the "
            "quicker one that is conclusive (auto).",
            "``auto`` checks each rewrite in float64 and runs the whole models once in onnxruntime, or compares "
            "them in float64 if that is quick or something is in doubt. ``none`` compares nothing.",
        ),
    )
    inputs: Mapping[str, Sequence[int]] = field(
        default_factory=dict,
        metadata=about(
            "Shape of an input with dynamic sizes, for verification; may be repeated.",
            "By the input's name; types are the model's.",
            low=0,
        ),
    )
    data: Path | None = field(
        default=None,
        metadata=about(
            "Your own inputs, instead of random ones: an .npz file, or a folder of input_*.pb.",
            "The arrays of an .npz file have the names of the inputs; a folder, as in ONNX's test data, may also "
            "hold ``output_*.pb``.",
        ),
    )
    samples: int = field(
        default=1,
        metadata=about(
            "How many samples to compare on; a sample is one set of random inputs.",
            low=1,
        ),
    )
    seed: int = field(
        default=0,
        metadata=about(
            "Seed of the random inputs.",
            low=0,
        ),
    )
    runtime: Literal["onnxruntime", "openvino", "none"] = field(
        default="onnxruntime",
        metadata=about(
            "Runtime used for a second check in the models' own precision.",
            "Any variant of onnxruntime will do; if none is installed, bnfold's own kernels take its place.",
        ),
    )
    verify_seconds: int = field(
        default=300,
        metadata=about(
            "Time limit for the verification, in seconds.",
            "What is tried follows from counted work: 60 s, less with a shorter limit, more with one beyond 300.",
            low=1,
        ),
    )

    tolerance: Tolerance | None = field(
        default=None,
        metadata=about(
            "Accept this error, as a share of each output's largest value, or what rounding to float16 or bfloat16 "
            "explains.",
            "The outputs of the whole models are then compared in the runtime; inputs and outputs may be floats of "
            "another width. For ``bnfold.verify`` and ``bnfold.run``: results of bnfold's own rewrites have none.",
        ),
    )
    frozen: bool = field(
        default=False,
        metadata=about(
            "Take weights that are also inputs for constants: no caller feeds them.",
            "What ``optimize`` made with ``--overridable freeze`` differs from its original in those inputs alone. For "
            "``bnfold.verify`` and ``bnfold.run``; rewrites have `Options.overridable`.",
        ),
    )
    explain: str | None = field(
        default=None,
        metadata=about(
            "Say what stands behind the verdict: of one value of either model, or of all that is open or differs.",
            "``Verdict.explanation`` has the answer. An empty text asks for all that is open or differs.",
        ),
    )
    save: Path | None = field(
        default=None,
        metadata=about(
            "Save what --explain is about in this folder: a small model before and after, and inputs that show it.",
            "Without ``explain``, the first part that differs, or else the first that is open.",
        ),
    )

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if isinstance(self.tolerance, float) and not 0 < self.tolerance < inf:
            raise BadSetting(
                "tolerance", f"{self.tolerance:g} is neither a positive number nor 'float16' or 'bfloat16'"
            )
        if self.tolerance is not None and self.depth == "local":
            raise BadSetting("tolerance", "a tolerance is for whole models; the depth local compares none")
        if self.save is not None and self.explain is None:
            object.__setattr__(self, "explain", "")
        if self.explain is not None and self.depth == "none":
            raise BadSetting("explain", "nothing is compared, so there is nothing to explain")
        if self.runtime == "openvino" and find_spec("openvino") is None:
            raise BadSetting("runtime", "openvino is not installed: pip install openvino")


@documented
@dataclass(frozen=True, slots=True)
class OutputOptions(Checked):
    """Where the result goes."""

    path: Path = field(
        metadata=about(
            "The model file.",
        ),
    )
    external_data: str = field(
        default="auto",
        metadata=about(
            "Where the weights go: into a data file if the input has one (auto), each where it was (keep), all "
            "inside OUT (none), or into a data file of this name.",
            "Details are at `bnfold.ir.stage`.",
        ),
    )
    size_threshold: int = field(
        default=1024,
        metadata=about(
            "Weights of fewer bytes stay inside the model file.",
            low=0,
        ),
    )
    in_place: bool = field(
        default=False,
        metadata=about(
            "Allow OUT to be the same file as IN.",
        ),
    )
    require_verified: bool = field(
        default=False,
        metadata=about(
            "Write nothing, and exit with code 3, if the result could not be verified.",
        ),
    )
    keep_failed: Path | None = field(
        default=None,
        metadata=about(
            "Save the result here if it fails verification.",
        ),
    )
    explained: bool = field(
        default=False,
        metadata=about(
            "Whether the whole report will be asked for.",
            "What it says about the original is then collected before the result is written, so that a model too "
            "damaged for a report is an error in time.",
        ),
    )

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        name = self.external_data
        if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
            problem = f"takes a plain file name, not {name!r}; the data file goes next to {self.path.name}"
            raise BadSetting("external_data", problem)
