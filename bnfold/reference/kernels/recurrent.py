"""RNN, GRU and LSTM. Source: their operator texts; layout 0 is (sequence, batch, …) throughout.

The first output is computed whether ``output_sequence``, which ended with version 7, asks for it or not. GRU-1's
default direction is misspelt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bnfold.ir.elements import Array
from bnfold.ir.time_limit import look_at_clock
from bnfold.reference.kernels.activation import curve
from bnfold.reference.kernels.window import Index
from bnfold.reference.precision import Datum
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, kernel, require

ActivationFunction = Callable[[Array], Array]
RecurrentStep = Callable[[Call, "Direction", Array, Array, Array], tuple[Array, Array]]
"""(…, gate inputs X·Wᵀ + bias of one time step, hidden state, cell state) -> the next two states."""


class Direction(NamedTuple):
    """One direction's recurrence weights (gates·H, H), recurrence bias (gates·H), peepholes (3·H), activations."""

    size: int
    recurrence: Array
    bias: Array
    peepholes: Array
    activations: tuple[ActivationFunction, ...]
    clip: float

    def bounded(self, gates: Array) -> Array:
        """Return the gates within the limits of ``clip``, where there are some."""
        return gates if self.clip == np.inf else np.clip(gates, -self.clip, self.clip)


_ACTIVATIONS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), ()),
    "HardSigmoid": (float(np.float32(0.2)), 0.5),
    "LeakyRelu": (float(np.float32(0.01)),),
    "Elu": (1.0,),
}
"""Those that texts name, with the defaults of alpha and beta."""


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> ActivationFunction:
    """Return the named function; alpha and beta are taken, in order, by the functions that have them."""
    found = next((op for op in _ACTIVATIONS if op.lower() == name.lower()), None)
    if found is None:
        raise KernelDeclined(f"activation {name!r}")
    given = [next(*pair) for pair in zip((alphas, betas), _ACTIVATIONS[found], strict=False)]
    return lambda x: curve(found)(x, *given)


def _directions(
    call: Call, r: Array, bias: Array, peepholes: Array, defaults: tuple[str, ...]
) -> Iterator[tuple[Direction, bool]]:
    """Yield what belongs to each direction, and whether it runs backwards."""
    wanted = call.attr("direction")
    backwards = {"reverse": (True,), "bidirectional": (False, True)}.get(wanted, (False,))
    require(len(backwards) == r.shape[0], f"direction {wanted!r} with weights for {r.shape[0]} directions")
    names = call.attr("activations") or defaults * len(backwards)
    alphas, betas = iter(call.attr("activation_alpha") or ()), iter(call.attr("activation_beta") or ())
    functions = [_activation(name, alphas, betas) for name in names]
    share = len(defaults)
    for place, back in enumerate(backwards):
        half = bias.shape[1] // 2
        chosen = tuple(functions[place * share : (place + 1) * share])
        limit = call.attr("clip", np.inf)
        yield Direction(r.shape[2], r[place], bias[place, half:], peepholes[place], chosen, limit), back


