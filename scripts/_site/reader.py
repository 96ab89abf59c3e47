"""Visit the site in a real browser: which links a task's words lead through, and what one search finds."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import urldefrag

from playwright.sync_api import Error, Page

TASKS = {
    "I have an old model": "tasks/old_model/",
    "I need a lower opset": "tasks/lower_opset/",
    "my compiler rejects BatchNormalization": "tasks/no_batchnorm/",
    "I export from PyTorch": "tasks/pytorch/",
    "I keep models in CI": "tasks/ci/",
    "I run other optimisers": "tasks/other_optimisers/",
    "I quantise": "tasks/quantise/",
    "I write a toolchain": "tasks/toolchain/",
    "what does no-gain mean": "reasons/#no-gain",
    "why unverified": "verification/#why-unverified",
}
"""What a visitor looks for, and the page of the site that answers it."""
MOST_CLICKS = 3
_WEAK = {"a", "an", "the", "i", "my", "in", "what", "does", "why", "have", "from", "of", "to", "and", "is", "it"}
_LINKS = """() => [...document.querySelectorAll('a[href]')].map((link, index) => ({
  index, href: link.href, text: link.innerText.trim(),
  shown: link.checkVisibility({visibilityProperty: true, opacityProperty: true}) && link.getClientRects().length > 0,
}))"""


class Found(NamedTuple):
    """How one task was found: the clicks, and the position of its page among the results of one search, 0 if absent."""

    task: str
    clicks: int | None
    path: tuple[str, ...]
    position: int

    @property
    def is_near(self) -> bool:
        """Whether it takes at most three clicks, or is the first result of one search."""
        return (self.clicks is not None and self.clicks <= MOST_CLICKS) or self.position == 1


def look_for(page: Page, base: str, task: str) -> Found:
    """Start at the front page, follow the links that share most words with the task, then try one search."""
    path = _follow(page, base, task)
    return Found(task, len(path) if path is not None else None, tuple(path or ()), _search(page, base, task))


def _follow(page: Page, base: str, task: str) -> list[str] | None:
    page.goto(base)
    visited, path = {page.url}, list[str]()
    while len(path) < MOST_CLICKS:
        links = [link for link in page.evaluate(_LINKS) if link["shown"] and link["href"].startswith(base)]
        candidates = [link for link in links if link["href"] not in visited and link["text"]]
        best = max(candidates, key=lambda link: _likeness(task, link["text"]), default=None)
        if best is None or not _likeness(task, best["text"]):
            return None
        page.locator("a[href]").nth(best["index"]).click()
        page.wait_for_load_state()
        visited.add(best["href"])
        path.append(best["text"])
        if _is_there(page.url, base, TASKS[task]):
            return path
    return None


def _is_there(url: str, base: str, target: str) -> bool:
    page, anchor = urldefrag(url)
    wanted, part = urldefrag(base + target)
    return page == wanted and (not part or anchor == part)


def _likeness(task: str, text: str) -> float:
    """Return the shared words, as a share of all words of both; the words that any text has count a tenth."""
    sought, seen = _words(task), _words(text)
    weight = {word: 0.1 if word in _WEAK else 1.0 for word in sought | seen}
    return sum(weight[word] for word in sought & seen) / max(sum(weight.values()), 1)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+", text.lower()))


def _search(page: Page, base: str, task: str) -> int:
    """Search for the task as a visitor types it; return the position of its page among the results."""
    page.goto(base)
    field = page.locator("input[name=query]")
    field.click()  # the theme begins to listen when the field is entered
    field.press_sequentially(task, delay=10)
    try:
        page.locator(".md-search-result__item a").first.wait_for(state="attached", timeout=8_000)
    except Error:
        return 0
    page.wait_for_timeout(300)  # results come in batches while the index loads
    results: list[Any] = page.evaluate(
        "() => [...document.querySelectorAll('.md-search-result__item')]"
        ".map(item => [...item.querySelectorAll('a')].map(link => link.href.replace(/[?]h=[^#]*/, '')))"
    )
    target, part = urldefrag(base + TASKS[task])
    for position, urls in enumerate(results, 1):
        if any(urldefrag(url)[0] == target and (not part or urldefrag(url)[1] == part) for url in urls):
            return position
    return 0
