"""BatchNormalization and its relatives against formulas in long double, written out independently of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bnfold import reference
from bnfold.errors import Unsupported
from tests.reference.models import Array, compute, compute_all, floats

EVERY = (1, 5, 6, 7, 8, 9, 13, 14, 15, 21)
FIVE = ("y", "mean", "var", "saved_mean", "saved_var")
EPSILON, MOMENTUM = float(np.float32(0.03)), float(np.float32(0.7))
ATTRS: dict[str, Any] = {"epsilon": EPSILON, "momentum": MOMENTUM}


def parameters(seed: int, *shape: int) -> list[Array]:
    """Scale (of both signs), B, mean, variance."""
    return [
        floats(seed, *shape),
        floats(seed + 1, *shape),
        floats(seed + 2, *shape),
        np.abs(floats(seed + 3, *shape)) + 0.1,
    ]


def formula(x: Array, scale: Array, b: Array, mean: Array, var: Array) -> Array:
    """The affine form y = s·x + t, in long double."""
    x, scale, b, mean, var = (value.astype(np.longdouble) for value in (x, scale, b, mean, var))
    s = scale / np.sqrt(var + np.longdouble(EPSILON))
    return np.asarray(s * x + (b - mean * s))


def per_channel(value: Array, rank: int) -> Array:
    return value.reshape((-1, *[1] * (rank - 2)))


def close(actual: Array, expected: Array) -> None:
    np.testing.assert_allclose(actual, expected.astype(np.float64), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 4), (3, 5, 4, 2), (2, 5, 3, 4, 6)])
@pytest.mark.parametrize("opset", EVERY)
def test_inference(opset: int, shape: tuple[int, ...]) -> None:
    x, p = floats(1, *shape), parameters(2, 5)
    said = {"is_test": 1} if opset < 7 else {}
    expected = formula(x, *(per_channel(value, len(shape)) for value in p))
    close(compute("BatchNormalization", opset, [x, *p], **ATTRS, **said), expected)


def test_rank_one_is_a_batch_of_one_channel() -> None:
    x, p = floats(1, 6), parameters(2, 1)
    close(compute("BatchNormalization", 15, [x, *p], **ATTRS), formula(x, *p))


def test_parameters_of_another_type() -> None:
    x, p = floats(1, 2, 3, 4).astype(np.float16), parameters(2, 3)
    close(compute("BatchNormalization", 15, [x, *p], **ATTRS), formula(x, *(per_channel(v, 3) for v in p)))


def test_default_epsilon_is_the_float32() -> None:
    x, one, zero = floats(1, 2, 3), np.ones(3, np.float32), np.zeros(3, np.float32)
    y = compute("BatchNormalization", 9, [x, one, zero, zero, zero])
    np.testing.assert_allclose(y, x.astype(np.float64) / np.sqrt(float(np.float32(1e-5))), rtol=1e-15)


def trained(x: Array, p: Sequence[Array], axes: tuple[int, ...]) -> list[Array]:
    """All five outputs of training in long double; scale and B broadcast onto x."""
    scale, b, mean, var = p
    wide = x.astype(np.longdouble)
    count = np.prod([x.shape[axis] for axis in axes])
    current = wide.sum(axes, keepdims=True) / count
    spread = ((wide - current) ** 2).sum(axes, keepdims=True) / count
    running = [
        old.astype(np.longdouble) * MOMENTUM + new * (1 - MOMENTUM)
        for old, new in ((mean, current.reshape(mean.shape)), (var, spread.reshape(var.shape)))
    ]
    y = (wide - current) / np.sqrt(spread + EPSILON) * scale + b
    return [y, *running, current.reshape(mean.shape), spread.reshape(var.shape)]


@pytest.mark.parametrize("opset", [1, 6, 7, 8, 9, 13])
def test_training_with_five_outputs(opset: int) -> None:
    x, p = floats(1, 3, 4, 2, 5), parameters(2, 4)
    expected = trained(x, [*(per_channel(v, 4) for v in p[:2]), *p[2:]], (0, 2, 3))
    for actual, wanted in zip(compute_all("BatchNormalization", opset, [x, *p], FIVE, **ATTRS), expected, strict=True):
        close(actual, wanted)


@pytest.mark.parametrize("opset", [14, 15])
def test_training_with_three_outputs(opset: int) -> None:
    x, p = floats(1, 3, 4, 2, 5), parameters(2, 4)
    expected = trained(x, [*(per_channel(v, 4) for v in p[:2]), *p[2:]], (0, 2, 3))[:3]
    actual = compute_all("BatchNormalization", opset, [x, *p], FIVE[:3], training_mode=1, **ATTRS)
    for one, wanted in zip(actual, expected, strict=True):
        close(one, wanted)


def test_the_fifth_output_can_be_what_onnxruntime_returns() -> None:
    x, p = floats(1, 3, 4, 5), parameters(2, 4)
    variance = compute_all("BatchNormalization", 9, [x, *p], FIVE, **ATTRS)[4]
    policy = reference.Policy(saved_var="inv-std")
    inverse = compute_all("BatchNormalization", 9, [x, *p], FIVE, policy=policy, **ATTRS)[4]
    close(inverse, 1 / np.sqrt(variance + EPSILON))


@pytest.mark.parametrize("opset", [1, 6, 7])
def test_spatial_0_with_a_parameter_for_every_activation(opset: int) -> None:
    x, p = floats(1, 3, 4, 2, 5), parameters(2, 4, 2, 5)
    said = {"is_test": 1} if opset < 7 else {}
    expected = formula(x, *p)
    close(compute("BatchNormalization", opset, [x, *p], spatial=0, **ATTRS, **said), expected)
    flat = [value.reshape(-1) for value in p]
    close(compute("BatchNormalization", opset, [x, *flat], spatial=0, **ATTRS, **said), expected)


def test_spatial_0_with_a_parameter_for_every_channel_is_an_exporters_mistake() -> None:
    x, p = floats(1, 3, 4, 2, 5), parameters(2, 4)
    expected = formula(x, *(per_channel(v, 4) for v in p))
    close(compute("BatchNormalization", 7, [x, *p], spatial=0, **ATTRS), expected)


def test_training_of_every_activation() -> None:
    x, p = floats(1, 3, 4, 2, 5), parameters(2, 4, 2, 5)
    expected = trained(x, p, (0,))
    actual = compute_all("BatchNormalization", 7, [x, *p], FIVE, spatial=0, **ATTRS)
    for one, wanted in zip(actual, expected, strict=True):
        close(one, wanted)


def inference(x: Array, p: list[Array]) -> Array:
    return formula(x, *(per_channel(v, x.ndim) for v in p))


def training(x: Array, p: list[Array]) -> Array:
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    return trained(x, [*(per_channel(v, x.ndim) for v in p[:2]), *p[2:]], axes)[0]


@pytest.mark.parametrize(
    ("opset", "said", "policy", "expected"),
    [
        (6, {}, reference.Policy(), inference),
        (6, {}, reference.Policy(legacy_mode="inference"), inference),
        (6, {}, reference.Policy(legacy_mode="training"), training),
        (6, {"is_test": 0}, reference.Policy(), training),
        (6, {"is_test": 0}, reference.Policy(legacy_mode="inference"), training),
        (6, {"is_test": 1}, reference.Policy(legacy_mode="training"), inference),
        (9, {}, reference.Policy(legacy_mode="training"), inference),
        (9, {"is_test": 0}, reference.Policy(), training),
        (15, {"is_test": 1}, reference.Policy(), inference),
        (15, {"training_mode": 1}, reference.Policy(), training),
        (15, {"training_mode": 1}, reference.Policy(force_inference=True), inference),
        (6, {"is_test": 0}, reference.Policy(force_inference=True), inference),
    ],
)
def test_mode(opset: int, said: dict[str, int], policy: reference.Policy, expected: Any) -> None:
    x, p = floats(1, 3, 4, 5), parameters(2, 4)
    y = compute_all("BatchNormalization", opset, [x, *p], ("y",), policy=policy, **ATTRS, **said)[0]
    close(y, expected(x, p))


def test_named_but_unwanted_outputs_are_training_up_to_version_9() -> None:
    x, p = floats(1, 3, 4, 5), parameters(2, 4)
    y = compute_all("BatchNormalization", 9, [x, *p], ("y", "", "", "", ""), **ATTRS)[0]
    close(y, inference(x, p))
    y = compute_all("BatchNormalization", 9, [x, *p], ("y", "mean", "", "", ""), **ATTRS)[0]
    close(y, training(x, p))


@pytest.mark.parametrize(
    ("opset", "outputs", "said", "reason"),
    [
        (9, ("y", "a", "b"), {}, "1 or 5"),
        (14, FIVE, {"training_mode": 1}, "1 or 3"),
        (15, ("y",), {"is_test": 1, "training_mode": 1}, "contradict"),
        (15, ("y", "a", "b"), {}, "not defined"),
        (6, FIVE, {"is_test": 1}, "not defined"),
    ],
)
def test_what_no_version_allows(opset: int, outputs: tuple[str, ...], said: dict[str, Any], reason: str) -> None:
    with pytest.raises(reference.CannotEvaluate, match=reason) as error:
        compute_all("BatchNormalization", opset, [floats(1, 3, 4, 5), *parameters(2, 4)], outputs, **said)
    assert error.value.op == "BatchNormalization"


def test_parameters_of_activations_in_another_arrangement() -> None:
    x = floats(1, 2, 8, 3, 1)
    with pytest.raises(reference.Misfit, match=r"\(6, 4\)"):
        compute("BatchNormalization", 7, [x, *parameters(2, 6, 4)], spatial=0)
    p = parameters(2, 8, 3, 1)
    led = [value[None] for value in p]
    close(compute("BatchNormalization", 7, [x, *led], spatial=0, **ATTRS), formula(x, *p))


def test_parameters_that_fit_neither_channels_nor_activations() -> None:
    for spatial in (0, 1):
        with pytest.raises(reference.CannotEvaluate, match=r"parameters of shape \(7,\)"):
            compute("BatchNormalization", 7, [floats(1, 3, 4, 5), *parameters(2, 7)], spatial=spatial)


@pytest.mark.parametrize("opset", [1, 6, 22])
def test_instance_normalization(opset: int) -> None:
    x, scale, b = floats(1, 3, 4, 2, 5), floats(2, 4), floats(3, 4)
    wide = x.astype(np.longdouble)
    mean = wide.mean((2, 3), keepdims=True)
    spread = ((wide - mean) ** 2).mean((2, 3), keepdims=True)
    expected = (wide - mean) / np.sqrt(spread + EPSILON) * per_channel(scale, 4) + per_channel(b, 4)
    said = {"consumed_inputs": [0, 0, 0]} if opset == 1 else {}
    close(compute("InstanceNormalization", opset, [x, scale, b], epsilon=EPSILON, **said), expected)


@pytest.mark.parametrize(("opset", "parameters_per"), [(18, "group"), (21, "channel")])
def test_group_normalization(opset: int, parameters_per: str) -> None:
    x = floats(1, 3, 6, 2, 5)
    count = 2 if parameters_per == "group" else 6
    scale, b = floats(2, count), floats(3, count)
    wide = x.reshape(3, 2, -1).astype(np.longdouble)
    mean = wide.mean(2, keepdims=True)
    spread = ((wide - mean) ** 2).mean(2, keepdims=True)
    plain = ((wide - mean) / np.sqrt(spread + EPSILON)).reshape(x.shape)
    full = [np.repeat(value, 6 // count).reshape(-1, 1, 1) for value in (scale, b)]
    actual = compute("GroupNormalization", opset, [x, scale, b], num_groups=2, epsilon=EPSILON)
    close(actual, plain * full[0] + full[1])


def test_local_response_normalization_sees_more_channels_behind_than_before() -> None:
    x = floats(1, 2, 7, 3)
    wide = x.astype(np.longdouble)
    y = np.empty_like(wide)
    for c in range(7):
        window = wide[:, max(0, c - 1) : min(6, c + 2) + 1]
        y[:, c] = wide[:, c] / (2 + np.longdouble(0.5) / 4 * (window**2).sum(1)) ** np.longdouble(0.75)
    close(compute("LRN", 13, [x], size=4, alpha=0.5, beta=0.75, bias=2.0), y)


def test_rms_normalization() -> None:
    x, scale = floats(1, 2, 3, 4), floats(2, 3, 4)
    wide = x.astype(np.longdouble)
    expected = wide / np.sqrt((wide**2).mean((1, 2), keepdims=True) + EPSILON) * scale
    close(compute("RMSNormalization", 23, [x, scale], axis=1, epsilon=EPSILON), expected)


def test_mean_variance_normalization() -> None:
    x = floats(1, 2, 3, 4, 5)
    for attrs, axes in (({}, (0, 2, 3)), ({"axes": [1, 3]}, (1, 3))):
        wide = x.astype(np.longdouble)
        expected = (wide - wide.mean(axes, keepdims=True)) / (wide.std(axes, keepdims=True) + np.float32(1e-9))
        close(compute("MeanVarianceNormalization", 13, [x], **attrs), expected)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization_leaves_zeros(p: int) -> None:
    x = floats(1, 2, 3, 4)
    x[1, :, 2] = 0
    norm = (np.abs(x.astype(np.longdouble)) ** p).sum(1, keepdims=True) ** (np.longdouble(1) / p)
    expected = np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))
    close(compute("LpNormalization", 1, [x], axis=1, p=p), expected)


def test_layer_normalization_and_its_statistics() -> None:
    x, scale, b = floats(1, 2, 3, 4), floats(2, 3, 4), floats(3, 3, 4)
    wide = x.astype(np.longdouble)
    mean, spread = wide.mean((1, 2), keepdims=True), wide.var((1, 2), keepdims=True)
    inverse = 1 / np.sqrt(spread + EPSILON)
    actual = compute_all("LayerNormalization", 17, [x, scale, b], ("y", "mean", "inverse"), axis=-2, epsilon=EPSILON)
    for one, wanted in zip(actual, ((wide - mean) * inverse * scale + b, mean, inverse), strict=True):
        close(one, wanted)


def test_groups_that_do_not_divide_the_channels() -> None:
    x, scale = floats(1, 2, 6, 4), floats(2, 6)
    with pytest.raises(reference.CannotEvaluate, match="6 channels in 4 groups"):
        compute("GroupNormalization", 21, [x, scale, scale], num_groups=4)
    with pytest.raises(reference.CannotEvaluate, match="6 scales at this version"):
        compute("GroupNormalization", 18, [x, scale, scale], num_groups=2)


def test_as_many_activations_as_channels_are_not_channels() -> None:
    x = floats(0, 3, 8, 4)
    with pytest.raises(reference.Misfit, match=r"parameters of shape \(2, 4\)"):
        compute("BatchNormalization", 8, [x, *parameters(1, 2, 4)], spatial=0)


def test_parameters_of_different_lengths_are_refused() -> None:
    scale, b, mean, _ = parameters(1, 8)
    with pytest.raises(reference.Misfit, match="differ in shape"):
        compute("BatchNormalization", 15, [floats(0, 3, 8, 4), scale, b, mean, np.ones(1, np.float32)])


@pytest.mark.parametrize(("opset", "attrs"), [(7, {"spatial": 2}), (6, {"spatial": -1}), (15, {"training_mode": 2})])
def test_a_truth_that_is_neither_0_nor_1_is_declined(opset: int, attrs: dict[str, int]) -> None:
    with pytest.raises(Unsupported, match="is not in the operator text"):
        compute("BatchNormalization", opset, [np.ones((1, 2, 2)), *[np.ones(2)] * 4], **attrs)
