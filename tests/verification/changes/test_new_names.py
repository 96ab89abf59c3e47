"""What both models compute in the same way gets one name, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

import bnfold
from bnfold import ir
from bnfold.verification.changes.new_names import with_original_names
from tests.verification.graphs import Weights, model

HEAD = "(float[N,3] x, bool c) => (float[M,3] y)"
WEIGHTS = {
    "c3": np.array([3]),
    "w": np.ones((3, 3)),
    "v": np.full((3, 3), 2.0),
    "one": np.array(1.0),
    "two": np.array(2.0),
    "zero": np.array(0.0),
}


def renamed(before: str, after: str, more: Weights | None = None) -> dict[str, str]:
    """Return the names that nodes of the second model got, by those that they had."""
    weights = {**WEIGHTS, **(more or {})}
    old, new = (ir.load(model(f"{HEAD} {{ {text} }}", weights)) for text in (before, after))
    given = with_original_names(old, new, by_others=True)
    names = [[node.proto.output[0] for node in each.nodes()] for each in (new, given)]
    return {name: other for name, other in zip(*names, strict=True) if name != other}


def test_a_chain_under_other_names_gets_its_own_again() -> None:
    before = "a = MatMul (x, w)  b = Exp (a)  d = Neg (b)  y = Abs (d)"
    assert renamed(before, "p = MatMul (x, w)  q = Exp (p)  y = Relu (q)") == {"p": "a", "q": "b"}


def test_constants_tell_alike_nodes_apart() -> None:
    before = "a = MatMul (x, w)  b = MatMul (x, v)  y = Sub (a, b)"
    assert renamed(before, "p = MatMul (x, v)  q = MatMul (x, w)  y = Sub (q, p)") == {"p": "b", "q": "a"}


def test_a_neutral_step_is_none() -> None:
    before = "a = Exp (x)  s = Mul (a, one)  b = Neg (s)  y = Abs (b)"
    assert renamed(before, "p = Exp (x)  q = Neg (p)  y = Relu (q)") == {"p": "a", "q": "b"}
    other = before.replace("one", "two")
    assert renamed(other, "p = Exp (x)  q = Neg (p)  y = Relu (q)") == {"p": "a"}


def test_what_reads_another_value_of_the_same_name_keeps_its_name() -> None:
    before = "a = Exp (x)  b = Neg (a)  d = Abs (b)  y = Relu (d)"
    assert renamed(before, "a = Sin (x)  q = Neg (a)  r = Abs (q)  y = Sqrt (r)") == {}


def test_draws_keep_their_names() -> None:
    before = "a = RandomNormalLike (x)  b = Neg (a)  y = Add (x, b)"
    assert renamed(before, "p = RandomNormalLike (x)  q = Neg (p)  y = Add (x, q)") == {}


@pytest.mark.parametrize("inner", ["Neg", "Abs"])
def test_bodies_count(inner: str) -> None:
    text = (
        "{a} = Exp (x)  {i} = If (c) <then_branch = t () => (float[A,B] {t}) {{ {t} = Neg ({a}) }},"
        " else_branch = e () => (float[A,B] {e}) {{ {e} = %s ({a}) }}>  y = %s ({i})"
    )
    old, new = (dict.fromkeys("aite") for _ in range(2))
    before = (text % ("Neg", "Abs")).format(**{name: name for name in old})
    after = (text % (inner, "Relu")).format(**{name: f"n{name}" for name in new})
    is_same = inner == "Neg"
    assert renamed(before, after) == ({"na": "a", "ni": "i", "nt": "t", "ne": "e"} if is_same else {"na": "a"})


def test_no_name_is_given_twice() -> None:
    before = "a = Exp (x)  y = Neg (a)"
    assert renamed(before, "p = Exp (x)  q = Exp (x)  y = Sub (p, q)") == {"p": "a"}


def test_a_fault_behind_aligned_names_is_found() -> None:
    before = "a = MatMul (x, w)  b = Exp (a)  y = Add (b, one)"
    after = "p = MatMul (x, w)  q = Exp (p)  y = Add (q, {})"
    texts = before, after.format("one"), after.format("two")
    first, right, wrong = (model(f"{HEAD} {{ {text} }}", WEIGHTS) for text in texts)
    assert bnfold.verify(first, right).verified
    assert bnfold.verify(first, wrong).status == "failed"


def test_kinds_of_nodes_are_told_apart() -> None:
    """A constant input is no second output, and of two scans one reads backwards."""
    before = "a, b = Split <axis = 1> (x)  y = Add (a, b)"
    assert renamed(before, "p = Split <axis = 1> (x, c3)  y = Neg (p)") == {}
    text = (
        "n = Scan <body = g (float[A] {i}) => (float[B] {o}) {{ {o} = Neg ({i}) }}, num_scan_inputs = 1,"
        " scan_input_directions = [%d]> (x)  y = %s (n)"
    )
    before = (text % (0, "Abs")).format(i="i", o="o")
    for direction in (0, 1):
        after = (text % (direction, "Relu")).format(i="j", o="p").replace("n = ", "m = ").replace("(n)", "(m)")
        assert renamed(before, after) == ({} if direction else {"m": "n", "p": "o"})


@pytest.mark.parametrize(
    ("end", "is_step"),
    [
        ("Abs (b)", False),
        ("Sqrt (b)", False),
        ("Div (b, two)", False),
        ("Div (x, b)", True),
        ("Reciprocal (b)", True),
        ("Pow (b, w)", True),
    ],
)
def test_an_add_of_zero_is_a_step_in_front_of_a_pole(end: str, is_step: bool) -> None:
    """-0.0 + 0.0 is 0.0, and a division shows the sign."""
    before = f"a = Exp (x)  s = {{}} (a, zero)  b = Neg (s)  y = {end}"
    after = "p = Exp (x)  q = Neg (p)  y = Relu (q)"
    assert renamed(before.format("Sub"), after) == {"p": "a", "q": "b"}
    assert renamed(before.format("Add"), after) == ({"p": "a"} if is_step else {"p": "a", "q": "b"})


def test_branches_may_be_listed_in_any_order() -> None:
    branches = "then_branch = t () => (float[A,B] {t}) {{ {t} = Neg ({a}) }}"
    others = "else_branch = e () => (float[A,B] {e}) {{ {e} = Abs ({a}) }}"
    before = f"a = Exp (x)  i = If (c) <{branches}, {others}>  y = Neg (i)".format(a="a", t="t", e="e")
    after = f"p = Exp (x)  q = If (c) <{others}, {branches}>  y = Relu (q)".format(a="p", t="nt", e="ne")
    assert renamed(before, after) == {"p": "a", "q": "i", "nt": "t", "ne": "e"}


def test_a_constant_that_follows_from_sizes_may_be_stored() -> None:
    before = "s = Shape (x)  g = Gather (s, at)  z = Slice (long, from, g)  a = Add (z, x)  b = Neg (a)  y = Abs (b)"
    after = "p = Add (three, x)  q = Neg (p)  y = Relu (q)"
    stored = {"long": np.arange(7.0), "three": np.arange(3.0), "at": np.array([1]), "from": np.array([0])}
    assert renamed(before, after, stored) == {"p": "a", "q": "b"}
    assert renamed(before, after, {**stored, "three": np.arange(3.0)[::-1]}) == {}
    filled = before.replace("z = Slice (long,", "f = ConstantOfShape <value = float[1] {0.1}> (g)  z = Slice (f,")
    for number, names in ((0.1, {"p": "a", "q": "b"}), (0.2, {})):
        assert renamed(filled, after, {**stored, "three": np.full(3, number)}) == names


def test_what_follows_an_output_gets_its_names() -> None:
    """An output keeps its meaning with its name, however it is computed; another value may be a new one."""
    head, text = "(float[N,3] x) => (float[N,3] y, float[N,3] z)", "{}  p = Exp (z)  q = Neg (p)  y = Relu (q)"
    before = "z = Add (x, one)  a = Exp (z)  b = Neg (a)  y = Abs (b)"
    for named, expected in (("z = Sub (x, two)", ["z", "a", "b", "y"]), ("z = Add (x, one)", ["z", "a", "b", "y"])):
        texts = before, text.format(named)
        old, new = (ir.load(model(f"{head} {{ {each} }}", WEIGHTS)) for each in texts)
        assert [node.proto.output[0] for node in with_original_names(old, new, by_others=True).nodes()] == expected
    hidden = head.replace(", float[N,3] z", "")
    old, new = (ir.load(model(f"{hidden} {{ {each} }}", WEIGHTS)) for each in (before, text.format("z = Sub (x, two)")))
    assert [node.proto.output[0] for node in with_original_names(old, new, by_others=True).nodes()] == [
        "z",
        "p",
        "q",
        "y",
    ]


def test_a_comparison_does_not_show_the_sign_of_a_zero() -> None:
    before = "a = Exp (x)  s = Add (a, zero)  b = {} (s, one)  d = Abs (b)  e = Div (x, b)  y = Add (d, e)"
    after = "p = Exp (x)  q = {} (p, one)  r = Abs (q)  y = Neg (r)"
    assert renamed(before.format("Less"), after.format("Less")) == {"p": "a", "q": "b", "r": "d"}
    assert renamed(before.format("Max"), after.format("Max")) == {"p": "a"}
