"""Operators of ai.onnx.ml on features: encoders, scalers and linear models."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bnfold.ir.elements import Array
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.reference.kernels.scores import labels_of, transformed
from bnfold.reference.precision import as_declared, is_float
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, kernel, require


@kernel("ArrayFeatureExtractor", 1, domain=MACHINE_LEARNING)
def extract(call: Call, x: Array, places: Array) -> KernelResult:
    """Gather along the last axis; the result has two axes at least."""
    require(x.ndim > 0 and places.size, "no features to choose from, or none chosen")
    require(((places >= 0) & (places < x.shape[-1])).all(), f"a place beyond {x.shape[-1]} features")
    found = x[..., places.reshape(-1)]
    return found.reshape(1, -1) if x.ndim == 1 else found


@kernel("Binarizer", 1, domain=MACHINE_LEARNING)
def binarize(call: Call, x: Array) -> KernelResult:
    """Return 1 for what is above a threshold."""
    require(not is_float(x) or not np.isnan(x).any(), "onnxruntime refuses NaN", KernelDeclined)
    return (_as_stored(call, x) > call.attr("threshold")).astype(x.dtype)


@kernel("Scaler", 1, domain=MACHINE_LEARNING)
def scale(call: Call, x: Array) -> KernelResult:
    """Subtract an offset, and multiply by a scale."""
    offset, factor = (_per_feature(x, call.attr(name, [])) for name in ("offset", "scale"))
    return (_floats(x) - offset) * factor


_NORMS: dict[str, Callable[[Array], Array]] = {
    "MAX": lambda x: x.max(axis=1, initial=-np.inf),
    "L1": lambda x: x.sum(axis=1),
    "L2": lambda x: np.sqrt((x * x).sum(axis=1)),
}


@kernel("Normalizer", 1, domain=MACHINE_LEARNING)
def normalize(call: Call, x: Array) -> KernelResult:
    """Return each row divided by its norm, unless that is 0."""
    require(x.ndim == 2, f"{x.ndim} axes of features", KernelDeclined)
    x, norm = _floats(x), call.attr("norm")
    require(norm in _NORMS, f"norm {norm!r} is not in the operator text")
    divisor, other = (_NORMS[norm](each)[:, None] for each in (x, np.abs(x)))
    is_sure = np.array_equal(divisor, other, equal_nan=True)
    require(is_sure, f"implementations disagree about the {norm} norm of negative numbers", KernelDeclined)
    return np.where(divisor == 0, x, x / divisor)


@kernel("Imputer", 1, domain=MACHINE_LEARNING)
def impute(call: Call, x: Array) -> KernelResult:
    """Replace one number, which may be NaN, by that of its feature."""
    names = ("imputed_value_floats", "replaced_value_float"), ("imputed_value_int64s", "replaced_value_int64")
    (values, replaced), other = names if is_float(x) else reversed(names)
    require(call.attr(values) and not call.attr(other[0]), "values to change to of the type of its input")
    number, stored = call.attr(replaced), _as_stored(call, x)
    is_missing = np.isnan(stored) if is_float(x) and np.isnan(number) else stored == number
    return np.where(is_missing, _per_feature(x, call.attr(values)), x).astype(x.dtype)


@kernel("FeatureVectorizer", 1, domain=MACHINE_LEARNING)
def join_features(call: Call, *inputs: Array) -> KernelResult:
    """Put features beside each other."""
    require(all(x.ndim == 2 for x in inputs), "implementations disagree about features of one axis", KernelDeclined)
    declared = call.attr("inputdimensions", [])
    require([x.shape[1] for x in inputs] == list(declared), "inputs of other sizes than it states", KernelDeclined)
    return np.concatenate([_floats(x) for x in inputs], axis=1)


@kernel("CategoryMapper", 1, domain=MACHINE_LEARNING)
def map_categories(call: Call, x: Array) -> KernelResult:
    """Turn strings into integers, or integers into strings."""
    strings, integers = call.attr("cats_strings", []), call.attr("cats_int64s", [])
    if x.dtype.kind in "OU":
        return _looked_up(x, strings, np.array(integers, np.int64), np.int64(call.attr("default_int64")))
    return _looked_up(x, integers, _strings(strings), call.attr("default_string"))


@kernel("LabelEncoder", 1, domain=MACHINE_LEARNING)
def encode_by_place(call: Call, x: Array) -> KernelResult:
    """Turn strings into their places in a list, or places into strings."""
    strings = call.attr("classes_strings", [])
    places = list(range(len(strings)))
    if x.dtype.kind in "OU":
        return _looked_up(x, strings, np.array(places, np.int64), np.int64(call.attr("default_int64")))
    return _looked_up(x, places, _strings(strings), call.attr("default_string"))


@kernel("LabelEncoder", 2, 4, domain=MACHINE_LEARNING)
def encode(call: Call, x: Array) -> KernelResult:
    """Turn keys into values; a NaN among the keys stands for every NaN.

    Onnxruntime does not find it in version 2.
    """
    keys, _ = _stored_in(call, "keys", ("floats", "int64s", "strings", "tensor"))
    values, kind = _stored_in(call, "values", ("floats", "int64s", "strings", "tensor"))
    default = call.attr("default_tensor") if kind == "tensor" else None
    if default is None:
        name = {"f": "default_float", "O": "default_string"}.get(values.dtype.kind, "default_int64")
        default = call.attr(name) if kind != "tensor" else call.defaults[name]
    default = np.asarray(default, values.dtype).reshape(-1)
    require(default.size == 1, "a default of one element")
    require(keys.dtype.kind in ("OU" if x.dtype.kind in "OU" else x.dtype.kind), "keys of another type than its input")
    is_missing = call.opset < 4 and keys.dtype.kind == "f" and np.isnan(keys).any() and np.isnan(x).any()
    require(not is_missing, "onnxruntime does not find the key NaN in version 2", KernelDeclined)
    return _looked_up(_as_stored(call, x), keys.reshape(-1).tolist(), values.reshape(-1), default[0])


def _stored_in(call: Call, what: str, kinds: Sequence[str]) -> tuple[Array, str]:
    """Return the one list or tensor that is stored, and its kind."""
    given = [kind for kind in kinds if call.has(f"{what}_{kind}")]
    require(len(given) == 1, f"one of {what}_*")
    stored = call.attr(f"{what}_{given[0]}")
    types: dict[str, Any] = {"floats": np.float64, "int64s": np.int64, "strings": object}
    found = np.asarray(stored) if given[0] == "tensor" else np.array(stored, types[given[0]])
    return found.astype(object) if found.dtype.kind in "US" else found, given[0]


@kernel("OneHotEncoder", 1, domain=MACHINE_LEARNING)
def encode_one_hot(call: Call, x: Array) -> KernelResult:
    """Return for each element a row with a 1 at the place of its category."""
    strings, integers = call.attr("cats_strings"), call.attr("cats_int64s")
    require(bool(strings) != bool(integers), "categories of one type, which its text asks for")
    is_text = x.dtype.kind in "OU"
    require(is_text == bool(strings), "categories of another type than its input")
    if is_float(x):
        x = _as_stored(call, x)
        require((np.abs(x) < 2.0**63).all(), "numbers that no integer stands for", KernelDeclined)
    categories = strings or integers
    unknown = len(categories)
    places = _looked_up(x if is_text else x.astype(np.int64), categories, np.arange(unknown), np.int64(unknown))
    require(call.attr("zeros") or (places < unknown).all(), "a category that is not among its own")
    return np.eye(unknown + 1)[places][..., :-1]


@kernel("LinearRegressor", 1, domain=MACHINE_LEARNING)
def regress_linearly(call: Call, x: Array) -> KernelResult:
    """Return the products of the features with the coefficients of each target."""
    targets, transform = call.attr("targets"), call.attr("post_transform")
    one = targets == 1 and transform not in ("NONE", "PROBIT")
    require(not one, f"post_transform={transform} of one target, which runtimes leave out", KernelDeclined)
    return transformed(_products(x, call, targets), transform)


@kernel("LinearClassifier", 1, domain=MACHINE_LEARNING)
def classify_linearly(call: Call, x: Array) -> KernelResult:
    """Return the class with the largest product, and what becomes of all products."""
    labels = labels_of(call, "classlabels_ints")
    size = len(call.attr("intercepts", []))
    require(size == len(labels) > 1, "the text does not say what one score means for two classes", KernelDeclined)
    scores = _products(x, call, size)
    made = transformed(scores, call.attr("post_transform"))
    best = scores.argmax(axis=1)
    is_sure = (best == np.where(np.isnan(made), -np.inf, made).argmax(axis=1)) | (np.ptp(made, axis=1) == 0)
    require(is_sure.all(), "the text does not say whether scores are compared before post_transform", KernelDeclined)
    return labels[best], made


def _products(x: Array, call: Call, size: int) -> Array:
    """Return rows of ``size`` products."""
    require(x.ndim == 2, f"{x.ndim} axes of features", KernelDeclined)
    weights = np.array(call.attr("coefficients", []), np.float64)
    require(size > 0 and weights.size == size * x.shape[1], "as many coefficients as features for each score")
    intercepts = np.array(call.attr("intercepts") or [0.0] * size, np.float64)
    require(intercepts.size == size, "an intercept for each score")
    return np.asarray(_floats(x) @ weights.reshape(size, -1).T + intercepts)


def _floats(x: Array) -> Array:
    return x if is_float(x) else x.astype(np.float64)


def _as_stored(call: Call, x: Array) -> Array:
    """Return the numbers that a runtime compares, in the type that the file gives them."""
    stored = as_declared(x, call.kind)
    return stored.astype(x.dtype) if is_float(x) else x


def _per_feature(x: Array, numbers: Sequence[float]) -> Array:
    """Return one number for each feature, or for all."""
    one_for_all = len(numbers) == 1
    require(one_for_all or (x.ndim in (1, 2) and len(numbers) == x.shape[-1]), f"{len(numbers)} numbers for {x.shape}")
    return np.array(numbers)


def _strings(values: Sequence[str]) -> Array:
    return np.array(values, object)


def _looked_up(x: Array, keys: Sequence[Any], values: Array, default: Any) -> Array:
    """Return for each element the value of its key, or else the default."""
    require(len(keys) == len(values), f"{len(keys)} keys for {len(values)} values")
    table: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        key = "NaN" if isinstance(key, float) and np.isnan(key) else key  # noqa: PLW2901 - no NaN equals another one
        known = table.setdefault(key, value)
        require(known == value, f"implementations disagree about two values for the key {key!r}", KernelDeclined)
    found, places = np.unique(x.reshape(-1), return_inverse=True) if x.dtype.kind != "O" else _distinct(x)
    of = [table.get("NaN" if isinstance(key, float) and np.isnan(key) else key, default) for key in found.tolist()]
    made = np.empty(len(of), values.dtype)
    made[:] = of
    return made[places].reshape(x.shape)


def _distinct(x: Array) -> tuple[Array, Array]:
    """Return the strings that occur, and where each is."""
    texts = [text.decode() if isinstance(text, bytes) else str(text) for text in x.reshape(-1).tolist()]
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([*place], object), np.array([place[text] for text in texts], np.int64)
