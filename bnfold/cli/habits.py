"""What users of other simplifiers type by habit, and what it is called here."""

from __future__ import annotations

_SHAPE = (
    "use --fix-shapes NAME=1,3,224,224 to fix open sizes in the model, or --input NAME=1,3,224,224 to choose them for "
    "verification only"
)
_OUTPUT = "the output is the second argument: bnfold IN OUT"
_ALWAYS = "bnfold always verifies, unless --no-verify is given"
_ELSEWHERE = "bnfold has no such option; run bnfold first, then the other tool"

# Options that users of onnxsim and onnxslim type by habit. bnfold's differ in form, so it names them in an error.
COUNTERPARTS = {
    "--input-shape": _SHAPE,
    "--input-shapes": _SHAPE,
    "--overwrite-input-shape": _SHAPE,
    "--batch-size": "use --fix-shapes NAME=SIZE, where NAME is that of the input's first size",
    "--dynamic-input-shape": "bnfold keeps dynamic sizes dynamic",
    "--test-input-shape": "use --input NAME=1,3,224,224",
    "--model-check-inputs": "use --input NAME=1,3,224,224, or --data FILE.npz",
    "--input-data-path": "use --data FILE.npz, or --data FOLDER with input_0.pb, …",
    "--model-check": _ALWAYS,
    "--check": _ALWAYS,
    "--check-n": "use --samples N",
    "--check-rtol": "verification derives its tolerances from the element types; `bnfold verify` takes --tolerance T",
    "--check-atol": "verification derives its tolerances from the element types; `bnfold verify` takes --tolerance T",
    "--save-as-external-data": "use --external-data NAME.data",
    "--external-data-threshold": "use --size-threshold BYTES, which applies to each weight",
    "--mutable-initializer": "use --overridable keep",
    "--freeze-overridable": "use --overridable freeze",
    "--depth": "use --verify auto, full or local",
    "--no-batchnorm": "use --decompose remaining, and --assert-none BatchNormalization",
    "--no-fold": "use `bnfold upgrade`, which does not fold",
    "--skip-fuse-bn": "use `bnfold upgrade`, which does not fold",
    "--skip-optimization": "use --except OP to keep operators out of folding; `bnfold upgrade` does not fold",
    "--skip-optimizations": "use --except OP to keep operators out of folding; `bnfold upgrade` does not fold",
    "--skip-fusion-patterns": "use --except OP to keep operators out of folding",
    "--dtype": _ELSEWHERE,
    "--inputs": _ELSEWHERE,
    "--outputs": _ELSEWHERE,
    "--inspect": "use the command `bnfold inspect IN`",
    "--output": _OUTPUT,
    "--output-model": _OUTPUT,
    "-o": _OUTPUT,
    "--input-model": "the model is the first argument: bnfold IN OUT",
    "-i": "the model is the first argument: bnfold IN OUT",
    "-V": "use --version",
}

OF_OTHERS = {"--opset": "this command keeps the opset; use `bnfold convert IN OUT --opset N`"}
"""Options that other commands have."""

COMMANDS = {
    "version": "`bnfold --version`",
    "help": "`bnfold --help`, or `bnfold COMMAND --help`",
    "check": "`bnfold inspect IN`, or `bnfold verify BEFORE AFTER`",
    "compare": "`bnfold verify BEFORE AFTER`, or `bnfold diff BEFORE AFTER`",
    "downgrade": "`bnfold convert IN OUT --opset N`",
    "simplify": "`bnfold optimize IN OUT --simplify`",
    "info": "`bnfold inspect IN`",
}
"""What users mean by commands that other tools have."""


def numbered(number: str) -> str:
    """Return what is meant by a number without an option."""
    return f"to convert to an opset, use --opset {number}; to verify with several samples, use --samples {number}"
