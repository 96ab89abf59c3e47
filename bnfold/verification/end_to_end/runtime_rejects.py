"""Whether a runtime takes the original, but not the rewritten model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import islice

from bnfold.errors import BnfoldError
from bnfold.verification.changes.boundaries import changed_unseen
from bnfold.verification.comparing.sizes import sizes_of_original
from bnfold.verification.inputs.cost import session_seconds
from bnfold.verification.inputs.drawing import Feeds, random_feeds
from bnfold.verification.request import RUNTIME_SHARE, Request
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult
from bnfold.verification.runtimes.threads import in_background

_SIZES = 16
"""At which a runtime may be asked to run models whose sizes are open."""


@contextmanager
def start_refusal(request: Request) -> Iterator[Callable[[], str]]:
    """Yield a function that returns a refusal of the rewritten model alone by the runtime, if the models were not run.

    It opens them, while others work where that is sure to be asked for; it runs them where something has changed that
    only a runtime computes.
    """
    changed = cache(partial(changed_unseen, request.before, request.after))
    if request.checks.runtime == "none" or session_too_long(request, request.clock.budget * RUNTIME_SHARE):
        yield lambda: ""
    elif request.checks.depth == "local" and not changed():
        with in_background(partial(_refused, request, [()])) as wait:
            yield wait
    else:
        yield lambda: _refused(request, _samples(request) if changed() else [()])


def _refused(request: Request, tried: Iterable[Sequence[Feeds]]) -> str:
    runtime = RuntimeProcess(request.checks.runtime)
    for samples in tried:
        before, after = request.sources
        found = runtime.run(after, samples, request.clock.left)
        if found.ran:
            return ""
        if reason := refusal(runtime.run(before, samples, request.clock.left), found):
            return reason
    return ""


def _samples(request: Request) -> Iterator[Sequence[Feeds]]:
    """Yield one input at each of the first sizes to try."""
    with suppress(BnfoldError):
        for choice in islice(sizes_of_original(request)[1], _SIZES):
            yield [random_feeds(choice.model, choice.shapes, request.checks.seed, 0)]


def refusal(before: RuntimeResult, after: RuntimeResult) -> str:
    """Return the reason, where only the original ran; else empty."""
    if not before.ran or after.ran:
        return ""
    return f"{before.runtime} runs the original, but not the rewritten model: {after.error}"


def session_too_long(request: Request, limit: float) -> float:
    """Return the seconds that onnxruntime takes to open a model of so many nodes, if they are more; else 0."""
    seconds = session_seconds(request.before, request.after) if request.checks.runtime == "onnxruntime" else 0.0
    return seconds if seconds > limit else 0.0
