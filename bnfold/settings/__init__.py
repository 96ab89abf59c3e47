"""What a user may choose: stated once, and checked as soon as it is chosen.

The public functions take these classes, and the command line makes its options from their fields: the type of a field
says what may be given, and the first sentence about it is the option's help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypedDict

from bnfold.errors import BadSetting
from bnfold.settings.checked import Checked

ESTIMATE = "estimate"
"""The phase, among those that a ``progress`` is told of, whose number is how many seconds a comparison will take."""

LOWEST_IR_VERSION = 3
"""The first IR version whose files say their opset."""

ONE_JOB: dict[str, Any] = {"constants": "keep", "no_simplify": True}
"""Options of commands and functions that do one thing: fold, convert, decompose."""
NORMALIZATIONS = ("BatchNormalization", "InstanceNormalization", "BatchNormInference")


def to_json(value: Any) -> Any:
    """Return a value in plain JSON types; what JSON has no word for (a path, nan, inf) is its text.

    Sets are sorted, so that equal settings have equal text.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, frozenset | tuple | list):
        return [to_json(item) for item in (sorted(value) if isinstance(value, frozenset) else value)]
    has_no_word = isinstance(value, Path) or (isinstance(value, float) and not isfinite(value))
    return str(value) if has_no_word else value


@dataclass(frozen=True, slots=True)
class Policy(Checked):
    """How to read what the ONNX specification leaves open.

    Attributes:
        legacy_mode: How to read a BatchNormalization of opset 1-6 without is_test. The attribute's default means
            training, a single output means inference. ``auto`` decides by the outputs; ``inference`` reads a node as
            inference unless something reads its statistics; ``training`` follows the attribute's default; ``error``
            stops with an error. The same holds for Dropout-1 and -6, which ``auto`` reads as inference.
        force_inference: Read training mode as inference, unless another node uses the statistics of the batch. Also
            for Dropout.
        saved_var: What the fifth output of a training-mode BatchNormalization holds, up to opset 13. The variance, as
            its name says, or the ``1/sqrt(var + epsilon)`` that onnxruntime returns.
    """

    legacy_mode: Literal["auto", "inference", "training", "error"] = "auto"
    force_inference: bool = False
    saved_var: Literal["variance", "inv-std"] = "variance"


