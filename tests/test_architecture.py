"""Which room may import which, and what must not be imported before it is needed (shown, not just promised)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Container, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "bnfold"

ROOMS = (
    "errors",
    "log",
    "report.rewrites",
    "registered",
    "settings",
    "ir",
    "analysis",
    "semantics",
    "report",
    "reference",
    "verification",
    "edits",
    "converting",
    "folding",
    "equalize",
    "channels",
    "decomposing",
    "simplifying",
    "interop",
    "interop.onnx_ir",
    "interop.openvino",
    "pipeline",
    "diffing",
    "interop.pytorch",
    "pytorch",
    "passes",
    "operators",
    "batch",
    "api",
    "types",
    "",
    "cli",
    "__main__",
)
"""From the bottom up: a room imports from itself and from those before it. The package itself is ""."""

# The referee and the verifier must not share a line, and so a bug, with what they judge.
APART = {  # neither takes anything that rewriting concluded
    "reference": {"errors", "registered", "settings", "ir"},
    "verification": {"errors", "log", "registered", "settings", "ir", "reference"},
}
IN_VERIFICATION = (
    *("codes", "claims", "verdict", "sentences", "as_read", "obstacles", "request"),
    *("tolerance", "inputs", "changes", "comparing", "coverage", "runtimes"),
    *(
        "fixed_sizes",
        "end_to_end",
        "subgraphs",
        "parts",
        "conclusion",
        "policy",
        "remedies",
        "explaining",
        "saving",
        "engine",
        "__init__",
    ),
)
"""Its own rooms, from the bottom up; whole models and regions know nothing of each other."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(parts: Sequence[str]) -> str:
    """`ir` for bnfold.ir.storage.load; the rooms of interop know nothing of each other, so each is one.

    The table of rewrites imports nothing: settings check names against it.
    """
    places = [part for part in parts if part != "__init__"]
    is_own = places[:1] == ["interop"] or places[:2] == ["report", "rewrites"]
    return ".".join(places[:2] if is_own else places[:1])


def home(path: Path) -> str:
    return room(list(path.relative_to(PACKAGE).with_suffix("").parts))


def is_for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, which no test changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def parsed(path: Path) -> ast.Module:
    """The code of a module; without what the errors name for type checkers only, such as the `Outcome` that one has."""
    tree = tree_of(path)
    if home(path) != "errors":
        return tree
    body = [node for node in tree.body if not (isinstance(node, ast.If) and is_for_types(node))]
    return ast.Module(body, type_ignores=[])


def rooms_imported(tree: ast.AST) -> Iterator[str]:
    """The room of every bnfold.* import, at any depth; "" for what is imported from the package itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for first, *rest in (name.split(".") for name in names):
            if first == "bnfold":
                yield room(rest) if room(rest) in ROOMS else ""


def allowed(name: str) -> set[str]:
    below = set(ROOMS[: ROOMS.index(name)])
    return {name} | below & APART.get(name, below)


def test_imports_point_one_way() -> None:
    forbidden = {
        path.relative_to(ROOT): wrong
        for path in modules()
        if (wrong := set(rooms_imported(parsed(path))) - allowed(home(path)))
    }
    assert forbidden == {}


def test_imports_within_verification_point_one_way() -> None:
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules()}
    for path in sorted((PACKAGE / "verification").rglob("*.py")):
        own = path.relative_to(PACKAGE / "verification").with_suffix("").parts[0]
        below = {*IN_VERIFICATION[: IN_VERIFICATION.index(own) + 1]} - ({"end_to_end"} if own == "subgraphs" else set())
        taken = {name.split(".")[2] for name in imports(path, known) if name.startswith("bnfold.verification.")}
        assert taken <= below, path


def test_coverage_has_one_door() -> None:
    """What else asks whether a fault would have shown takes it from the package, and nothing from its modules."""
    inside = PACKAGE / "verification" / "coverage"
    taken = {
        (path.relative_to(PACKAGE).as_posix(), node.module)
        for path in modules()
        if inside not in path.parents
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bnfold.verification.coverage.")
    }
    assert taken == set()


@pytest.mark.parametrize("client", ["interop/openvino", "interop/pytorch", "diffing"])
def test_who_compares_otherwise_takes_few_names_from_the_engine(client: str) -> None:
    taken = {
        (node.module, alias.name)
        for path in sorted((PACKAGE / client).glob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bnfold.verification")
        for alias in node.names
    } - {("bnfold.verification", "Verdict")}
    assert {module for module, _ in taken} == {"bnfold.verification.engine"}
    assert len(taken) <= 5, taken


def imports(path: Path, known: Container[str]) -> set[str]:
    """The modules of ``known`` that a file imports, at any depth and for types alone."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else f"{node.module}" for name in names}
    return {name for name in found if name in known}


def test_five_modules_import_each_other() -> None:
    """Their classes name each other: a graph has nodes, a node has a graph."""
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in modules()
    }
    waiting = {name: imports(path, names) for name, path in names.items()}
    while done := {name for name, wanted in waiting.items() if not wanted & waiting.keys() - {name}}:
        waiting = {name: wanted for name, wanted in waiting.items() if name not in done}
    while top := waiting.keys() - set().union(*waiting.values()):
        waiting = {name: wanted for name, wanted in waiting.items() if name not in top}
    assert waiting.keys() == {f"bnfold.ir.{name}" for name in ("graph", "index", "model", "node", "value")}


