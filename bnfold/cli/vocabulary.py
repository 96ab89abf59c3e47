"""The words of tables, notes and reports that are no code, rewrite or operator, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping

from bnfold.report.events import IN_WORDS

_STATES = {
    "folded": "Its scale and shift went into weights near it, and the operator is gone.",
    "replaced": (
        "Its scale went into a weight, and one Add for its shift is in its place. --exchange always does that wherever "
        "it is possible."
    ),
    "removed": "It did nothing, and is gone.",
    "left": "It is still there; the reason stands beside it in brackets, and `bnfold explain REASON` says more.",
    "kept": "It is still there; the reason stands beside it in brackets, and `bnfold explain REASON` says more.",
    "decomposed": (
        "It is written in simpler operators: a BatchNormalization with --decompose, any operator that a lower opset "
        "lacks."
    ),
    "converted": "The node has the form that the operator has in another opset, and computes the same numbers.",
    "as is": "A conversion left the node as it was: the operator has not changed.",
}
_STATUSES = {
    "unchecked": "The result was not compared with the original: --no-verify was given.",
    "not verified": "Nothing was compared, because --no-verify was given or there was no result.",
    "inspected": "The model was only looked at, and nothing was written.",
    "skipped": (
        "An earlier run wrote a result from the same file with the same options, and it is still there; --force works "
        "on it anew."
    ),
    "rolled back": "The result of another program was not verified, so that the model from before it was kept.",
    "within tolerance": "The results differ by no more than --tolerance allows.",
    "open": "Nothing proves this value right, and no difference that counts was found; the code beside it says why.",
}
_COLUMNS = {
    "before": "The model as it came.",
    "after": "The result.",
    "IR version": "The version of the file format; each runtime loads files up to one.",
    "opset": "The version of ONNX's operators that the model asks for; each runtime knows them up to one.",
    "nodes": "Operators of the graph, those of branches, bodies and functions included.",
    "without Constant": "Nodes without those that only hold a constant; other tools count so.",
    "weights": "Bytes of all constants of the model.",
    "multiply-adds": (
        "Multiplications with an addition that one run of the model takes, in convolutions and matrix products; a "
        "dynamic size stays as a factor."
    ),
    "inputs": "Inputs of the model, weights that are listed as inputs included.",
    "outputs": "Outputs of the model.",
    "file size": "Bytes of the model's file with its data files.",
    "latency": "The time of one run in onnxruntime on one thread, measured in pairs (--latency).",
    "version": "The opset that last changed what the node means.",
    "mode": (
        "How a BatchNormalization normalises: with stored statistics (inference), with those of each batch (training), "
        "or as constant Mul and Add (affine)."
    ),
    "inference": "A BatchNormalization that normalises with its stored mean and variance: it can be folded.",
    "training": "A BatchNormalization that normalises with the statistics of each batch: it cannot be folded.",
    "affine": (
        "A scale and a shift for each channel, y = s·x + t, written as constant Mul, Div, Add and Sub in the place of "
        "a BatchNormalization."
    ),
    "scale": "The factors by which a BatchNormalization multiplies its channels: scale / sqrt(variance + epsilon).",
    "shift": "What a BatchNormalization adds to its channels: bias - mean · its factor.",
    "becomes": "What the rewrite makes of the BatchNormalization.",
    "what happened": "Why a model was not verified or not written, and the reasons of what is left in it.",
    "where, or why not": "The nodes whose weights took it, or the reason why it is left.",
    "layer": "An operator with weights: Conv, ConvTranspose, Gemm or MatMul.",
    "spread of channel ranges": "The largest range of a weight's channels divided by the smallest; small is good.",
    "int8 per tensor": (
        "Signal to noise of the weight in int8, in dB, with one factor for the whole weight; more is better."
    ),
    "int8 per channel": "Signal to noise of the weight in int8, in dB, with a factor for each channel; more is better.",
    "time": "Seconds that the step took, verification included.",
    "note": "A remark on what was decided, or left, on the way; --verbose lists all of them.",
    "repair": "What the file left open or said wrongly, and what was read in its place; no number changes.",
    "load": "Seconds in which the file was read, without its weights.",
    "rewrite": "Seconds in which the graph was converted, folded and simplified; also, one change of that kind.",
    "write": "Seconds in which the result was written, before it is put in place.",
    "verify": "Seconds in which the result was compared with the original.",
    "next step": "Seconds in which options were tried that might verify the result.",
    "initializer": "A constant that the model stores beside the nodes, and not in a node of the operator Constant.",
}
_VERIFICATION = {
    "sample": "One set of random inputs. The first has ordinary numbers, others very large, tiny or constant ones.",
    "ordinary": "Numbers of a normal distribution around 0, as in the first sample.",
    "near-mean": "Numbers close to the mean that a BatchNormalization subtracts, where differences show most.",
    "relative": "A difference divided by the largest number of the output.",
    "rounding": (
        "The difference that storing each new weight in its own type can make. It is measured: each new weight is "
        "moved by one rounding."
    ),
    "float64": "Both models were computed by bnfold's own operators in double precision.",
    "runtime": "A program that runs models, such as onnxruntime; both are run beside bnfold's own operators.",
    "without an independent runtime": (
        "No runtime such as onnxruntime ran the whole result, so that bnfold's own operators alone computed what is "
        "verified; a note says why. It is no fault of the result: run it once where it will be used."
    ),
    "whole models": "Both models were run from inputs to outputs.",
    "part": "Nodes around one change, from values that are equal in both models to values that have to be.",
    "change": "What differs between the two models in one place; it is compared as a part.",
    "fault": "A wrong weight, attribute or size that was put into a copy of the result, to see whether it would show.",
    "discontinuous": (
        "An operator such as Round or ArgMax, in which a tiny difference can become a large one. Models are compared "
        "in front of it, and both go on with the original's values."
    ),
    "tolerance": "The error that --tolerance allows, as a share of each output's largest number.",
    "begins at": "A value that differs, while nothing that it is computed from does.",
    "another scale": "A value inside that only has another factor and shift in each channel, as folding leaves it.",
    "next": "What to type, or what to do, about a result that is not verified. `tried` options do verify it.",
    "lowest opset": "The lowest opset that every node of this model can be converted to.",
    "equal bit for bit": "The result of this rewrite is the same number in every bit.",
    "equal up to rounding": "The result of this rewrite may differ in its last digits; `explain REWRITE` says why.",
}

VOCABULARY: Mapping[str, str] = {**_STATES, **_STATUSES, **_COLUMNS, **_VERIFICATION}
"""Each word with its meaning, in one or two sentences."""

OTHER_FORMS: Mapping[str, str] = {
    **IN_WORDS,
    "affines": "affine",
    "notes": "note",
    "repairs": "repair",
    "rewrites": "rewrite",
    "samples": "sample",
    "parts": "part",
    "changes": "change",
    "runtimes": "runtime",
    "witnesses": "runtime",
    "initializers": "initializer",
    "constants": "initializer",
    "bit for bit": "equal bit for bit",
    "up to rounding": "equal up to rounding",
    "exchange": "replaced",
    "respell": "converted",
    "spelled": "decomposed",
    "referee": "runtime",
    "changed": "change",
    "verified without an independent runtime": "without an independent runtime",
    "independent runtime": "without an independent runtime",
    "no runtime ran the whole models": "without an independent runtime",
    "the whole models were not compared": "without an independent runtime",
    "changed part": "part",
    "size": "file size",
    "int8 per tensor, dB": "int8 per tensor",
    "int8 per channel, dB": "int8 per channel",
}
"""Plurals, and names of the JSON form, with the word that explains them."""


def key(word: str) -> str:
    """Return a word without what differs between output, JSON and command line: case, brackets, hyphens, colons."""
    return " ".join(word.lower().strip("[]():, ").replace("_", " ").replace("-", " ").split())


_BY_KEY = {key(word): word for word in VOCABULARY}
_FORMS = {key(form): word for form, word in OTHER_FORMS.items()}


def meaning(word: str) -> tuple[str, str]:
    """Return a word as it is listed, and what it means; empty texts for a word that is none of these."""
    listed = OTHER_FORMS.get(word) or _BY_KEY.get(key(word)) or _FORMS.get(key(word), "")
    return listed, VOCABULARY.get(listed, "")