def _run(
    call: Call,
    tensors: Sequence[Array | None],
    gates: int,
    defaults: tuple[str, ...],
    step: RecurrentStep,
) -> tuple[Array, Array, Array]:
    """Compute Y (sequence, directions, batch, H) and the last hidden and cell states (directions, batch, H)."""
    slots: list[Datum] = [*tensors, *[None] * (8 - len(tensors))]
    x, w, r, b, lengths, hidden, cell, peepholes = slots
    swapped = bool(call.attr("layout", 0))
    x = x.swapaxes(0, 1) if swapped else x
    size, count = call.attr("hidden_size", r.shape[2]), r.shape[0]
    rows, state = (count, gates * size), (x.shape[1], count, size) if swapped else (count, x.shape[1], size)
    ends = ((count, 2 * gates * size), x.shape[1:2], state, state, (count, 3 * size))
    for slot, shape in zip(slots[1:], ((*rows, x.shape[2]), (*rows, size), *ends), strict=True):
        require(slot is None or slot.shape == shape, f"an input of shape {np.shape(slot)}, where {shape} is to be")
    steps = np.full(x.shape[1], x.shape[0]) if lengths is None else lengths
    require(((steps >= 0) & (steps <= x.shape[0])).all(), f"sequence lengths {steps} of {x.shape[0]}")
    bias = np.zeros((count, 2 * gates * size), x.dtype) if b is None else b
    peeps = np.zeros((count, 3 * size), x.dtype) if peepholes is None else peepholes
    y = np.zeros((x.shape[0], count, x.shape[1], size), x.dtype)
    states = [_initial(value, (count, x.shape[1], size), x, swapped) for value in (hidden, cell)]
    for place, (direction, back) in enumerate(_directions(call, r, bias, peeps, defaults)):
        inputs = x @ w[place].T + bias[place, : gates * size]
        for time in range(x.shape[0]):
            look_at_clock()
            items: Index = slice(None) if lengths is None else np.flatnonzero(time < steps)
            ends_at: Index = x.shape[0] if lengths is None else steps[items]
            spots = ends_at - 1 - time if back else time
            news = step(call, direction, inputs[spots, items], states[0][place, items], states[1][place, items])
            states[0][place, items], states[1][place, items] = news
            y[spots, place, items] = news[0]
    if swapped:
        return y.transpose(2, 0, 1, 3), states[0].swapaxes(0, 1), states[1].swapaxes(0, 1)
    return y, states[0], states[1]


def _initial(value: Array | None, shape: tuple[int, ...], x: Array, swapped: bool) -> Array:
    """Compute A state to write into: a copy of the given one, or zeros."""
    if value is None:
        return np.zeros(shape, x.dtype)
    return (value.swapaxes(0, 1) if swapped else value).copy()


def _rnn(_: Call, d: Direction, gates: Array, h: Array, c: Array) -> tuple[Array, Array]:
    return d.activations[0](d.bounded(gates + h @ d.recurrence.T + d.bias)), c


@kernel("RNN", 1, 7, 14, 22)
def rnn(call: Call, *tensors: Array | None) -> KernelResult:
    """Compute H = f(X·Wᵀ + H·Rᵀ + bias)."""
    return _run(call, tensors, 1, ("Tanh",), _rnn)[:2]


def _gru(call: Call, d: Direction, gates: Array, h: Array, c: Array) -> tuple[Array, Array]:
    n = 2 * d.size
    both = d.activations[0](d.bounded(gates[:, :n] + h @ d.recurrence[:n].T + d.bias[:n]))
    z, r = both[:, : d.size], both[:, d.size :]
    if call.attr("linear_before_reset"):
        inner = r * (h @ d.recurrence[n:].T + d.bias[n:])
    else:
        inner = (r * h) @ d.recurrence[n:].T + d.bias[n:]
    new = d.activations[1](d.bounded(gates[:, n:] + inner))
    return (1 - z) * new + z * h, c


@kernel("GRU", 1, 3, 7, 14, 22)
def gru(call: Call, *tensors: Array | None) -> KernelResult:
    """Run a GRU of gates z, r, h; H = (1 − z)·h + z·H. ``linear_before_reset`` resets after the product."""
    return _run(call, tensors, 3, ("Sigmoid", "Tanh"), _gru)[:2]


def _lstm(call: Call, d: Direction, gates: Array, h: Array, c: Array) -> tuple[Array, Array]:
    p_i, p_o, p_f = np.split(d.peepholes, 3)
    i, o, f, g = np.split(gates + h @ d.recurrence.T + d.bias, 4, 1)
    i = d.activations[0](d.bounded(i + p_i * c))
    f = 1 - i if call.attr("input_forget") else d.activations[0](d.bounded(f + p_f * c))
    c = f * c + i * d.activations[1](d.bounded(g))
    o = d.activations[0](d.bounded(o + p_o * c))
    return o * d.activations[2](c), c


@kernel("LSTM", 1, 7, 14, 22)
def lstm(call: Call, *tensors: Array | None) -> KernelResult:
    """Run an LSTM of gates i, o, f, c, peepholes i, o, f; C = f·C + i·c, H = o·h(C); ``input_forget``: f = 1 − i."""
    return _run(call, tensors, 4, ("Sigmoid", "Tanh", "Tanh"), _lstm)
