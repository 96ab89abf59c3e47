"""Operators that are affines where all other operands are constant."""

from __future__ import annotations

ARITHMETIC = ("Mul", "Add", "Sub", "Div", "Neg")
AFFINE = ("BatchNormalization", *ARITHMETIC)
