"""Meanings that changed between operator versions."""

from __future__ import annotations

from tests.verification.faults.rewrite import Rewrite
from tests.verification.graphs import Weights, model, numbers, statistics


def upgraded(name: str, opset: int, before: str, after: str, weights: Weights, **wrong: str) -> Rewrite:
    """The same nodes at an old opset and at 15; underscores in the names of faults stand for spaces."""
    old = model(before, weights, opset=opset, ir_version=4)
    faults = {fault.replace("_", " "): model(text, weights, opset=15) for fault, text in wrong.items()}
    return Rewrite(name, old, model(after, weights, opset=15), faults)


def rewrites() -> list[Rewrite]:
    """All of this module."""
    stats = statistics(numbers(20), 4)
    parameters = "x, scale, B, mean, var"
    head = "(float[N,4,H,W] x) => (float[N,4,H,W] y)"
    train = "BatchNormalization <training_mode = 1, momentum = {}>"
    per_activation = statistics(numbers(21), 24)
    block = {name: array.reshape(4, 2, 3) for name, array in per_activation.items()}
    square = "(float[N,4,2,3] x) => (float[N,4,2,3] y)"
    flat = "s = Constant <value_ints = [-1,4,2,3]> ()  f = Flatten (x)  "
    bounds = "l = Constant <value_float = -0.5> ()  h = Constant <value_float = 0.25> ()"
    pad = "(float[N,4,H,W] x) => (float[N,4,P,Q] y) {{ p = Constant <value_ints = [{}]> ()  y = Pad (x, p) }}"
    five = "(float[N,4,H,W] x) => (float[N,4,H,W] y, float[4] m, float[4] v)"
    return [
        upgraded(
            "BatchNormalization-6 in test mode",
            6,
            f"{head} {{ y = BatchNormalization <is_test = 1> ({parameters}) }}",
            f"{head} {{ y = BatchNormalization ({parameters}) }}",
            stats,
            is_test_read_as_training=f"{head} {{ y, m, v = {train.format(0.9)} ({parameters}) }}",
            default_epsilon_changed=f"{head} {{ y = BatchNormalization <epsilon = 1e-3> ({parameters}) }}",
            mean_and_variance_exchanged=f"{head} {{ y = BatchNormalization (x, scale, B, var, mean) }}",
            scale_and_bias_exchanged=f"{head} {{ y = BatchNormalization (x, B, scale, mean, var) }}",
        ),
        Rewrite(
            "BatchNormalization-6 in training mode",
            model(
                f"{five} {{ y, m, v, sm, sv = BatchNormalization <is_test = 0, momentum = 0.7> ({parameters}) }}",
                stats,
                opset=6,
            ),
            model(f"{five} {{ y, m, v = {train.format(0.7)} ({parameters}) }}", stats, opset=15),
            {
                "momentum taken the other way": model(
                    f"{five} {{ y, m, v = {train.format(0.3)} ({parameters}) }}", stats, opset=15
                ),
                "momentum forgotten": model(
                    f"{five} {{ y, m, v = {train.format(0.9)} ({parameters}) }}", stats, opset=15
                ),
                "statistics left as they were": model(
                    f"{five} {{ y, m0, v0 = {train.format(0.7)} ({parameters})"
                    "  m = Identity (mean)  v = Identity (var) }",
                    stats,
                    opset=15,
                ),
            },
            (("x",), ("y", "m", "v")),
        ),
        Rewrite(
            "BatchNormalization-7 per activation",
            model(f"{square} {{ y = BatchNormalization <spatial = 0> ({parameters}) }}", block, opset=7),
            model(
                f"{square} {{ {flat} n = BatchNormalization (f, scale, B, mean, var)  y = Reshape (n, s) }}",
                per_activation,
                opset=15,
            ),
            {
                "parameters laid out by column": model(
                    f"{square} {{ {flat} n = BatchNormalization (f, scale, B, mean, var)  y = Reshape (n, s) }}",
                    {name: array.transpose(1, 2, 0).reshape(-1) for name, array in block.items()},
                    opset=15,
                ),
            },
        ),
        upgraded(
            "Softmax-11 to 13",
            11,
            "(float[N,3,5,2] x) => (float[N,3,5,2] y) { y = Softmax <axis = 2> (x) }",
            "(float[N,3,5,2] x) => (float[N,3,5,2] y)"
            " { s = Shape (x)  f = Flatten <axis = 2> (x)  p = Softmax (f)  y = Reshape (p, s) }",
            {},
            axis_taken_for_one_axis="(float[N,3,5,2] x) => (float[N,3,5,2] y) { y = Softmax <axis = 2> (x) }",
        ),
        upgraded(
            "Clip-6 to 11",
            6,
            f"{head} {{ y = Clip <min = -0.5, max = 0.25> (x) }}",
            f"{head} {{ {bounds}  y = Clip (x, l, h) }}",
            {},
            bounds_exchanged=f"{head} {{ {bounds}  y = Clip (x, h, l) }}",
            upper_bound_lost=f"{head} {{ {bounds}  y = Clip (x, l) }}",
        ),
        upgraded(
            "Pad-2 to 13",
            2,
            "(float[N,4,H,W] x) => (float[N,4,P,Q] y) { y = Pad <pads = [0,0,1,2,0,0,3,1]> (x) }",
            pad.format("0,0,1,2,0,0,3,1"),
            {},
            begins_and_ends_interleaved=pad.format("0,0,0,0,1,3,2,1"),
            begins_and_ends_exchanged=pad.format("0,0,3,1,0,0,1,2"),
        ),
    ]
