"""What a user may choose: stated once, and checked as soon as it is chosen.

The public functions take these classes, and the command line makes its options from their fields: the type of a field
says what may be given, and the first sentence about it is the option's help.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.util import find_spec
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
            except TypeError:
                choices = ", ".join(map(repr, get_args(hint)))
                wanted = f"one of {choices}" if get_origin(hint) is Literal else f"of the type {member.type}"
                raise BadSetting(member.name, f"{value!r} is not {wanted}") from None
            except ValueError as error:
                raise BadSetting(member.name, str(error)) from None
            if "operators" in member.metadata:
                check_operators(member.name, value, member.metadata["operators"])
            object.__setattr__(self, member.name, value)


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


def to_json(settings: Any) -> Any:
    """Settings as reports hold them; sets are sorted, so that equal settings have equal text."""
    value = asdict(settings) if isinstance(settings, Checked) else settings
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, frozenset | tuple):
        return [to_json(item) for item in (value if isinstance(value, tuple) else sorted(value))]
    return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True, slots=True)
class Policy(Checked):
    """How to read what the operator texts leave open.

    Attributes:
        legacy_mode: What a BatchNormalization of opset 1-6 without is_test means. The attribute's default says
            training, one output says inference. ``auto`` goes by the outputs named; ``inference`` takes every one for
            inference whose statistics nobody reads; ``training`` follows the attribute's default; ``error`` refuses to
            choose. Likewise for Dropout-1 and -6, which ``auto`` takes for inference.
        force_inference: Read training mode as inference where no statistics are read. So with Dropout.
        saved_var: What the fifth output of a training BatchNormalization up to opset 13 holds. The variance that its
            name says, or the ``1/sqrt(var + epsilon)`` that onnxruntime returns.
    """

    legacy_mode: Literal["auto", "inference", "training", "error"] = "auto"
    force_inference: bool = False
    saved_var: Literal["variance", "inv-std"] = "variance"


@dataclass(frozen=True, slots=True)
class Options(Checked):
    """What to do with a model.

    Attributes:
        target_opset: Opset to reach. None for 15 unless the model is newer, ``keep`` to leave it.
        fold: Whether to fold at all. False upgrades only.
        decompose: Spell BatchNormalization out as primitive operators: what folding left, or all of it.
        decompose_form: How an inference BatchNormalization is spelled out.
        decompose_ops: Operators to spell out: BatchNormalization, InstanceNormalization.
        policy: How to read what the operator texts leave open.
        overridable: Initializers that are inputs too, which callers may feed. ``freeze`` takes them off the inputs, as
            constants, ``keep`` leaves them. ``auto`` freezes where the file lists every initializer, as some exporters
            do by habit, and a BatchNormalization folds by it.
        max_growth: What copies of shared weights may add. In bytes. None for what folding frees and 64 KiB, up to 1 MiB
            while that is at most a quarter of the weights, or 1 % of them.
        only: Let only these operators take part in folding. Empty for all.
        excluded: Keep these operators out of folding.
        all_affines: Fold other constant Mul, Add, … too, which are no BatchNormalization, spelled out or not.
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
    banned: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if isinstance(self.target_opset, int):
            import onnx

            newest = onnx.defs.onnx_opset_version()
            if not 1 <= self.target_opset <= newest:
                problem = f"opset {self.target_opset} does not exist: the installed onnx {onnx.__version__} knows 1 to"
                raise BadSetting("target_opset", f"{problem} {newest}")


@dataclass(frozen=True, slots=True)
class Checks(Checked):
    """How the result is verified before it is put in place.

    Attributes:
        depth: Compare whole models, each rewrite on its own, or what time allows. ``full`` compares whole models,
            ``local`` every rewrite on its own, ``auto`` both within the time budget, ``none`` nothing.
        inputs: Shape of an input, for sizes the model leaves open. By the input's name; types are the model's.
        data: Recorded inputs: .npz, or a folder of input_*.pb. The arrays of an archive have the names of inputs; a
            folder, as in ONNX's test data, may hold ``output_*.pb`` as well.
        samples: Random inputs to compare on.
        seed: Seed of the random inputs.
        witness: Runtime that computes in storage precision beside the float64 referee. Any variant of onnxruntime
            serves, and where it is not installed bnfold's own kernels do.
    """

    depth: Literal["auto", "full", "local", "none"] = "auto"
    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict, metadata={"low": 0})
    data: Path | None = None
    samples: int = field(default=1, metadata={"low": 1})
    seed: int = field(default=0, metadata={"low": 0})
    witness: Literal["onnxruntime", "openvino", "none"] = "onnxruntime"

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.witness == "openvino" and find_spec("openvino") is None:
            raise BadSetting("witness", "openvino is not installed: pip install 'bnfold[openvino]'")


@dataclass(frozen=True, slots=True)
class Delivery(Checked):
    """Where the result goes.

    Attributes:
        path: The model file.
        external_data: auto, keep, none, or the data file's name. As for `bnfold.ir.stage`.
        size_threshold: Weights of fewer bytes stay in the model, whatever --external-data says.
        in_place: Allow OUT to be IN.
        keep_failed: Where to put a result that failed verification.
        explained: Whether the whole report will be asked for. What it says of the original is then gathered before the
            result is put in place, and what it cannot say of a damaged model is an error in time.
    """

    path: Path
    external_data: str = "auto"
    size_threshold: int = field(default=1024, metadata={"low": 0})
    in_place: bool = False
    keep_failed: Path | None = None
    explained: bool = False
