"""Write pairs of models, an original and a rewritten one, for `scripts/verdicts.py`: a process in one checkout.

Its arguments are the checkout, the folder, and what is asked for, in JSON. The checkout's
fuzzer, its seeded faults and its rewrites make the pairs. ``FOLDER/pairs.json`` lists them.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Pair = dict[str, Any]
"""The name, the set, both files, and what the rewrite says of itself: cuts, and whether inputs were frozen."""

COMMANDS: dict[str, dict[str, Any]] = {
    "optimize": {},
    "optimize wide": {"all_affines": True, "merge_branches": True, "overridable": "freeze"},
    "convert lowest": {"target_opset": "lowest", "fold": False, "no_simplify": True, "constants": "keep"},
}


def main() -> None:
    """Write all of them."""
    checkout, folder, asked = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    sys.path[:0] = [str(checkout), str(checkout / "scripts")]
    sys.argv[:] = [str(checkout / "scripts" / "verdicts.py")]  # it names itself by this, and asks for no package
    pairs: list[Pair] = []
    for name in asked["sets"]:
        for before, after, pair in SETS[name](checkout, asked):
            place = folder / str(len(pairs))
            place.mkdir()
            original = place / "before.onnx" if isinstance(before, bytes) else before
            if isinstance(before, bytes):
                original.write_bytes(before)
            (place / "after.onnx").write_bytes(after)
            pairs.append({"set": name, "before": str(original), "after": str(place / "after.onnx"), **pair})
    (folder / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")


Made = Iterator[tuple[bytes | Path, bytes, Pair]]


def _corpus(_: Path, asked: dict[str, Any]) -> Made:
    from _environment import CORPUS  # type: ignore[attr-defined, unused-ignore] # of the checkout

    with (CORPUS / "INDEX.tsv").open(encoding="utf-8") as index:
        paths = [CORPUS / row["path"] for row in csv.DictReader(index, delimiter="\t")]
    for path in paths:
        if path.is_file() and path.stat().st_size <= asked["bytes"]:
            yield from _rewritten(path.name, path)


def _rewritten(name: str, before: bytes | Path) -> Made:
    """Yield the results of the commands that have one."""
    import bnfold

    for command, options in COMMANDS.items():
        try:
            checks = bnfold.VerifyOptions(depth="none")
            report = (outcome := bnfold.optimize(before, verify=checks, **options)).report
            after = outcome.to_proto().SerializeToString()
        except Exception:  # noqa: BLE001 - what is refused or too large is no pair
            continue
        yield before, after, {"name": f"{name}, {command}", **_announced(report)}


def _announced(report: Any) -> Pair:
    return {"cuts": [list(cut) for cut in report.cuts], "frozen": bool(report.frozen)}


def _findings(checkout: Path, _: dict[str, Any]) -> Made:
    case = _of_fuzzer("case")
    for place in sorted((checkout / "tests" / "findings").glob("*/*/")):
        if place.parent.name != "bytes":
            yield from _of_case(case.read(place), place.parent.name, f"{place.parent.name}/{place.name}")


def _of_fuzzer(name: str) -> Any:
    """Import a module of the checkout's fuzzer, whose package once had another name."""
    package = "fuzz" if importlib.util.find_spec("fuzz") else "_fuzz"
    return importlib.import_module(f"{package}.{name}")


def _fuzz(_: Path, asked: dict[str, Any]) -> Made:
    modes = _of_fuzzer("modes")
    for mode in ("faults", "verify"):
        for seed in range(asked["first"], asked["first"] + asked["count"]):
            yield from _of_case(modes.MODES[mode].draw(seed, ()), mode, f"{mode} {seed}")


def _of_case(case: Any, mode: str, name: str) -> Made:
    """Yield the pairs of a case of the fuzzer: its own one, or the results of the commands."""
    faults, rewriting, verifying = map(_of_fuzzer, ("faults", "rewriting", "verifying"))
    if mode == "faults":
        if faults.AFTER in case.files:
            yield case.model, case.files[faults.AFTER], {"name": name, "cuts": [], "frozen": False}
    elif mode == "verify" and "rewrite" in case.settings:
        import onnx

        from bnfold import ir
        from bnfold.pipeline import passes

        settings = dict(case.settings)
        try:
            report = passes.rewrite(model := ir.load(case.model), rewriting.options(settings["rewrite"]))
            right = onnx.ModelProto.FromString(ir.encode(model))
            after = verifying._broken(right, settings).SerializeToString()  # noqa: SLF001 - of the frozen generator
        except Exception:  # noqa: BLE001 - what is refused is no pair
            return
        yield case.model, after, {"name": name, **_announced(report)}
    elif mode != "verify" and not case.files:
        yield from _rewritten(name, case.model)


def _seeded(_: Path, __: dict[str, Any]) -> Made:
    from tests.verification import faults

    for rewrite in faults.rewrites():
        before = rewrite.before.SerializeToString()
        for fault, after in {"right": rewrite.after, **rewrite.wrong}.items():
            for suffix, cuts in (("", []), (", announced", [list(cut) for cut in rewrite.cuts])):
                name = f"{rewrite.name}: {fault}{suffix}"
                yield before, after.SerializeToString(), {"name": name, "cuts": cuts, "frozen": False}


SETS: dict[str, Callable[[Path, dict[str, Any]], Made]] = {
    "corpus": _corpus,
    "findings": _findings,
    "seeded": _seeded,
    "fuzz": _fuzz,
}

if __name__ == "__main__":
    main()
