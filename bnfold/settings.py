"""What a user may choose: stated once, and checked as soon as it is chosen.

The public functions take these classes, and the command line makes its options from their fields: the type of a field
says what may be given, and the first sentence about it is the option's help.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from importlib.util import find_spec
from math import isfinite
from operator import index
from pathlib import Path
from types import UnionType
from typing import Any, Literal, SupportsIndex, Union, get_args, get_origin, get_type_hints

from bnfold.errors import BadSetting

OPENVINO_OPERATORS = frozenset({
    "Abs", "Add", "AvgPool", "BatchNormInference", "CTCGreedyDecoder", "Clamp", "Concat", "Const", "Convert",
    "Convolution", "ConvolutionBackpropData", "DeformableConvolution", "DepthToSpace", "Divide", "Elu", "Erf", "Exp",
    "FakeConvert", "FakeQuantize", "GRUCell", "GRUSequence", "Gather", "Gelu", "GroupConvolution",
    "GroupConvolutionBackpropData", "GroupNormalization", "HSigmoid", "HSwish", "HardSigmoid", "If", "Interpolate",
    "LSTMCell", "LSTMSequence", "LogSoftmax", "Loop", "MVN", "MatMul", "MaxPool", "Maximum", "Minimum", "Mish",
    "Multiply", "Negative", "NormalizeL2", "PReLU", "Pad", "Power", "RMSNorm", "RNNCell", "RNNSequence", "ReLU",
    "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape",
    "ScaledDotProductAttention", "Select", "Selu", "Sigmoid", "Slice", "SoftMax", "SoftPlus", "SpaceToDepth", "Split",
    "Sqrt", "SquaredDifference", "Squeeze", "StridedSlice", "Subtract", "Swish", "Tanh", "TensorIterator", "Tile",
    "TopK", "Transpose", "Unsqueeze", "VariadicSplit",
})  # fmt: skip
"""Names that an OpenVINO IR has for operators; those of ONNX are asked of onnx."""

ESTIMATE = "estimate"
"""The phase, among those that a ``progress`` is told of, whose number is how many seconds a comparison will take."""

NORMALIZATIONS = ("BatchNormalization", "InstanceNormalization", "BatchNormInference")


@dataclass(frozen=True, slots=True)
class Checked:
    """A dataclass whose fields are checked when it is made: BadSetting names the first that is not as it has to be.

    A field's metadata may hold ``low``, the least number in it, and ``operators``: it names operators, of these or, if
    there are none, of all that onnx and OpenVINO know.
    """

    def __post_init__(self) -> None:
        hints = type_hints(type(self))  # type: ignore[arg-type] # a class is hashable, mypy
        for member in fields(self):
            hint, value = hints[member.name], getattr(self, member.name)
            try:
                value = _read(value, hint, member.metadata.get("low"))
            except TypeError as error:
                wrong = error.args[0] if get_origin(hint) is Sequence and isinstance(error.args[0], str) else value
                raise BadSetting(member.name, f"{wrong!r} is not {described(hint)}") from None
            except ValueError as error:
                raise BadSetting(member.name, str(error)) from None
            if "operators" in member.metadata:
                check_operators(member.name, value, member.metadata["operators"])
            object.__setattr__(self, member.name, value)


_WORDS = {int: "a whole number", bool: "True or False", str: "a text", Path: "a path", type(None): "None"}


def described(hint: Any) -> str:
    """Say in words what a field of the type ``hint`` may hold."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(map(described, parts))
    if kind is Literal:
        return f"{'one of ' if len(parts) > 1 else ''}{', '.join(map(repr, parts))}"
    if kind is Sequence and get_origin(parts[0]) is Literal:
        return described(parts[0])
    if kind is Mapping:
        return "a mapping of names to sizes, such as {'x': (1, 3, 224, 224)}"
    if kind in (Sequence, frozenset):
        return f"a {'list' if kind is Sequence else 'set'} of {'texts' if parts[0] is str else 'such values'}"
    return _WORDS.get(kind) or f"of {getattr(kind, '__name__', kind)}"


@cache
def type_hints(kind: Any) -> dict[str, Any]:
    """The types of a class's fields."""
    return get_type_hints(kind)


_ACCEPTED: dict[Any, Any] = {int: SupportsIndex, Path: (str, os.PathLike), frozenset: AbstractSet, Literal: str}


def _read(value: Any, hint: Any, low: int | None) -> Any:
    """``value`` as a field of the type ``hint`` holds it.

    Raises:
        TypeError: It is of another type, or none of the choices.
        ValueError: A number in it is below ``low``.
    """
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        for part in parts:
            with suppress(TypeError):
                return _read(value, part, low)
        raise TypeError(value)
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, _ACCEPTED.get(kind, kind)):
        raise TypeError(value)
    if (kind is Literal and value not in parts) or (kind is Sequence and isinstance(value, str)):
        raise TypeError(value)
    if kind is int:
        number = index(value)
        if low is not None and number < low:
            raise ValueError(f"{number} is not in the range x>={low}")
        return number
    if kind is Mapping:
        return {_read(key, parts[0], low): _read(item, parts[1], low) for key, item in value.items()}
    if kind in (Sequence, frozenset):
        return (tuple if kind is Sequence else frozenset)(_read(item, parts[0], low) for item in value)
    return Path(value) if kind is Path else value


