"""The pages that mkdocs.yml adds to docs/, made from the code and the repository, and links that lead out of docs/.

mkdocs calls the functions whose names begin with `on_`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files  # type: ignore[import-not-found] # it is in an environment of its own

import bnfold
from bnfold.cli import explanation
from bnfold.folding.ops import HANDLERS

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "scripts"))

from _site import cells  # noqa: E402 # it is found only now

OUTSIDE = {"CHANGELOG.md": "changelog", "CONTRIBUTING.md": "contributing", "SECURITY.md": "security"}
"""Files of the repository that have a page, by its name below project/."""
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Leave the repository out until its address is known: that of a placeholder leads nowhere."""
    if "OWNER" in config["repo_url"]:
        config["repo_url"], config["site_url"], config["edit_uri"] = "", "", ""
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are no files of docs/."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, f"project/{page}.md", content=text))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        text = cells.as_markdown(cells.read(path))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        files.remove(files.get_file_from_path(f"notebooks/{path.name}"))
    files.append(File.generated(config, "api.md", content="\n".join(_api())))
    files.append(File.generated(config, "operators.md", content="\n".join(_operators())))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Change links to files of the repository: to their page if there is one, else to the repository if it is known."""
    del files
    uri = PurePosixPath(page.file.src_uri)
    here = ROOT / "x.md" if uri.parts[0] == "project" else ROOT / "docs" / uri

    def moved(match: re.Match[str]) -> str:
        target = (here.parent / match[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            inside = PurePosixPath(target.relative_to(ROOT / "docs").as_posix())
            if inside.suffix == ".ipynb":
                inside = inside.with_suffix(".md")
        else:
            name = target.relative_to(ROOT).as_posix()
            if name not in OUTSIDE:
                kind = "tree" if target.is_dir() else "blob"
                where = config["repo_url"]
                return f"[{match[1]}]({where}/{kind}/main/{name}{match[3] or ''})" if where else match[1]
            inside = PurePosixPath("project", f"{OUTSIDE[name]}.md")
        up = "../" * (len(uri.parts) - 1)
        return f"[{match[1]}]({up}{inside}{match[3] or ''})"

    fences = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in fences)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Give the theme's search dialogue a name, which it lacks."""
    del page, config
    dialogue = 'data-md-component="search" role="dialog"'
    return output.replace(dialogue, f'{dialogue} aria-label="Search"')


def _api() -> Iterator[str]:
    yield "# The Python interface\n\nThe functions return a `bnfold.Outcome`, `verify` a `bnfold.Verdict`.\n"
    modules = {"operators", "passes", "pytorch", "errors", "types"}
    for name in sorted(set(bnfold.__all__) - modules, key=lambda name: (name[0].isupper(), name)):
        yield f"::: {getattr(bnfold, name).__module__}.{name}\n"
    for name in sorted(modules):
        yield f"::: bnfold.{name}\n    options:\n      show_root_full_path: true\n"


def _operators() -> Iterator[str]:
    yield (
        "# Operators\n\nWhat bnfold knows of each operator that a scale and shift pass, as `bnfold explain` prints "
        "it. The versions are those of the onnx that built this page. [What is folded](folding.md) has one table.\n"
    )
    for name in sorted(HANDLERS):
        _, _, *rest = explanation.lines(explanation.explained(name))
        yield "\n".join([f"## {name}", "", "```text", *rest, "```", ""])
