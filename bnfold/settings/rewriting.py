"""What to do with a model: how to read it, and which rewrites to make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias, TypedDict

from bnfold.errors import BadSetting
from bnfold.settings.checked import Checked, about, documented

LOWEST_IR_VERSION = 3
"""The first IR version whose files say their opset."""

Opset: TypeAlias = int | Literal["keep", "latest", "lowest"] | None
"""What an opset may be given as: a number, a word, or None for 15, unless the model is newer."""
SAME = "target_opset"
"""The value of `Options`' ``opset`` if it is not given: it says which field to read."""

ONE_JOB: dict[str, Any] = {"constants": "keep", "no_simplify": True}
"""Options of commands and functions that do one thing: fold, convert, decompose."""

NORMALIZATIONS = ("BatchNormalization", "InstanceNormalization", "BatchNormInference")


@documented
@dataclass(frozen=True, slots=True)
class Policy(Checked):
    """How to read what the ONNX specification leaves open."""

    legacy_mode: Literal["auto", "inference", "training", "error"] = field(
        default="auto",
        metadata=about(
            "How to read a BatchNormalization of opset 1-6 without is_test.",
            "The attribute's default means training, a single output means inference. ``auto`` decides by the "
            "outputs; ``inference`` reads a node as inference unless something reads its statistics; ``training`` "
            "follows the attribute's default; ``error`` stops with an error. The same holds for Dropout-1 and -6, "
            "which ``auto`` reads as inference.",
        ),
    )
    force_inference: bool = field(
        default=False,
        metadata=about(
            "Read training mode as inference, unless another node uses the statistics of the batch.",
            "Also for Dropout.",
        ),
    )
    saved_var: Literal["variance", "inv-std"] = field(
        default="variance",
        metadata=about(
            "What the fifth output of a training-mode BatchNormalization holds, up to opset 13.",
            "The variance, as its name says, or the ``1/sqrt(var + epsilon)`` that onnxruntime returns.",
        ),
    )


