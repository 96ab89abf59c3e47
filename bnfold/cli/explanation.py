"""What `bnfold explain` says of a code, a rewrite, a verdict or an operator: facts for programs, lines for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby, pairwise
from typing import Any

from bnfold.cli.vocabulary import VOCABULARY, meaning
from bnfold.errors import WrongUsage
from bnfold.report import rewrites
from bnfold.report.reasons import Reason
from bnfold.verification.codes import MEANINGS, WORDS, Code

_WIDTH = 100
ExplainedFacts = dict[str, Any]


def explained(word: str) -> ExplainedFacts:  # noqa: PLR0911 - one a kind of word
    """Return what is known of a reason, of a verdict and its codes, of a rewrite, an operator or a word of the output.

    Raises:
        WrongUsage: It is none of them; the error names what is spelled most like it.
    """
    operators = {name.lower(): name for name in known_operators()}
    if operators.get(word.lower()) == word:  # Range is an operator, range a reason
        return _operator(word)
    code = word.strip("[]").lower().replace("_", "-")
    listed, text = meaning(word)
    reasons = {reason.code: reason for reason in Reason}
    if code in reasons:
        return {**_reason(reasons[code]), **({"also": text} if listed else {})}
    if code in WORDS:
        return _word(code)
    if code in map(str, Code):
        return _finding(Code(code))
    if (rewrite := rewrites.rewrite_named(code, operators.get(code.partition("-")[2], ""))) is not None:
        return _rewrite(rewrite)
    if listed:
        return {"word": listed, "text": text}
    if (name := operators.get(word.lower())) is not None:
        return _operator(name)
    names = {**operators, **{each: each for each in (*reasons, *rewrites.NAMED, *WORDS, *map(str, Code), *VOCABULARY)}}
    near = [names[match] for match in get_close_matches(word.lower(), names, 3)]
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `bnfold explain` lists the codes"
    raise WrongUsage(f"{word!r} is no code, rewrite, operator of ONNX or word of the output{hint}")


def codes() -> ExplainedFacts:
    """Return every reason and code of verification with its sentence, every rewrite, and the words of the output."""
    named = {name: rewrite.general_title for name, rewrite in rewrites.NAMED.items()}
    verdicts = {str(code): MEANINGS[code].text for word in WORDS.values() for code in word.codes}
    reasons = {reason.code: reason.value for reason in Reason}
    return {"codes": reasons, "verification": verdicts, "rewrites": named, "words": dict(VOCABULARY)}


def known_operators() -> list[str]:
    """Return the operators that can be explained: those of ONNX, and others that bnfold folds into."""
    from bnfold.cli.completion import operators
    from bnfold.folding.ops import HANDLERS

    return sorted({*operators(), *HANDLERS})


def lines(facts: ExplainedFacts) -> Iterator[str]:
    """Yield the same facts for people."""
    if "verification" in facts:
        yield from (f"{code:<24}{text}" for code, text in facts["codes"].items())
        for word in WORDS:
            yield from ("", f"A result is {word} (`bnfold explain {word}`):")
            yield from (f"{code:<24}{facts['verification'][code]}" for code in WORDS[word].codes)
        yield ""
        yield from (f"{name:<28}{title}" for name, title in facts["rewrites"].items())
        yield ""
        yield from _wrapped(f"Words of the output that it explains as well: {', '.join(facts['words'])}.")
        yield ""
        yield "bnfold explain CODE says more about one of them, bnfold explain OPERATOR about an operator such as Conv."
        return
    if "word" in facts:
        yield from _wrapped(f"{facts['word']}: {facts['text']}")
        return
    if "verdict" in facts:
        yield from _about_word(facts)
    elif "verdicts" in facts:
        yield from _about_finding(facts)
    elif "rewrite" in facts:
        yield from _about_rewrite(facts)
    else:
        yield from _about_reason(facts) if "code" in facts else _about_operator(facts)


def _rewrite(rewrite: rewrites.Rewrite) -> ExplainedFacts:
    return {
        "rewrite": rewrite.name,
        "title": rewrite.general_title,
        "what": rewrite.what,
        "bitwise": rewrite.is_bitwise,
        "rounds": rewrite.rounds,
        "disable": rewrite.name in rewrites.NAMED,
    }


def _about_rewrite(facts: ExplainedFacts) -> Iterator[str]:
    yield f"{facts['rewrite']}: {facts['title']}"
    yield ""
    yield from _wrapped(facts["what"])
    yield ""
    yield from _wrapped(f"Its result is {rewrites.statement(facts['rounds'])}")
    yield ""
    yield from _wrapped(rewrites.how_to_disable(facts["rewrite"]))


def _word(word: str) -> ExplainedFacts:
    return {"verdict": word, "text": WORDS[word].text, "codes": [_finding(code) for code in WORDS[word].codes]}


def _about_word(facts: ExplainedFacts) -> Iterator[str]:
    yield from _wrapped(f"{facts['verdict']}: {facts['text']}")
    for code in facts["codes"]:
        yield ""
        yield from _about_finding(code)


def _finding(code: Code) -> ExplainedFacts:
    verdicts = [word for word, (_, codes) in WORDS.items() if code in codes]
    return {"code": str(code), "verdicts": verdicts, "text": MEANINGS[code].text, "remedy": MEANINGS[code].remedy}


def _about_finding(facts: ExplainedFacts) -> Iterator[str]:
    yield from _wrapped(f"{facts['code']} ({', '.join(facts['verdicts'])}): {facts['text']}")
    yield from _wrapped(f"What you can do: {facts['remedy']}", "  ") if facts["remedy"] else ()


def _reason(reason: Reason) -> ExplainedFacts:
    from bnfold.report.advice import ADVICE

    advice = ADVICE[reason]
    return {
        "code": reason.code,
        "text": reason.value,
        "meaning": advice.meaning,
        "remedy": advice.remedy,
        "command": advice.command,
        "example": advice.example,
    }


def _about_reason(facts: ExplainedFacts) -> Iterator[str]:
    yield f"{facts['code']}: {facts['text']}"
    yield ""
    yield from _wrapped(facts["meaning"])
    yield ""
    yield from _wrapped(f"What you can do: {facts['remedy']}")
    yield ""
    yield f"Example: `{facts['command']}` gives this reason for the model"
    yield ""
    yield from (f"    {line}" for line in facts["example"].splitlines())
    if "also" in facts:
        yield ""
        yield from _wrapped(f"As a word of tables: {facts['also']}")


def _operator(name: str) -> ExplainedFacts:
    from bnfold.converting import steps
    from bnfold.ir.schemas import schema_of, versions_of
    from bnfold.reference import control, fallback, kernels  # noqa: F401 - importing the kernels registers them
    from bnfold.reference.registry import registered
    from bnfold.verification.tolerance.discontinuities import is_discontinuous

    versions = tuple(each for each in versions_of(name) if not schema_of(name, each).deprecated)
    changes = [steps.steps(name, old, new)[0] for old, new in pairwise(versions)]
    own = {version for _, op, version in registered() if op == name}
    own |= set(versions) if control.runs_bodies(name) else set()
    shared = {*fallback.PROVEN.get(("", name), ()), *fallback.FUNCTIONS.get(("", name), ())}
    return {
        "operator": name,
        "folding": _passing(name),
        "versions": list(versions),
        "conversions": [
            {
                "from": old,
                "to": step.version,
                "how": "blocked" if step.blocked else "rewritten" if step.adapter else "unchanged",
                "why": step.blocked or "",
            }
            for old, step in zip(versions, changes, strict=False)
        ],
        "downgrades": [
            {"from": version, "to": older, "how": steps.way_down(name, version)}
            for version, older in zip(reversed(versions), [*reversed(versions[:-1]), None], strict=False)
            if version > 1
        ],
        "reference": {"own": sorted(own), "onnx": sorted(shared - own)},
        "discontinuous": is_discontinuous(name),
        "bitwise": {
            how: rewrites.conversion(name, decomposed=how == "decomposed").is_bitwise
            for how in ("rewritten", "decomposed")
        },
    }


def _passing(name: str) -> list[ExplainedFacts]:
    """Return how a scale and shift pass an operator, by row of the table: an operator may have several forms."""
    from bnfold.report.advice.passing import ROWS

    found = [(row.title, *row.texts()) for row in ROWS if name in row.operators]
    return [{"form": title, "up": up, "down": down} for title, up, down in found]


def _about_operator(facts: ExplainedFacts) -> Iterator[str]:
    name = facts["operator"]
    yield f"{name}: what bnfold knows of it"
    yield ""
    yield "Folding: how the scale and shift of a BatchNormalization pass it"
    if not facts["folding"]:
        yield "  not at all: a search for weights ends here with the reason no-handler"
    for form in facts["folding"]:
        yield from _wrapped(form["form"], "  ") if form["form"] != name else ()
        yield from _wrapped(f"a BatchNormalization after it: {form['up'] or 'not'}", "    ")
        yield from _wrapped(f"a BatchNormalization before it: {form['down'] or 'not'}", "    ")
    yield ""
    yield from _about_versions(facts)
    yield ""
    yield from _about_verification(facts)


_HOW = {"unchanged": "the node stays as it is", "rewritten": "bnfold rewrites the node", "blocked": "not possible"}

_HOW_DOWN = {
    "unchanged": "the node stays as it is, unless it uses something newer",
    "rewritten": _HOW["rewritten"],
    "decomposed": "bnfold writes it with simpler operators",
    "blocked": _HOW["blocked"],
}


def _about_versions(facts: ExplainedFacts) -> Iterator[str]:
    versions = facts["versions"]
    if not versions:
        yield "Versions: none, it is no operator of ONNX's own"
        return
    yield f"Versions: {_listed(versions)}"
    for how, group in groupby(facts["conversions"], lambda step: (step["how"], step["why"])):
        same = list(group)
        chain = " → ".join(map(str, [same[0]["from"], *(step["to"] for step in same)]))
        yield from _wrapped(f"{chain}: {_HOW[how[0]]}{f': {how[1]}' if how[1] else ''}", "  ")
    for how, group in groupby(facts["downgrades"], lambda step: (step["how"], step["to"] is None)):
        same = list(group)
        lowest = same[-1]["to"] or f"before {same[-1]['from']}"
        chain = " → ".join(map(str, [*(step["from"] for step in same), lowest]))
        yield from _wrapped(f"{chain}: {_HOW_DOWN[how[0]]}", "  ")
    ways = {step["how"] for step in (*facts["conversions"], *facts["downgrades"])}
    for way, what in (("rewritten", "A node that bnfold rewrites"), ("decomposed", "What bnfold writes for it")):
        if way in ways:
            yield f"  {what} is {rewrites.BIT_FOR_BIT if facts['bitwise'][way] else rewrites.UP_TO_ROUNDING}"


def _about_verification(facts: ExplainedFacts) -> Iterator[str]:
    own, shared = facts["reference"]["own"], facts["reference"]["onnx"]
    yield "Verification"
    if own:
        versions = _listed([each for each in own if each]) or "as onnxruntime defines it"
        yield f"  bnfold's own float64 implementation: {versions}"
    if shared:
        yield f"  ONNX's reference implementation, checked: {_listed(shared)}"
    if missing := [each for each in facts["versions"] if each not in {*own, *shared}]:
        yield f"  no implementation that is trusted: {_listed(missing)}; a result that depends on it is unverified"
    if facts["discontinuous"]:
        yield from _wrapped(
            "discontinuous: a tiny difference before it can become a large one behind it, so models are compared at "
            "its inputs, and both go on with the original's values",
            "  ",
        )
    else:
        yield "  continuous: models are compared behind it, within what rounding explains"


def _listed(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions))


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  " if indent else "",
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
