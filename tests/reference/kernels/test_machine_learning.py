"""Encoders, scalers, linear models and support vectors of ai.onnx.ml, against onnxruntime, and what is declined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from tests.reference.models import Array, floats, one_node
from tests.reference.witness import Case, disagreements

X = floats(1, 5, 3)
NAN = float("nan")
WORDS = np.array([["a", "q"], ["", "é"], ["word", "a"]], object)
SUPPORTS: dict[str, Any] = {"kernel_params": [0.5, 0.0, 3.0], "support_vectors": floats(2, 12).tolist(), "rho": [0.25]}


def case(op: str, *inputs: Array, outputs: tuple[str, ...] = ("y",), version: int = 1, **attrs: Any) -> Case:
    model, feeds = one_node(op, 15, list(inputs), outputs, domain="ai.onnx.ml", **attrs)
    model.opset_import[-1].version = version
    return model, feeds


def linear(labels: dict[str, Any], x: Array = X, **more: Any) -> Case:
    attrs: dict[str, Any] = {"coefficients": floats(3, 9).tolist(), "intercepts": [0.5, -0.25, 0.125]}
    return case("LinearClassifier", x, outputs=("label", "y"), **attrs, **labels, **more)


def machine(count: int, kernel: str, **more: Any) -> Case:
    sizes = {2: [2, 2], 3: [1, 2, 1]}[count]
    attrs = {
        "coefficients": floats(5, 4 * (count - 1)).tolist(),
        "rho": floats(6, count * (count - 1) // 2).tolist(),
        "vectors_per_class": sizes,
        "classlabels_ints": [*range(3, 3 + count)],
        "kernel_type": kernel,
        "kernel_params": [0.5, 0.25, 2.0],
        "support_vectors": SUPPORTS["support_vectors"],
    }
    return case(
        "SVMClassifier", X, outputs=("label", "y"), **{name: it for name, it in (attrs | more).items() if it != []}
    )


NEAR = np.nextafter(np.float32(0.1), np.array([-1, 1], np.float32))
CASES = [
    case("ArrayFeatureExtractor", X, np.array([2, 0])),
    case("ArrayFeatureExtractor", X, np.array([[1]])),
    case("ArrayFeatureExtractor", X[0], np.array([1, 2])),
    case("ArrayFeatureExtractor", WORDS, np.array([1])),
    case("Binarizer", np.array([[0.1, *NEAR, -5, np.inf]], np.float32), threshold=0.1),
    case("Scaler", X, offset=[0.5, 1.0, 2.0], scale=[2.0, 3.0, 4.0]),
    case("Scaler", X, offset=[0.5], scale=[2.0]),
    case("Scaler", np.arange(6).reshape(2, 3), offset=[0.5, 1.0, 2.0], scale=[2.0, 3.0, 4.0]),
    *(case("Normalizer", np.abs(X) * (X > 0), norm=norm) for norm in ("MAX", "L1", "L2")),
    case("Normalizer", X, norm="L2"),
    case("Normalizer", np.arange(6).reshape(2, 3), norm="L1"),
    case(
        "Imputer", np.array([[NAN, 1], [2, NAN]], np.float32), imputed_value_floats=[5.0, 6.0], replaced_value_float=NAN
    ),
    case("Imputer", np.array([[-1, 1], [2, -1]], np.float32), imputed_value_floats=[5.0], replaced_value_float=-1.0),
    case("Imputer", np.array([[-1, 1], [2, -1]]), imputed_value_int64s=[5, 6], replaced_value_int64=-1),
    case("FeatureVectorizer", X, X[:, :2], inputdimensions=[3, 2]),
    case("CategoryMapper", WORDS, cats_strings=["a", "é"], cats_int64s=[7, 9], default_int64=-4),
    case("CategoryMapper", np.array([[7, 8, 9]]), cats_strings=["a", "é"], cats_int64s=[7, 9], default_string="none"),
    case("LabelEncoder", WORDS, classes_strings=["q", "a"], default_int64=-4),
    case("LabelEncoder", np.array([[-1, 0, 1, 2]]), classes_strings=["q", "a"], default_string="none"),
    *(
        case("LabelEncoder", x, version=version, **attrs)
        for version in (2, 4)
        for x, attrs in (
            (WORDS, {"keys_strings": ["a", "é"], "values_int64s": [4, 5], "default_int64": -2}),
            (WORDS, {"keys_strings": ["a", "é"], "values_floats": [4.5, 5.0]}),
            (WORDS, {"keys_strings": ["a", "é"], "values_strings": ["b", "c"]}),
            (np.array([[0, 1, 2]]), {"keys_int64s": [0, 2], "values_strings": ["b", "c"], "default_string": "?"}),
            (np.array([0.1, *NEAR, -0.0, NAN], np.float32), {"keys_floats": [0.1, 0.0], "values_int64s": [4, 5]}),
        )
    ),
    case("LabelEncoder", np.array([NAN, 1.0], np.float32), version=4, keys_floats=[NAN], values_int64s=[3]),
    *(
        case("OneHotEncoder", x, cats_int64s=[1, -2, 3], zeros=1)
        for x in (np.array([[1, -2], [3, 4]]), np.array([1.9, -2.5, 3.0, 0.0], np.float32))
    ),
    case("OneHotEncoder", WORDS, cats_strings=["a", "é"]),
    case("LinearRegressor", X, coefficients=floats(2, 3).tolist()),
    case("LinearRegressor", X, coefficients=floats(2, 3).tolist(), intercepts=[0.5]),
    case("LinearRegressor", X, coefficients=floats(2, 6).tolist(), intercepts=[0.5, 1.0], targets=2),
    *(linear({"classlabels_ints": [4, 5, 6]}, post_transform=name) for name in ("NONE", "SOFTMAX", "LOGISTIC")),
    linear({"classlabels_strings": ["a", "b", "c"]}, X.astype(np.float64)),
    linear({"classlabels_ints": [4, 5, 6]}, np.arange(6).reshape(2, 3)),
    *(machine(count, kernel) for count in (2, 3) for kernel in ("LINEAR", "RBF", "POLY", "SIGMOID")),
    machine(3, "RBF", classlabels_ints=[], classlabels_strings=["x", "y", "z"]),
    case(
        "SVMRegressor",
        X,
        n_supports=4,
        coefficients=floats(4, 4).tolist(),
        kernel_type="RBF",
        **SUPPORTS,
    ),
    case("SVMRegressor", X, n_supports=4, one_class=1, coefficients=floats(4, 4).tolist(), **SUPPORTS),
    case("SVMRegressor", X, coefficients=[0.5, 1.0, -1.0], rho=[0.25], kernel_params=[0.0, 0.0, 0.0]),
]


def test_onnxruntime_agrees(tmp_path: Path) -> None:
    wrong, compared = disagreements(CASES, tmp_path)
    assert not wrong
    assert compared == len(CASES)


ONE = np.array([1])
DECLINED = [
    ("onnxruntime refuses NaN", case("Binarizer", np.array([NAN], np.float32))),
    ("norm of negative numbers", case("Normalizer", X, norm="MAX")),
    ("norm of negative numbers", case("Normalizer", X, norm="L1")),
    ("not in the operator text", case("Normalizer", X, norm="L3")),
    (
        "does not find the key NaN",
        case("LabelEncoder", np.array([NAN], np.float32), version=2, keys_floats=[NAN], values_int64s=[3]),
    ),
    ("two values for the key 1", case("LabelEncoder", ONE, version=4, keys_int64s=[1, 1], values_int64s=[3, 4])),
    ("2 keys for 1 values", case("LabelEncoder", ONE, version=4, keys_int64s=[1, 2], values_int64s=[3])),
    ("keys of another type", case("LabelEncoder", ONE, version=4, keys_strings=["a"], values_int64s=[3])),
    ("one of keys", case("LabelEncoder", ONE, version=4, values_int64s=[3])),
    ("not among its own", case("OneHotEncoder", ONE, cats_int64s=[2], zeros=0)),
    ("categories of one type", case("OneHotEncoder", ONE)),
    ("no integer stands for", case("OneHotEncoder", np.array([NAN], np.float32), cats_int64s=[2])),
    ("of the type of its input", case("Imputer", X, imputed_value_int64s=[1])),
    ("features of one axis", case("FeatureVectorizer", X[0], inputdimensions=[3])),
    ("other sizes than it states", case("FeatureVectorizer", X, inputdimensions=[2])),
    (
        "one score means for two classes",
        case(
            "LinearClassifier",
            X,
            outputs=("label", "y"),
            coefficients=[1.0] * 3,
            intercepts=[0.5],
            classlabels_ints=[0, 1],
        ),
    ),
    (
        "compared before post_transform",
        case(
            "LinearClassifier",
            -np.abs(X[:, :1]) - 1,
            outputs=("label", "y"),
            coefficients=[0.0, 1.0],
            intercepts=[0.0, 0.0],
            classlabels_ints=[0, 1],
            post_transform="SOFTMAX_ZERO",
        ),
    ),
    (
        "of one target, which runtimes leave out",
        case("LinearRegressor", X, coefficients=[1.0] * 3, post_transform="LOGISTIC"),
    ),
    ("as many coefficients", case("LinearRegressor", X, coefficients=[1.0] * 4)),
    ("two classes without negative", machine(2, "LINEAR", coefficients=[1.0] * 4)),
    ("precision of .5 %", machine(2, "LINEAR", prob_a=[1.0], prob_b=[0.0])),
    ("linear scores choose", machine(2, "LINEAR", vectors_per_class=[])),
    ("no one meaning", machine(2, "LINEAR", post_transform="PROBIT")),
    ("no one meaning", case("SVMRegressor", X, coefficients=[1.0] * 3, rho=[0.0], post_transform="LOGISTIC")),
    ("degree that is no integer", machine(3, "POLY", kernel_params=[0.5, 0.25, 2.5])),
    ("a place beyond 3 features", case("ArrayFeatureExtractor", X, np.array([3]))),
    ("numbers for", case("Scaler", X, offset=[1.0, 2.0], scale=[1.0])),
    ("ZipMap", case("ZipMap", X, classlabels_int64s=[1, 2, 3])),
]


@pytest.mark.parametrize(("why", "declined"), DECLINED, ids=lambda item: item if isinstance(item, str) else "")
def test_what_has_no_one_meaning_is_declined(why: str, declined: Case) -> None:
    model, feeds = declined
    with pytest.raises(reference.CannotEvaluate, match=why):
        reference.evaluate(ir.load(model), feeds)


def test_numbers_are_compared_as_the_file_stores_them() -> None:
    """A feature that is computed in float64 ties with a threshold as a float32 does."""
    model, _ = case("Binarizer", np.array([0.1], np.float32), threshold=0.1)
    (found,) = reference.evaluate(ir.load(model), {"x0": np.array([0.1 + 1e-9])}).values()
    assert found == [0.0]


def test_defaults_of_tensors() -> None:
    x = np.array([1, 2], np.int32)

    tensor = onnx.numpy_helper.from_array
    attrs = {"keys_tensor": tensor(np.array([1], np.int32)), "values_tensor": tensor(np.array([7], np.int16))}
    for more, default in (({}, -1), ({"default_tensor": tensor(np.array([4], np.int16))}, 4)):
        model, feeds = case("LabelEncoder", x, version=4, **attrs, **more)
        assert next(iter(reference.evaluate(ir.load(model), feeds).values())).tolist() == [7, default]