@dataclass(frozen=True, slots=True)
class Options(Checked):
    """What to do with a model.

    Attributes:
        target_opset: Opset to convert the model to, up or down. None means 15, unless the model is newer; ``keep``
            leaves it, ``latest`` is the newest that the installed onnx knows, ``lowest`` the lowest that this model
            can be converted to.
        ir_version: IR version of the result. ``auto`` lowers it with the opset, to the one that came with the target,
            and raises it if the result uses something newer; ``keep`` never lowers it.
            With a number, functions are inlined below 8, and a model that uses something newer is refused.
        fix_shapes: Shape to give to an input with dynamic sizes, in the result; may be repeated. A size that has a
            name can be given by it alone, such as batch=1. What follows for other values is written as well.
        fold: Whether to fold at all. False upgrades only.
        decompose: Replace BatchNormalization by primitive operators: what folding leaves (residual), or all of them,
            without folding any (all).
        decompose_form: Operators that replace an inference BatchNormalization.
        decompose_ops: Operators to decompose: BatchNormalization, InstanceNormalization.
        policy: How to read what the ONNX specification leaves open.
        constants: What becomes of Constant nodes: initializers (lift), or what they are (keep). They mean the same, and
            runtimes make initializers of them when they load a model.
        no_simplify: Leave out the exact rewrites that make the graph smaller. They remove nodes without effect, store
            shapes that follow from known sizes, and unite equal nodes; docs/simplifying.md lists them.
        group_norm: Write GroupNormalization for the InstanceNormalization of groups that exporters write in its place.
            It stands between two Reshapes, with a Mul and an Add behind it. Five nodes become one, from opset 21 on.
        overridable: Weights that are also listed as inputs: make them constants (freeze), keep them replaceable (keep),
            or decide by the file (auto). ``freeze`` removes them from the inputs, so that callers can no longer feed
            them. ``auto`` does so only if the file lists every weight and more BatchNormalizations then fold.
        max_growth: Maximum number of bytes that copies of shared weights, and weights that were computed from smaller
            constants, may add; small ones are copied by default. None means what folding frees, plus 64 KiB, a quarter
            of the weights up to 1 MiB, or 1 % of them, whichever is most.
        only: Fold only into and across operators of this type, such as Conv; may be repeated. Empty means all.
        excluded: Do not fold into or across operators of this type; may be repeated.
        all_affines: Also fold constant Mul, Add, Sub and Div that belong to no BatchNormalization.
        merge_branches: Also merge parallel convolutions, and two matrix products in a row, into one.
        equalize: Apply cross-layer equalization, so that per-tensor int8 quantization loses less accuracy.
            After folding, a factor for each channel goes into one layer and its inverse into the next, through what
            passes it (Relu, PRelu, pooling, Add): cross-layer equalisation (arXiv:1906.04721), an exact rewrite.
        exchange: Put an Add in a BatchNormalization's place where that saves operators or elements (auto), or always.
            A BatchNormalization whose scale finds a weight and whose shift does not ends so. ``auto`` leaves it where
            the Add would be as many operators on as many elements, which runtimes are no faster with; ``always`` is
            for targets that know no BatchNormalization. ``decompose="residual"`` includes it.
        simplify: Run other optimisers after bnfold: onnxscript's, or those you name; undo steps that fail verification.
            onnxslim, onnxsim, onnxoptimizer or onnxruntime, where installed, one after the other. A step that crashes,
            takes too long or changes what the model computes is undone. Includes ``all_affines``.
        step_seconds: Time limit for each other program, in seconds.
    """

    target_opset: int | Literal["keep", "latest", "lowest"] | None = None
    ir_version: int | Literal["auto", "keep"] = "auto"
    fix_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict, metadata={"low": 1})
    fold: bool = True
    decompose: Literal["never", "residual", "all"] = "never"
    decompose_form: Literal["mul_add", "sub_mul_add", "depthwise_conv"] = "mul_add"
    decompose_ops: frozenset[str] = field(
        default=frozenset({"BatchNormalization"}), metadata={"operators": NORMALIZATIONS}
    )
    policy: Policy = field(default_factory=Policy)
    constants: Literal["lift", "keep"] = "lift"
    no_simplify: bool = False
    group_norm: bool = False
    overridable: Literal["auto", "freeze", "keep"] = "auto"
    max_growth: int | None = field(default=None, metadata={"low": 0})
    only: frozenset[str] = field(default=frozenset(), metadata={"operators": ()})
    excluded: frozenset[str] = field(default=frozenset(), metadata={"operators": ()})
    all_affines: bool = False
    merge_branches: bool = False
    equalize: bool = False
    exchange: Literal["auto", "always"] = "auto"
    simplify: Sequence[Literal["onnxscript", "onnxslim", "onnxsim", "onnxoptimizer", "onnxruntime"]] = ()
    step_seconds: int = field(default=600, metadata={"low": 1})

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        for tool in self.simplify:
            if find_spec(tool) is None:
                raise BadSetting("simplify", f"{tool} is not installed: pip install {tool}")
        if isinstance(self.target_opset, int):
            import onnx

            newest = onnx.defs.onnx_opset_version()
            if not 1 <= self.target_opset <= newest:
                problem = f"opset {self.target_opset} does not exist: the installed onnx {onnx.__version__} knows 1 to"
                raise BadSetting("target_opset", f"{problem} {newest}")
        if isinstance(self.ir_version, int):
            import onnx

            if not LOWEST_IR_VERSION <= self.ir_version <= onnx.IR_VERSION:
                problem = f"the installed onnx {onnx.__version__} writes IR versions {LOWEST_IR_VERSION} to"
                raise BadSetting("ir_version", f"{self.ir_version} is not possible: {problem} {onnx.IR_VERSION}")