@documented
@dataclass(frozen=True, slots=True)
class Options(Checked):
    """What to do with a model. ``opset=`` is another name for ``target_opset=``, which is the one to read."""

    target_opset: Opset = field(
        default=None,
        metadata=about(
            "Opset to convert the model to, up or down.",
            "None means 15, unless the model is newer; ``keep`` leaves it, ``latest`` is the newest that the "
            "installed onnx and onnxruntime both load, ``lowest`` the lowest that this model can be converted to.",
        ),
    )
    ir_version: int | Literal["auto", "keep"] = field(
        default="auto",
        metadata=about(
            "IR version of the result.",
            "``auto`` is the one that came with the opset, if you name an opset, and a higher one if the result uses "
            "something newer; ``keep`` never lowers it. With a number, functions are inlined below 8, and a "
            "model that uses something newer is refused.",
        ),
    )
    ml_opset: int | None = field(
        default=None,
        metadata=about(
            "Version of the domain ai.onnx.ml of the result, for trees and the like.",
            "None lowers it with the opset if all of its operators allow that, and never raises it.",
            low=1,
        ),
    )
    domain_opsets: Mapping[str, int] = field(
        default_factory=dict,
        metadata=about(
            "Version of a domain of your own in the result, for operators that are registered; may be repeated.",
            "`bnfold.register_operator` says which versions there are, and how nodes reach them.",
            low=1,
        ),
    )
    fix_shapes: Mapping[str, Sequence[int]] = field(
        default_factory=dict,
        metadata=about(
            "Shape to give to an input with dynamic sizes, in the result; may be repeated.",
            "A size that has a name can be given by it alone, such as batch=1. What follows for other values is "
            "written as well.",
            low=1,
        ),
    )
    fold: bool = field(
        default=True,
        metadata=about(
            "Whether to fold at all.",
            "False upgrades only.",
        ),
    )
    decompose: Literal["never", "remaining", "all"] = field(
        default="never",
        metadata=about(
            "Replace BatchNormalization by primitive operators: what folding leaves (remaining), or all of them, "
            "without folding any (all).",
        ),
    )
    decompose_form: Literal["mul_add", "sub_mul_add", "depthwise_conv"] = field(
        default="mul_add",
        metadata=about(
            "Operators that replace an inference BatchNormalization.",
        ),
    )
    decompose_ops: frozenset[str] = field(
        default=frozenset({"BatchNormalization"}),
        metadata=about(
            "Operators to decompose: BatchNormalization, InstanceNormalization.",
            operators=NORMALIZATIONS,
        ),
    )
    policy: Policy = field(
        default_factory=Policy,
        metadata=about(
            "How to read what the ONNX specification leaves open.",
        ),
    )
    constants: Literal["lift", "keep"] = field(
        default="lift",
        metadata=about(
            "What becomes of Constant nodes: initializers (lift), or what they are (keep).",
            "They mean the same, and runtimes make initializers of them when they load a model.",
        ),
    )
    no_simplify: bool = field(
        default=False,
        metadata=about(
            "Leave out the rewrites that make the graph smaller.",
            "They remove nodes without effect, store shapes that follow from known sizes, unite equal nodes, and fold "
            "constant arithmetic into weights; docs/simplifying.md lists them.",
        ),
    )
    group_norm: bool = field(
        default=False,
        metadata=about(
            "Write GroupNormalization for the InstanceNormalization of groups that exporters write in its place.",
            "It stands between two Reshapes, with a Mul and an Add behind it. Five nodes become one, from opset 21 on.",
        ),
    )
    overridable: Literal["auto", "freeze", "keep"] = field(
        default="auto",
        metadata=about(
            "Weights that are also listed as inputs: make them constants (freeze), keep them replaceable (keep), or "
            "decide by the file (auto).",
            "``freeze`` removes them from the inputs, so that callers can no longer feed them. ``auto`` does so "
            "only if the file lists every weight and more BatchNormalizations then fold.",
        ),
    )
    max_growth: int | None = field(
        default=None,
        metadata=about(
            "Maximum number of bytes that folding and simplifying together may add to the weights; 0 for none.",
            "None means 4 KiB for each operator that goes with a stored result, or with a copy of a shared or computed "
            "weight.",
            low=0,
        ),
    )
    only: frozenset[str] = field(
        default=frozenset(),
        metadata=about(
            "Fold only into and across operators of this type, such as Conv; may be repeated.",
            "Empty means all.",
            operators=(),
        ),
    )
    excluded: frozenset[str] = field(
        default=frozenset(),
        metadata=about(
            "Do not fold into or across operators of this type; may be repeated.",
            operators=(),
        ),
    )
    disable: frozenset[str] = field(
        default=frozenset(),
        metadata=about(
            "Leave out the rewrites of these names, such as matmul-add-gemm.",
            "docs/rewrites.md and ``bnfold explain`` list the names; reports use the same. A conversion cannot be left "
            "out: the opset needs it.",
        ),
    )
    all_affines: bool = field(
        default=False,
        metadata=about(
            "Also fold constant Mul, Add, Sub and Div that belong to no BatchNormalization.",
            "Simplifying does so too, but for what runtimes compute at once: GELU, normalisers, MatMul with a bias.",
        ),
    )
    merge_branches: bool = field(
        default=False,
        metadata=about(
            "Also merge parallel convolutions, and two matrix products in a row, into one.",
        ),
    )
    equalize: bool = field(
        default=False,
        metadata=about(
            "Apply cross-layer equalization, so that per-tensor int8 quantization loses less accuracy.",
            "After folding, a factor for each channel goes into one layer and its inverse into the next, through "
            "what passes it (Relu, PRelu, pooling, Add): cross-layer equalisation (arXiv:1906.04721), "
            "equal up to rounding.",
        ),
    )
    exchange: Literal["auto", "always"] = field(
        default="auto",
        metadata=about(
            "Put an Add in a BatchNormalization's place where that saves operators or elements (auto), or always.",
            "A BatchNormalization whose scale finds a weight and whose shift does not ends so. ``auto`` leaves it "
            "where the Add would be as many operators on as many elements, which runtimes are no faster with; "
            '``always`` is for targets that know no BatchNormalization. ``decompose="remaining"`` includes it.',
        ),
    )
    simplify: Sequence[Literal["onnxscript", "onnxslim", "onnxruntime"]] = field(
        default=(),
        metadata=about(
            "Run other optimisers after bnfold: onnxscript's, or those you name; undo steps that fail verification; "
            "includes --all-affines.",
            "onnxslim or onnxruntime, where installed, one after the other. A step that crashes, takes too long or "
            "changes what the model computes is undone.",
        ),
    )
    step_seconds: int = field(
        default=600,
        metadata=about(
            "Time limit for each other program, in seconds.",
            low=1,
        ),
    )
    opset: InitVar[Opset | Literal["target_opset"]] = field(default=SAME, kw_only=True)

    def __post_init__(self, opset: Opset | Literal["target_opset"]) -> None:
        if opset != SAME:
            given = {"opset": opset} if self.target_opset is None else {"opset": opset, SAME: self.target_opset}
            object.__setattr__(self, SAME, with_one_name(given)[SAME])
        _check_tools(self.simplify)
        Checked.__post_init__(self)
        _check_rewrites(self.disable)
        for tool in self.simplify:
            if find_spec(tool) is None:
                raise BadSetting("simplify", f"{tool} is not installed: pip install {tool}")
        self._check_versions()

    def _check_versions(self) -> None:
        for domain in self.domain_opsets:
            if domain in _OPTIONS:
                raise BadSetting("domain_opsets", f"the domain {domain!r} is converted with {_OPTIONS[domain]}")
        if isinstance(self.target_opset, int):
            import onnx

            newest = onnx.defs.onnx_opset_version()
            if not 1 <= self.target_opset <= newest:
                problem = f"opset {self.target_opset} does not exist: the installed onnx {onnx.__version__} knows 1 to"
                raise BadSetting("target_opset", f"{problem} {newest}")
        if self.ml_opset is not None:
            import onnx

            newest = max(row[3] for row in onnx.helper.VERSION_TABLE)
            if self.ml_opset > newest:
                raise BadSetting("ml_opset", f"{self.ml_opset} is newer than the installed onnx knows: 1 to {newest}")
        if isinstance(self.ir_version, int):
            import onnx

            if not LOWEST_IR_VERSION <= self.ir_version <= onnx.IR_VERSION:
                problem = f"the installed onnx {onnx.__version__} writes IR versions {LOWEST_IR_VERSION} to"
                raise BadSetting("ir_version", f"{self.ir_version} is not possible: {problem} {onnx.IR_VERSION}")

    @property
    def changes_nothing(self) -> bool:
        """Whether neither a rewrite nor a conversion is asked for, so that the model stays as it came."""
        is_kept = self.target_opset == self.ir_version == self.overridable == self.constants == "keep"
        asked = self.fold or self.fix_shapes or self.simplify or self.decompose != "never" or self.ml_opset is not None
        return is_kept and self.no_simplify and not asked

    @property
    def names_version(self) -> bool:
        """Whether an opset or an IR version is asked for by its number, or as the latest or lowest."""
        versions = isinstance(self.ir_version, int), self.ml_opset is not None, bool(self.domain_opsets)
        return self.target_opset not in (None, "keep") or any(versions)