def test_the_root_stays_small() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 8


SPEAKING = {
    *("cli/about.py", "cli/as_it_is.py", "cli/differences.py", "cli/group.py", "cli/invocation.py"),
    *("cli/commands.py", "cli/progress.py", "cli/publish.py", "cli/streams.py", "cli/tables.py", "cli/terminal.py"),
    "verification/runtimes/worker.py",
}
"""What may write to the standard streams; the worker is a process of its own, whose streams are its interface."""


def speaks(tree: ast.AST) -> list[int]:
    """The lines that print: print, click.echo, rich's console, or a standard stream other than the input."""
    found = []
    for node in ast.walk(tree):
        call = node.func if isinstance(node, ast.Call) else None
        if isinstance(call, ast.Name) and call.id in {"print", "echo", "Console"}:
            found.append(call.lineno)
        if isinstance(node, ast.Attribute) and (
            node.attr == "echo"
            or (node.attr in {"stdout", "stderr"} and isinstance(node.value, ast.Name) and node.value.id == "sys")
        ):
            found.append(node.lineno)
    return found


def test_the_library_prints_nothing() -> None:
    loud = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in modules()
        if (lines := speaks(tree_of(path))) and path.relative_to(PACKAGE).as_posix() not in SPEAKING
    }
    assert loud == {}


def test_the_printing_check_sees_every_form() -> None:
    source = "print(1)\nclick.echo(2)\nsys.stderr.write('3')\nConsole().print(4)\nprint = sys.stdin\n"
    assert speaks(ast.parse(source)) == [1, 2, 3, 4]


SAME_ON_PURPOSE = {"ops", "kernels"}
"""How an affine passes an operator, and what the operator computes: a file each, of the operator's name."""
VAGUE = {"run", "find", "plan", "apply", "read"}
COMMANDS = {"bnfold.api", "bnfold.cli.commands", "bnfold.__main__"}
"""Where such a name is the user's word."""


def definitions(kind: type[ast.AST]) -> Iterator[tuple[str, Path]]:
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, kind):
                yield node.name, path.relative_to(PACKAGE)  # type: ignore[attr-defined] # classes and functions have one


SAME_TYPE = {"Array", "Dim", "Source"}
"""Names of one meaning in two rooms that import nothing of each other: public ones of callers, and our own."""


def test_names_of_classes_and_of_types_are_unique() -> None:
    """A name of a type is a class, or a name in capitals and small letters that a module gives to another type."""
    places: dict[str, list[Path]] = {}
    for path in modules():
        for node in tree_of(path).body:
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
            for name in names:
                if re.match(r"_?[A-Z][a-z]", name) and name not in SAME_TYPE:
                    places.setdefault(name, []).append(path.relative_to(PACKAGE))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_names_of_modules_are_unique_within_folders_of_one_name() -> None:
    places = [path for path in modules() if path.name != "__init__.py" and path.parent.name not in SAME_ON_PURPOSE]
    names = [f"{path.parent.name}/{path.name}" for path in places]
    assert sorted(names) == sorted(set(names))


def test_functions_of_modules_say_what_they_find_or_run() -> None:
    vague = {
        (module, node.name)
        for path in modules()
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef)
        and node.name in VAGUE
        and (module := ".".join(path.relative_to(ROOT).with_suffix("").parts)) not in COMMANDS
    }
    assert vague == set()


def test_the_import_check_sees_every_form() -> None:
    source = (
        "import bnfold.folding.plan\nfrom bnfold import report\ndef f():\n    from bnfold.converting import versions\n"
    )
    assert set(rooms_imported(ast.parse(source))) == {"folding", "report", "converting"}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        (
            "bnfold.cli.commands",
            {
                "numpy",
                "onnx",
                "onnxruntime",
                "onnx_ir",
                "onnxscript",
                "rich",
                "logging",
                "torch",
                "fsspec",
                "distributed",
            },
        ),
        ("bnfold.cli.folders", {"fsspec", "distributed", "dask", "onnxruntime", "rich"}),
        ("bnfold", {"onnxruntime", "onnx_ir", "onnxscript", "rich", "torch", "fsspec", "distributed"}),
        (
            "bnfold.pipeline.passes",
            {
                *("onnxruntime", "onnx_ir", "onnxscript", "rich", "logging", "torch"),
                *("bnfold.converting.model", "bnfold.converting.steps", "bnfold.folding.rounds", "bnfold.decomposing"),
            },
        ),
        ("bnfold.pipeline.job", {"bnfold.pipeline.chain", "bnfold.pipeline.external_tools"}),
        ("bnfold.folding.rounds", {"bnfold.folding.rewrites.products", "bnfold.equalize"}),
    ],
)
def test_heavy_imports_wait_until_they_are_needed(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert unwanted & set(run.stdout.split()) == set()
