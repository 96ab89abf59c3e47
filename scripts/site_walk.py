#!/usr/bin/env python
"""Walks through the built site in a real browser, as a visitor would, and looks at what it and the reports look like.

Ten tasks are looked for from the front page: by the links that share the task's words, and by one search. Then axe-core
examines every page of the site and the four kinds of --report pages, at 360 and 1600 px, in light and dark. No page may
be wider than the screen, and no table wider than its column at 1600 px. Screenshots go to build/site_walk. Exit code 1
if a task takes more than three clicks and is not the first result of one search, if axe finds a violation, or if a page
or a table is too wide.

Needs the site (`scripts/site`), Playwright, Chromium and axe-core:

    .venv/bin/pip install -e .[walk]
    apt-get install chromium      # or: .venv/bin/python -m playwright install chromium
    npm pack axe-core && tar xf axe-core-*.tgz    # and say where package/axe.min.js is: --axe, or $BNFOLD_AXE
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from _environment import ROOT, require

require("playwright", install=".venv/bin/pip install -e .[walk]")

from _site.reader import TASKS, look_for  # noqa: E402 # it imports Playwright
from playwright.sync_api import Browser, Error, Page, sync_playwright  # noqa: E402

VIEWS = [(width, scheme) for width in (360, 1600) for scheme in ("light", "dark")]
TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"
CUT = """() => [...document.querySelectorAll(".md-typeset__scrollwrap")]
    .filter(each => innerWidth > 1000 && each.scrollWidth > each.clientWidth + 1).length"""
"""Tables that scroll although the screen is wide; on a phone they may."""


def main() -> int:
    """Parse the arguments and walk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site", metavar="DIR", help="the built site")
    parser.add_argument("--axe", type=Path, default=os.environ.get("BNFOLD_AXE"), metavar="FILE", help="axe.min.js")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site_walk", metavar="DIR", help="screenshots")
    parser.add_argument("--only", default="", metavar="TEXT", help="examine pages whose address contains it")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write the picture that is docs/report.png")
    args = parser.parse_args()
    if not (args.site / "index.html").is_file():
        sys.exit(f"scripts/site_walk.py: {args.site} has no index.html: run scripts/site")
    if args.axe is None or not args.axe.is_file():
        sys.exit(
            "scripts/site_walk.py: no axe.min.js: npm pack axe-core && tar xf axe-core-*.tgz; --axe package/axe.min.js"
        )
    args.output.mkdir(parents=True, exist_ok=True)
    with browser() as window, serve(args.site) as base:
        far = tasks(window, base)
        names = sorted(path.parent.relative_to(args.site).as_posix() for path in args.site.rglob("index.html"))
        urls = {"index": base} | {name: f"{base}{name}/" for name in names if name != "."}
        urls |= {f"report {name}": path.as_uri() for name, path in reports(args.output / "reports").items()}
        if args.picture:
            picture(window, urls["report one"], args.picture)
        urls = {name: url for name, url in urls.items() if args.only in url}
        violations, wide = examine(window, urls, args.axe.read_text(encoding="utf-8"), args.output)
    print(f"\n{len(TASKS) - far} of {len(TASKS)} tasks within three clicks or one search; "
          f"{violations} violations, {wide} too wide, of {len(urls) * len(VIEWS)} views")  # fmt: skip
    return int(bool(far or violations or wide))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the system's Chromium, or the one that Playwright fetched."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            window = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            print(f"{error}\n", file=sys.stderr)
            sys.exit(
                "scripts/site_walk.py: no Chromium: apt-get install chromium, or python -m playwright install chromium"
            )
        yield window
        window.close()


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve the site: its search needs more than files."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def tasks(window: Browser, base: str) -> int:
    """Look for each task; print a table and return how many are too far away."""
    context = window.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    found = [look_for(page, base, task) for task in TASKS]
    context.close()
    print("| task | clicks | through | position in one search |\n|---|---|---|---|")
    for one in found:
        print(f"| {one.task} | {one.clicks or '-'} | {' → '.join(one.path)} | {one.position or '-'} |")
    return sum(not one.is_near for one in found)


def reports(folder: Path) -> dict[str, Path]:
    """Make the four kinds of pages that --report writes."""
    folder.mkdir(parents=True, exist_ok=True)
    many = folder / "models"
    many.mkdir(exist_ok=True)
    for name in ("dense", "bn15_training", "resnet_opset6"):
        shutil.copy(ROOT / "models" / f"{name}.onnx", many)
    (many / "broken.onnx").write_bytes(b"no model")
    shutil.copy(many / "dense.onnx", folder)
    shutil.rmtree(folder / "out", ignore_errors=True)
    paths = {name: folder / f"{name}.html" for name in ("one", "many", "verify", "diff")}
    commands = (
        ("optimize", "dense.onnx", "out.onnx"), ("optimize", "models", "out"),
        ("verify", "dense.onnx", "out.onnx"), ("diff", "dense.onnx", "out.onnx"),
    )  # fmt: skip
    for path, command in zip(paths.values(), commands, strict=True):
        words = list(command)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        call = [sys.executable, "-m", "bnfold", *words, "--report", path.name]
        done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not path.is_file():
            sys.exit(f"scripts/site_walk.py: {' '.join(words)}: {done.stderr}")
    return paths


def picture(window: Browser, url: str, path: Path) -> None:
    """Take the picture of a report's head that README.md shows."""
    page = window.new_page(viewport={"width": 1240, "height": 1250}, device_scale_factor=0.8)
    page.goto(url)
    page.screenshot(path=path)
    page.close()


def examine(window: Browser, urls: dict[str, str], axe: str, output: Path) -> tuple[int, int]:
    """Run axe-core in every view of every page, and take its picture; return the violations and the pages too wide."""
    counts, wide = Counter[str](), 0
    for width, scheme in VIEWS:
        context = window.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True
        )
        page = context.new_page()
        for name, url in urls.items():
            page.goto(url)
            page.wait_for_load_state("networkidle")
            picture = f"{name.replace('/', '_').replace(' ', '_')}-{width}-{scheme}"
            page.screenshot(path=output / f"{picture}.png", full_page=False)
            page.evaluate("() => { for (const each of document.querySelectorAll('details')) each.open = true }")
            page.wait_for_timeout(300)
            page.screenshot(path=output / f"{picture}-open.png", full_page=name.startswith("report"))
            counts += violations(page, axe, f"{name}, {width} px, {scheme}")
            if (over := page.evaluate(TOO_WIDE)) > 0:
                print(f"TOO WIDE: {name}, {width} px, {scheme}: by {over} px")
                wide += 1
            if cut := page.evaluate(CUT):
                print(f"CUT: {name}, {width} px, {scheme}: {cut} tables")
                wide += 1
        context.close()
    print("\n" + ("\n".join(f"{count} of {rule}" for rule, count in counts.most_common()) or "axe-core: no violation"))
    return sum(counts.values()), wide


def violations(page: Page, axe: str, where: str) -> Counter[str]:
    """Print what axe-core finds; return how many elements break which rule."""
    page.evaluate(axe)
    found = page.evaluate("() => axe.run(document).then(result => result.violations)")
    for each in found:
        nodes = [node["html"][:100].replace("\n", " ") for node in each["nodes"][:2]]
        print(f"{where}: {each['id']} ({each['impact']}): {len(each['nodes'])}, such as {nodes}")
    return Counter({each["id"]: len(each["nodes"]) for each in found})


if __name__ == "__main__":
    sys.exit(main())