_OPTIONS = {"": "--opset", "ai.onnx": "--opset", "ai.onnx.ml": "--ml-opset"}
"""Domains of onnx, and the options for their versions."""


def _check_rewrites(names: AbstractSet[str]) -> None:
    """Raise BadSetting for a name that no rewrite has, or that a conversion has."""
    if not names:
        return
    from bnfold.report.rewrites import unknown_name

    for name in sorted(names):
        if problem := unknown_name(name):
            raise BadSetting("disable", problem)


class OptionFields(TypedDict, total=False):
    """The fields of `Options` as keywords, and ``opset``, another name for ``target_opset``."""

    target_opset: Opset
    opset: Opset
    ir_version: int | Literal["auto", "keep"]
    ml_opset: int | None
    domain_opsets: Mapping[str, int]
    fix_shapes: Mapping[str, Sequence[int]]
    fold: bool
    decompose: Literal["never", "remaining", "all"]
    decompose_form: Literal["mul_add", "sub_mul_add", "depthwise_conv"]
    decompose_ops: Iterable[str]
    policy: Policy
    constants: Literal["lift", "keep"]
    no_simplify: bool
    group_norm: bool
    overridable: Literal["auto", "freeze", "keep"]
    max_growth: int | None
    only: Iterable[str]
    excluded: Iterable[str]
    disable: Iterable[str]
    all_affines: bool
    merge_branches: bool
    equalize: bool
    exchange: Literal["auto", "always"]
    step_seconds: int


def with_one_name(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords with ``target_opset`` for ``opset``. Raises BadSetting if both are given, and differ."""
    chosen = dict(fields)
    if "opset" not in chosen:
        return chosen
    opset = chosen.pop("opset")
    if chosen.setdefault(SAME, opset) != opset:
        problem = f"{opset!r} and target_opset={chosen[SAME]!r} contradict each other: they are two names of one option"
        raise BadSetting("opset", problem)
    return chosen


GONE_TOOLS = {"onnxsim": "onnxsim", "onnxoptimizer": "python -m onnxoptimizer"}
"""Simplifiers that were steps once, and removed next to nothing after bnfold; and the command of each."""


def _check_tools(tools: object) -> None:
    """Raise BadSetting for a simplifier that is a step no more."""
    for name, command in GONE_TOOLS.items():
        if isinstance(tools, Sequence) and name in map(str, tools):
            problem = (
                f"{name} is a step no more; `bnfold run IN OUT -- {command} {{input}} {{output}}` runs it, verified"
            )
            raise BadSetting("simplify", problem)


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
