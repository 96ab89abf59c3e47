"""The codes of evidence: what became of a claim, what each code means, and what a caller can do about it.

Programs read codes. The sentences beside them are for people, and no code reads those.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Code(StrEnum):
    """What became of a claim, or why there is no more evidence for it; `MEANINGS` explains each."""

    SAME = "same"
    CONSTANT = "constant"
    TESTED = "tested"
    IN_WHOLE = "tested-in-whole"

    DIFFERS = "differs"
    ZERO_SIGN = "other-zero"
    NOT_EQUAL = "not-equal"
    OTHER_FORM = "other-form"
    DOES_NOT_RUN = "does-not-run"
    INTERFACE = "interface"
    INVALID = "invalid-model"
    REFUSED = "runtime-refuses"
    LESS_PRECISE = "less-precise"

    TIME = "time"
    MEMORY = "memory"
    NO_KERNEL = "no-kernel"
    NOT_COMPUTED = "not-computed"
    RANDOM = "random"
    NO_FIT = "no-fitting-inputs"
    TOO_LARGE = "too-large"
    HIDDEN = "fault-hidden"
    NO_REACTION = "no-reaction"
    COARSE = "rounding-hides"
    NEVER_FINITE = "never-finite"
    EMPTY = "empty-result"
    SOME_SIZES = "some-sizes"
    ASSUMED_SIZES = "assumed-sizes"
    SOME_DEFAULTS = "some-defaults"
    ONE_SIDED = "one-sided"
    NOT_ASKED = "not-asked"
    UNFED = "inputs-unused"
    PROMISE = "output-shape"
    UNCERTAIN = "perhaps-invalid"
    TOO_OLD = "runtime-too-old"
    DOUBT = "runtime-doubt"
    RUNTIME_SILENT = "runtime-silent"
    CONTRADICTED = "kernel-contradicted"


class CodeText(NamedTuple):
    """What a code says of a claim, and what a caller can do; that is empty where nothing has to be done."""

    text: str
    remedy: str = ""


_REPORT = "This is a wrong rewrite. If bnfold made it, report it with the files that --save writes."
_DATA = "Give recorded inputs with --data."

MEANINGS: dict[Code, CodeText] = {
    Code.SAME: CodeText("the same operators compute the value from values that are right"),
    Code.CONSTANT: CodeText("the value follows from stored numbers alone; both models' were evaluated and are equal"),
    Code.TESTED: CodeText("both models were computed on the same inputs, and agree but for what rounding explains"),
    Code.IN_WHOLE: CodeText("the whole models agree, on inputs on which a fault in this part would show"),
    Code.DIFFERS: CodeText("the results differ by more than rounding the new weights explains", _REPORT),
    Code.ZERO_SIGN: CodeText(
        "the results agree at zeros of one sign, and differ at zeros of the other, as those of 1 / x do",
        "Use the original, unless callers feed no zero there.",
    ),
    Code.NOT_EQUAL: CodeText("integers, truths or words differ, for which nothing is allowed", _REPORT),
    Code.OTHER_FORM: CodeText("the results have other shapes or types, or NaN or infinities elsewhere", _REPORT),
    Code.DOES_NOT_RUN: CodeText("the rewritten model does not run on what the original takes", _REPORT),
    Code.INTERFACE: CodeText("inputs or outputs have other names, types or shapes", "Compare models of one interface."),
    Code.INVALID: CodeText("onnx's checker or inference rejects the rewritten model, and not the original", _REPORT),
    Code.REFUSED: CodeText("a runtime takes the original, and not the rewritten model", _REPORT),
    Code.LESS_PRECISE: CodeText(
        "in the models' own types, the rewritten model errs more than rounding explains",
        _REPORT,
    ),
    Code.TIME: CodeText(
        "comparing takes more time than there is for it",
        "Raise --verify-seconds to what `next:` names, or give smaller sizes (--input).",
    ),
    Code.MEMORY: CodeText(
        "comparing takes more memory than there is",
        "Use a machine with more memory, or smaller sizes (--input).",
    ),
    Code.NO_KERNEL: CodeText(
        "bnfold cannot compute an operator of the part, and no runtime was there that does",
        "Install onnxruntime, register the operator (bnfold.register_operator), or compare the result in a runtime "
        "that has it.",
    ),
    Code.NOT_COMPUTED: CodeText(
        "bnfold's own operators cannot compute the part: its operators' texts leave a choice, or have no such form",
        "Compare the result in your own runtime.",
    ),
    Code.RANDOM: CodeText(
        "the part draws random numbers in another way than before",
        "Nothing can be compared there: compare statistics of many runs in your own runtime.",
    ),
    Code.NO_FIT: CodeText(
        "the original runs on none of the sizes and numbers that were tried",
        "Give sizes with --input NAME=N,…, or recorded inputs with --data.",
    ),
    Code.TOO_LARGE: CodeText(
        "every size that the part can have is too large to try",
        "Give smaller sizes with --input.",
    ),
    Code.HIDDEN: CodeText(
        "the results agree, but the inputs that were tried would not show a fault",
        _DATA,
    ),
    Code.NO_REACTION: CodeText(
        "no output changes with the new weights on the inputs that were tried: they may be saturated",
        _DATA,
    ),
    Code.COARSE: CodeText("rounding the new weights moves the results so far that it would hide a fault", _DATA),
    Code.NEVER_FINITE: CodeText("results are NaN or infinite whatever is fed, so that a fault would not show", _DATA),
    Code.EMPTY: CodeText("the results have no elements at the sizes that were tried", "Give sizes with --input."),
    Code.SOME_SIZES: CodeText(
        "the results agree at some sizes or ranks only, and the model does not declare which it gets",
        "Fix the sizes with --fix-shapes, or give those that occur with --input.",
    ),
    Code.ASSUMED_SIZES: CodeText(
        "sizes had to be assumed, and at those the rewritten part is another one",
        "Declare the sizes, or give them with --input.",
    ),
    Code.SOME_DEFAULTS: CodeText(
        "the results agree only while nobody feeds the inputs that have defaults",
        "Say what they are with --overridable freeze, or keep.",
    ),
    Code.ONE_SIDED: CodeText(
        "a value at the edge of the part is in one of the models only",
        "Verify with --verify full.",
    ),
    Code.NOT_ASKED: CodeText("the options leave this comparison out", "Verify with --verify auto."),
    Code.UNFED: CodeText(
        "inputs are no longer used, and were compared at their default values only",
        "Feed them with --data, or keep them with --overridable keep.",
    ),
    Code.PROMISE: CodeText(
        "an output is declared with another shape than before, and no run proves it",
        "Verify with --verify full.",
    ),
    Code.UNCERTAIN: CodeText(
        "onnx rejects the rewritten model; whether it would reject the original cannot be told",
        "Load the result where it will run.",
    ),
    Code.TOO_OLD: CodeText(
        "the runtime lacks an opset, an IR version or an operator that the result needs",
        "Use a runtime that has it, or convert to another --opset.",
    ),
    Code.DOUBT: CodeText(
        "a runtime takes neither model, for different reasons, or ended while it had the result",
        "Load the result where it will run.",
    ),
    Code.RUNTIME_SILENT: CodeText(
        "a runtime did not run the model, or what it computed shows nothing",
        "Compare the result in your own runtime.",
    ),
    Code.CONTRADICTED: CodeText(
        "a runtime computes something else of the original than kernels that a caller registered",
        "Correct the kernel, or the runtime's library of operators.",
    ),
}


VERIFIED = (Code.SAME, Code.CONSTANT, Code.TESTED, Code.IN_WHOLE)
FAILED = (
    *(Code.DIFFERS, Code.NOT_EQUAL, Code.OTHER_FORM, Code.DOES_NOT_RUN),
    *(Code.INTERFACE, Code.INVALID, Code.REFUSED, Code.LESS_PRECISE, Code.ZERO_SIGN),
)
UNVERIFIED = tuple(code for code in Code if code not in (*VERIFIED, *FAILED) or code is Code.ZERO_SIGN)
"""A zero of the other sign, which only a part can be fed, is no failure; fed by callers, it is one."""


class Word(NamedTuple):
    """What a word of a verdict means, and the codes under it."""

    text: str
    codes: tuple[Code, ...]


WORDS: dict[str, Word] = {
    "verified": Word(
        "Each output of the rewritten model is right, whatever callers feed. A value is right if the same operator "
        "computes it from values that are right, or if it follows from stored numbers, which were evaluated and are "
        "equal. Anything else was computed in both models, on inputs on which a fault would show, and agrees but for "
        "what rounding explains.",
        VERIFIED,
    ),
    "unverified": Word(
        "No difference that counts was found, but something could not be compared, a fault in it might not have "
        "shown, or it differs where the model may never be. The result may be right. --explain says which value is "
        "open, and why.",
        UNVERIFIED,
    ),
    "failed": Word(
        "A difference was found that rounding does not explain, or the rewritten model cannot take the original's "
        "place. bnfold never writes such a result. --explain says which value differs, and --save writes a small "
        "model that shows it.",
        FAILED,
    ),
}
"""The words of a verdict."""