class OptionFields(TypedDict, total=False):
    """The fields of `Options` as keywords; the same names, types and meanings."""

    target_opset: int | Literal["keep", "latest", "lowest"] | None
    ir_version: int | Literal["auto", "keep"]
    fix_shapes: Mapping[str, Sequence[int]]
    fold: bool
    decompose: Literal["never", "residual", "all"]
    decompose_form: Literal["mul_add", "sub_mul_add", "depthwise_conv"]
    decompose_ops: AbstractSet[str]
    policy: Policy
    constants: Literal["lift", "keep"]
    no_simplify: bool
    group_norm: bool
    overridable: Literal["auto", "freeze", "keep"]
    max_growth: int | None
    only: AbstractSet[str]
    excluded: AbstractSet[str]
    all_affines: bool
    merge_branches: bool
    equalize: bool
    exchange: Literal["auto", "always"]
    step_seconds: int


def simplified(options: Options, tools: bool | str | Sequence[str]) -> Options:
    """Return ``options`` with these simplifiers.

    True is the one that comes with bnfold, and nothing leaves them as they are.

    Raises:
        BadSetting: As `Options`.
    """
    if not tools:
        return options
    names = ("onnxscript",) if tools is True else (tools,) if isinstance(tools, str) else tuple(tools)
    return replace(options, simplify=names)  # type: ignore[arg-type] # checked there


@dataclass(frozen=True, slots=True)
class VerifyOptions(Checked):
    """How the result is verified before it is written.

    Attributes:
        depth: How to check the result: both models in float64 (full), each rewrite separately (local), or the quicker
            one that is conclusive (auto). ``auto`` checks each rewrite in float64 and runs the whole models once in
            onnxruntime, or compares them in float64 if that is quick or something is in doubt. ``none`` compares
            nothing.
        inputs: Shape of an input with dynamic sizes, for verification; may be repeated. By the input's name; types
            are the model's.
        data: Your own inputs, instead of random ones: an .npz file, or a folder of input_*.pb. The arrays of an .npz
            file have the names of the inputs; a folder, as in ONNX's test data, may also hold ``output_*.pb``.
        samples: How many random inputs to compare on.
        seed: Seed of the random inputs.
        runtime: Runtime used for a second check in the models' own precision. Any variant of
            onnxruntime will do; if none is installed, bnfold's own kernels take its place.
        verify_seconds: Time limit for the verification, in seconds. What would take longer is left out.
    """

    depth: Literal["auto", "full", "local", "none"] = "auto"
    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict, metadata={"low": 0})
    data: Path | None = None
    samples: int = field(default=1, metadata={"low": 1})
    seed: int = field(default=0, metadata={"low": 0})
    runtime: Literal["onnxruntime", "openvino", "none"] = "onnxruntime"
    verify_seconds: int = field(default=60, metadata={"low": 1})

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.runtime == "openvino" and find_spec("openvino") is None:
            raise BadSetting("runtime", "openvino is not installed: pip install 'bnfold[openvino]'")


@dataclass(frozen=True, slots=True)
class OutputOptions(Checked):
    """Where the result goes.

    Attributes:
        path: The model file.
        external_data: Where the weights go: into a data file if the input has one (auto), each where it was (keep), all
            inside OUT (none), or into a data file of this name. Details are at `bnfold.ir.stage`.
        size_threshold: Weights of fewer bytes stay inside the model file.
        in_place: Allow OUT to be the same file as IN.
        keep_failed: Save the result here if it fails verification.
        explained: Whether the whole report will be asked for. What it says about the original is then collected before
            the result is written, so that a model too damaged for a report is an error in time.
    """

    path: Path
    external_data: str = "auto"
    size_threshold: int = field(default=1024, metadata={"low": 0})
    in_place: bool = False
    keep_failed: Path | None = None
    explained: bool = False

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        name = self.external_data
        if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
            problem = f"takes a plain file name, not {name!r}; the data file goes next to {self.path.name}"
            raise BadSetting("external_data", problem)
