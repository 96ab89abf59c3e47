"""What a runtime says of the rewritten model, and of the original if it does not take the rewritten one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import onnx

from bnfold.errors import BnfoldError
from bnfold.verification.changes.boundaries import changed_unseen
from bnfold.verification.codes import Code
from bnfold.verification.comparing.sizes import sizes_of_original
from bnfold.verification.inputs.candidates import candidates
from bnfold.verification.inputs.cost import MOST_BYTES, session_seconds
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.request import RUNTIME_SHARE, Request
from bnfold.verification.runtimes.runtime import RuntimeResult, RuntimeSource, beside, run_until

Ask = Callable[[RuntimeSource, Sequence[DrawnFeeds]], RuntimeResult]
"""Runs a model on samples, or opens it if there are none."""


class RuntimeOpinion(NamedTuple):
    """What a runtime says of the rewritten model; ``text`` is a sentence, or why the runtime could not look.

    ``refused``: the runtime takes the original only. ``too old``: the same, but for an opset, an IR version or an
    operator that the runtime does not have. ``neither``: it takes neither model, for the same reason. ``doubt``: it
    takes neither, for different reasons, or it crashed, or it opens the original but cannot run it. ``not looked``,
    without a text: no runtime was asked for.
    """

    kind: Literal["taken", "refused", "too old", "neither", "doubt", "not looked"] = "taken"
    text: str = ""

    @property
    def code(self) -> Code:
        """What the opinion says of the rewritten model, for programs."""
        codes = {"refused": Code.REFUSED, "too old": Code.TOO_OLD, "not looked": Code.RUNTIME_SILENT}
        return codes.get(self.kind, Code.DOUBT)

    @property
    def is_refusal(self) -> bool:
        """Whether the runtime takes the original only."""
        return self.kind in ("refused", "too old")


TAKEN = RuntimeOpinion()
NONE = RuntimeOpinion("not looked")


@contextmanager
def start_opinion(request: Request) -> Iterator[Callable[[], RuntimeOpinion]]:
    """Yield a function that returns what the runtime says of the rewritten model, if it has not been run.

    The runtime opens it, while others work where that is sure to be asked for; it runs it where something has changed
    that only a runtime computes.
    """
    changed, ask = cache(partial(changed_unseen, request.before, request.after)), _asked(request)
    if request.checks.runtime == "none":
        yield lambda: NONE
    elif costly := _too_costly(request):
        yield lambda: RuntimeOpinion("not looked", costly)
    elif request.checks.depth == "local" and not changed():
        with beside(request.sources, lambda before, after: _opinion(ask, before, after, [()])) as wait:
            yield lambda: _unless_original_fails(request, ask, wait())
    else:
        yield lambda: _unless_original_fails(
            request, ask, _opinion(ask, *request.sources, _samples(request) if changed() else [()])
        )


def _too_costly(request: Request) -> str:
    """Return why the rewritten model is not opened in the runtime; else empty."""
    if seconds := session_too_long(request, request.clock.budget * RUNTIME_SHARE):
        return f"opening a model of {len(request.after.graph.nodes)} nodes takes about {seconds:.0f} s"
    after = request.sources[1]
    size = after.stat().st_size if isinstance(after, Path) else after.parameter_bytes()
    return "it has more than 1 GB of weights" if size > MOST_BYTES else ""


def _asked(request: Request) -> Ask:
    runtime, end = request.checks.runtime, request.clock.end
    return lambda model, samples: run_until(end, runtime, model, samples)


def _opinion(
    ask: Ask, before: RuntimeSource, after: RuntimeSource, tried: Iterable[Sequence[DrawnFeeds]]
) -> RuntimeOpinion:
    """Return the first opinion that is decided: of a model that is run, other inputs may do where some did not."""
    opinion = NONE
    for samples in tried:
        rewritten = ask(after, samples)
        if rewritten.ran:
            return TAKEN
        if rewritten.obstacle == "not looked":
            return RuntimeOpinion("not looked", rewritten.error)
        original = ask(before, samples)
        opinion = opinion_of(original, rewritten)
        if original.ran:
            return opinion
    if opinion.kind in ("neither", "doubt") and samples:  # these inputs may be what it does not take
        return _opinion(ask, before, after, [()])
    return opinion


def _unless_original_fails(request: Request, ask: Ask, opinion: RuntimeOpinion) -> RuntimeOpinion:
    """Lower a refusal to a doubt if the runtime opens the original, but can run it at none of its sizes.

    Such models contradict themselves. What a rewrite stores may show that as early as when the result is opened.
    """
    if opinion.kind != "refused":
        return opinion
    original: RuntimeResult | None = None
    for samples in _samples(request):
        original = ask(request.sources[0], samples)
        if not samples or original.ran or original.obstacle == "not looked":
            return opinion
    assert original is not None, "there is one set of samples, if an empty one"
    return RuntimeOpinion("doubt", f"{opinion.text}; the original cannot be run either: {original.error}")


def _samples(request: Request) -> Iterator[Sequence[DrawnFeeds]]:
    """Yield one input at each of the first sizes to try; nothing to feed if there are none."""
    sizes = 0
    with suppress(BnfoldError):
        for feeds, *_ in candidates(request.before, request.checks, sizes_of_original(request)[1], lambda _: [0]):
            yield [feeds]
            sizes += 1
    if not sizes:
        yield ()


def opinion_of(before: RuntimeResult, after: RuntimeResult) -> RuntimeOpinion:
    """Return what a runtime says that was given both models."""
    if after.ran:
        return TAKEN
    if after.obstacle == "not looked":
        return RuntimeOpinion("not looked", after.error)
    lack, verb = _lack(after.error), "runs" if before.results else "loads"
    if before.ran:
        if after.obstacle == "crashed":
            text = f"{before.runtime} {verb} the original, and {after.error} on the rewritten model"
            return RuntimeOpinion("doubt", text)
        text = f"{before.runtime} {verb} the original, but not the rewritten model: {after.error}"
        return RuntimeOpinion("too old" if lack else "refused", f"{text}; {lack}" if lack else text)
    looked = before.obstacle != "not looked"
    if looked and (lack or _outline(before.error) == _outline(after.error)):
        return RuntimeOpinion("neither", f"{after.runtime} loads neither file: {after.error}")
    own = "loads neither file; of the original" if looked else "could not look at the original"
    text = f"{after.runtime} {own}: {before.error}; of the rewritten model: {after.error}"
    return RuntimeOpinion("doubt", text)


_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\((\d+)\)")
_OPSET = re.compile(r"Opset (\d+) is under development")
_IR_VERSION = re.compile(r"Unsupported model IR version: (\d+)")
_NO_OPERATOR = re.compile(r"is not a registered function/op")


def _lack(error: str) -> str:
    """Return what a runtime needs to take a model that is valid, but too new or too unusual for it; else empty."""
    if no_kernel := _NO_KERNEL.search(error):
        operator, version = no_kernel.groups()
        return f"a runtime that has {operator}-{version} for these types takes it"
    for pattern, what, column in ((_OPSET, "opset", 2), (_IR_VERSION, "IR version", 1)):
        if needed := pattern.search(error):
            release = next((row[0] for row in onnx.helper.VERSION_TABLE if int(row[column]) >= int(needed[1])), "")
            built = f", as those built with onnx {release} do" if release else ""
            return f"a runtime that reads {what} {needed[1]} takes it{built}"
    return "a runtime that has this operator takes it" if _NO_OPERATOR.search(error) else ""


_PLACES = re.compile(
    r"(?i)node (?:with name )?(?:\([^()]*\)|'[^']*'|\"[^\"]*\")|\(\"[^\"]*\"|op \([^()]*\) output arg \([^()]*\)"
    r"|\) : \(.*?\) -> \(.*?\) |inferred types: .*|(?:,?tensor\(\w+\))+|\d+"
)


def _outline(error: str) -> str:
    """Return an error without what a rewrite changes: names, versions of operators, and the types that these take."""
    return _PLACES.sub("", error)


def session_too_long(request: Request, limit: float) -> float:
    """Return the seconds that onnxruntime takes to open a model of so many nodes, if they are more; else 0."""
    seconds = session_seconds(request.before, request.after) if request.checks.runtime == "onnxruntime" else 0.0
    return seconds if seconds > limit else 0.0