def check_operators(name: str, given: Collection[str], known: Collection[str] = (), *, openvino: bool = True) -> None:
    """Make sure that setting ``name`` holds operators of ``known``, or of onnx's domain (and with ``openvino`` its).

    Raises:
        BadSetting: There is no such operator: a misspelt one would match nothing.
    """
    if set(given) <= set(known):
        return
    import onnx

    standard = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    known = known or (standard | OPENVINO_OPERATORS if openvino else standard)
    for operator in sorted(set(given).difference(known)):
        from difflib import SequenceMatcher

        names = sorted(known, key=lambda known_name: (known_name not in standard, known_name))
        alike = [SequenceMatcher(None, known_name.lower(), operator.lower()).ratio() for known_name in names]
        hint = f"; did you mean {names[alike.index(max(alike))]}?" if max(alike) >= 0.6 else ""
        raise BadSetting(name, f"there is no operator {operator!r}{hint}")


def to_json(value: Any) -> Any:
    """A value in plain JSON types; what JSON has no word for (a path, nan, inf) is its text.

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
        target_opset: Opset to convert the model to. None means 15, unless the model is newer; ``keep`` leaves it.
        fold: Whether to fold at all. False upgrades only.
        decompose: Replace BatchNormalization by primitive operators: what folding leaves (residual), or all of them,
            without folding any (all).
        decompose_form: Operators that replace an inference BatchNormalization.
        decompose_ops: Operators to decompose: BatchNormalization, InstanceNormalization.
        policy: How to read what the ONNX specification leaves open.
        overridable: Weights that are also listed as inputs: make them constants (freeze), keep them replaceable (keep),
            or decide by the file (auto). ``freeze`` removes them from the inputs, so that callers can no longer feed
            them. ``auto`` does so only if the file lists every weight and more BatchNormalizations then fold.
        max_growth: Maximum number of bytes that duplicating shared weights may add; small weights are copied by
            default. None means what folding frees, plus 64 KiB, a quarter of the weights up to
            1 MiB, or 1 % of them, whichever is most.
        only: Fold only into and across operators of this type, such as Conv; may be repeated. Empty means all.
        excluded: Do not fold into or across operators of this type; may be repeated.
        all_affines: Also fold constant Mul, Add, Sub and Div that belong to no BatchNormalization.
        merge_branches: Also merge parallel convolutions, and two matrix products in a row, into one.
        equalize: Apply cross-layer equalization, so that per-tensor int8 quantization loses less accuracy.
            After folding, a factor for each channel goes into one layer and its inverse into the next, through what
            passes it (Relu, PRelu, pooling, Add): cross-layer equalisation (arXiv:1906.04721), an exact rewrite.
        simplify: Run other optimisers after bnfold: onnxscript's, or those you name; undo steps that fail verification.
            onnxslim, onnxsim, onnxoptimizer or onnxruntime, where installed, one after the other. A step that crashes,
            takes too long or changes what the model computes is undone. Includes ``all_affines``.
        step_seconds: Time limit for each other program, in seconds.
        banned: Nodes, by `BatchNormEvent.key`, whose fold turned out to overflow while it was written.
    """

    target_opset: int | Literal["keep"] | None = None
    fold: bool = True
    decompose: Literal["never", "residual", "all"] = "never"
    decompose_form: Literal["mul_add", "sub_mul_add", "depthwise_conv"] = "mul_add"
    decompose_ops: frozenset[str] = field(
        default=frozenset({"BatchNormalization"}), metadata={"operators": NORMALIZATIONS}
    )
    policy: Policy = field(default_factory=Policy)
    overridable: Literal["auto", "freeze", "keep"] = "auto"
    max_growth: int | None = field(default=None, metadata={"low": 0})
    only: frozenset[str] = field(default=frozenset(), metadata={"operators": ()})
    excluded: frozenset[str] = field(default=frozenset(), metadata={"operators": ()})
    all_affines: bool = False
    merge_branches: bool = False
    equalize: bool = False
    simplify: Sequence[Literal["onnxscript", "onnxslim", "onnxsim", "onnxoptimizer", "onnxruntime"]] = ()
    step_seconds: int = field(default=600, metadata={"low": 1})
    banned: frozenset[tuple[str, str]] = frozenset()

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


def simplified(options: Options, tools: bool | Sequence[str]) -> Options:
    """``options`` with these simplifiers; True is the one that comes with bnfold, and nothing leaves them as they are.

    Raises:
        BadSetting: As `Options`.
    """
    if not tools:
        return options
    return replace(options, simplify=("onnxscript",) if tools is True else tuple(tools))  # type: ignore[arg-type] # checked there


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
        verify_seconds: Time limit for running whole models, in seconds. What would take longer is left out.
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
