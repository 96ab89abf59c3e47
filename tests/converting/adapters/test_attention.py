from collections.abc import Callable
from typing import Any

import pytest

Lowered = Callable[..., Any]
Text = Callable[..., str]
FOUR = "float[2, 3, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 6] v"
THREE = "float[2, 4, 24] q, float[2, 5, 24] k, float[2, 5, 18] v"


@pytest.mark.parametrize("target", [22, 17, 12, 11])
@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [(FOUR, ""), (FOUR, "<is_causal = 1>"), (FOUR, "<scale = 0.3>"),
     (THREE, "<q_num_heads = 3, kv_num_heads = 3>"), (THREE, "<q_num_heads = 3, kv_num_heads = 3, is_causal = 1>")],
)  # fmt: skip
def test_plain_attention(lowered: Lowered, text: Text, inputs: str, attributes: str, target: int) -> None:
    rank = 4 if inputs == FOUR else 3
    outputs = "float[2, 3, 4, 6] y" if rank == 4 else "float[2, 4, 18] y"
    ops = lowered(text(23, inputs, f"y = Attention {attributes} (q, k, v)", outputs=outputs), target).ops
    assert len(ops) <= (7 if rank == 4 else 15)


@pytest.mark.parametrize(
    ("inputs", "node"),
    [(f"{FOUR}, float[4, 5] m", "Attention (q, k, v, m)"), (f"{FOUR}, bool[4, 5] m", "Attention (q, k, v, m)"),
     (FOUR, "Attention <softcap = 2.0> (q, k, v)"),
     ("float[2, 6, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 6] v", "Attention (q, k, v)")],
)  # fmt: skip
@pytest.mark.parametrize("target", [17, 13])
def test_other_attention_has_a_body(lowered: Lowered, text: Text, inputs: str, node: str, target: int) -> None:
    heads = 6 if "6, 4, 8" in inputs else 3
    ops = lowered(text(23, inputs, f"y = {node}", outputs=f"float[2, {heads}, 4, 6] y"), target).ops
    assert "Attention" not in ops
    assert len(ops) > 20
