"""Operators whose result is random: there is nothing to compare, and the evaluation says so."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

from typing import NoReturn

from bnfold.reference.precision import Datum
from bnfold.reference.registry import Call, Randomness, kernel

_VERSIONS = {
    "Bernoulli": (15, 22),
    "Multinomial": (7, 22),
    "RandomNormal": (1, 22),
    "RandomNormalLike": (1, 22),
    "RandomUniform": (1, 22),
    "RandomUniformLike": (1, 22),
}


def draw(call: Call, *inputs: Datum) -> NoReturn:
    """Refuse, whether a seed is given or not: no text says which generator the seed is for."""
    raise Randomness("it draws random numbers")


for _op, _versions in _VERSIONS.items():
    kernel(_op, *_versions)(draw)
