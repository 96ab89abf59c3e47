#!/usr/bin/env python
"""Compare other programs' results on models before and after `bnfold optimize`: a Markdown table, and changes.

A program runs in a process of its own, on the same random inputs both times; its results after are compared with its
own before. Needs the programs, in an environment that may be another than bnfold's:

    python -m venv build/clients
    build/clients/bin/pip install onnxruntime openvino opencv-python-headless onnx2torch
    .venv/bin/python scripts/clients_table.py --python build/clients/bin/python --most 3000000

Exit code 1 if a model that ran in a program before fails or differs after.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("BNFOLD_CORPUS", ROOT.parent / "shared" / "corpus"))
TOLERANCE = 1e-3
"""Share of an output's largest magnitude: programs compute in float32, and some reorder sums of thousands."""
OPEN = 32
"""The size of dynamic dims, behind a first one of 1."""
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def onnxruntime(path: str, feeds: Arrays) -> list[Array]:
    """Run with all optimisation, as is usual."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def openvino(path: str, feeds: Arrays) -> list[Array]:
    """Run on the processor, in float32."""
    from openvino import Core

    compiled = Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    made = compiled(feeds)
    return [np.asarray(made[port]) for port in compiled.outputs]


def opencv(path: str, feeds: Arrays) -> list[Array]:
    """Run in OpenCV's dnn module."""
    import cv2

    net = cv2.dnn.readNetFromONNX(path)
    for name, array in feeds.items():
        net.setInput(array, name)
    return [np.asarray(array) for array in net.forward(net.getUnconnectedOutLayersNames())]


def onnx2torch(path: str, feeds: Arrays) -> list[Array]:
    """Run as a module in evaluation mode."""
    import onnx
    import torch
    from onnx2torch import convert

    module = convert(onnx.load(path)).eval()
    with torch.no_grad():
        made = module(*map(torch.from_numpy, feeds.values()))
    return [array.numpy() for array in (made if isinstance(made, list | tuple) else [made])]


CLIENTS: dict[str, Callable[[str, Arrays], list[Array]]] = {
    "onnxruntime": onnxruntime, "OpenVINO": openvino, "OpenCV": opencv, "onnx2torch": onnx2torch,
}  # fmt: skip

MODULES = {"onnxruntime": "onnxruntime", "OpenVINO": "openvino", "OpenCV": "cv2", "onnx2torch": "onnx2torch"}


def work(client: str, folder: Path) -> None:
    """Run every model of a folder that no earlier, dead worker has touched. A note says how far each one got."""
    sys.path.pop(0)  # this folder holds no modules
    for model in sorted(folder.glob("*.onnx")):
        note = folder / f"{model.stem}.{client}.note"
        if note.exists():
            continue
        note.write_text("died or took too long", encoding="utf-8")
        try:
            with np.load(folder / f"{model.stem.partition('.')[0]}.npz") as feeds:
                made = CLIENTS[client](str(model), dict(feeds))
            np.savez(folder / f"{model.stem}.{client}.npz", *made)
        except Exception as error:  # noqa: BLE001 - whatever the program raises is its result
            note.write_text(f"{type(error).__name__}: {error}"[:300], encoding="utf-8")
        else:
            note.write_text("", encoding="utf-8")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?", default=CORPUS, metavar="DIR", help="a folder of models")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="which has the programs")
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this one (may be repeated)")
    parser.add_argument("--most", type=int, default=1 << 40, metavar="BYTES", help="leave out larger files")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds without a result (60)")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work[0], Path(arguments.work[1]))
        return 0
    from _environment import require, require_files  # not above: other programs' Pythons need not have it

    clients = arguments.client or list(CLIENTS)
    found = (path for path in sorted(arguments.corpus.rglob("*.onnx")) if path.stat().st_size <= arguments.most)
    models = require_files(found, sought=f"model in {arguments.corpus}")
    install = f"{arguments.python} -m pip install onnxruntime openvino opencv-python-headless onnx2torch"
    require(*(MODULES[client] for client in clients), python=arguments.python, install=install)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = [path.relative_to(arguments.corpus) for path in models if _lay_out(path, folder)]
        print(f"{len(labels)} of {len(models)} models that bnfold reads and inputs can be drawn for\n")
        print("| program | run before | run after | lost | gained | differ after |\n|---|---|---|---|---|---|")
        changes = []
        for client in clients:
            _run(client, folder, arguments.python, arguments.timeout)
            changes += _compare(client, folder, [str(label) for label in labels])
    print("", *changes, sep="\n")
    return int(any(": gained" not in change for change in changes))


def _lay_out(path: Path, folder: Path) -> bool:
    """Put the model, bnfold's result, and inputs for both into the folder; return whether that succeeded."""
    import bnfold
    from bnfold import ir

    stem = f"{len(list(folder.glob('*.npz'))):04}"
    try:
        bnfold.optimize(path, folder / f"{stem}.after.onnx", verify=bnfold.VerifyOptions(depth="none"))
        feeds = _feeds(ir.load(folder / f"{stem}.after.onnx"))
    except (bnfold.BnfoldError, ValueError):
        for made in folder.glob(f"{stem}.*"):
            made.unlink()
        return False
    shutil.copyfile(path, folder / f"{stem}.before.onnx")
    np.savez(folder / f"{stem}.npz", **dict[str, Any](feeds))
    return True


def _feeds(model: Any) -> Arrays:
    """Draw numbers for every input without a default; raise ValueError unless it is a tensor of known rank and type."""
    from onnx.helper import tensor_dtype_to_np_dtype

    rng, feeds = np.random.default_rng(0), {}
    for value in model.graph.inputs:
        if value.is_initializer:
            continue
        if value.shape is None or value.dtype is None:
            raise ValueError(value.name)
        dims = [dim if isinstance(dim, int) and dim > 0 else OPEN if at else 1 for at, dim in enumerate(value.shape)]
        dtype = np.dtype(tensor_dtype_to_np_dtype(value.dtype))
        if dtype.kind not in "fiub":
            raise ValueError(value.name)
        feeds[value.name] = (rng.random(dims) if dtype.kind == "f" else rng.integers(0, 2, dims)).astype(dtype)
    return feeds


def _run(client: str, folder: Path, python: str, timeout: float) -> None:
    """Run every model in one process, a new one after a model that kills it or takes longer than ``timeout``."""
    count = len(list(folder.glob("*.onnx")))
    while (done := len(list(folder.glob(f"*.{client}.note")))) < count:
        command = [python, __file__, "--work", client, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                now = len(list(folder.glob(f"*.{client}.note")))
                if now == done:
                    process.kill()
                done = now


def _compare(client: str, folder: Path, labels: list[str]) -> list[str]:
    """Print the program's row, and a line for each model whose result changed."""
    ran = {"before": 0, "after": 0}
    found: dict[str, list[str]] = {"lost": [], "gained": [], "differs": []}
    for index, label in enumerate(labels):
        notes = {when: (folder / f"{index:04}.{when}.{client}.note").read_text(encoding="utf-8") for when in ran}
        for when, note in notes.items():
            ran[when] += not note
        what, why = "", ""
        if notes["before"] and not notes["after"]:
            what, why = "gained", notes["before"]
        elif notes["after"] and not notes["before"]:
            what, why = "lost", notes["after"]
        elif not notes["after"] and (why := _difference(*(folder / f"{index:04}.{when}.{client}.npz" for when in ran))):
            what = "differs"
        if what:
            found[what].append(f"* {client}: {what} `{label}` ({why.splitlines()[0][:140]})")
    numbers = [ran["before"], ran["after"], *map(len, found.values())]
    print(f"| {client} | {' | '.join(map(str, numbers))} |", flush=True)
    return [line for lines in found.values() for line in lines]


def _difference(before: Path, after: Path) -> str:
    """Describe the difference; empty if all outputs agree up to rounding."""
    with np.load(before) as old, np.load(after) as new:
        for name, array in old.items():
            if name not in new or array.shape != new[name].shape:
                return f"output {name}: other dims"
            if array.dtype.kind != "f":
                if not np.array_equal(array, new[name]):
                    return f"output {name}: other elements"
                continue
            size = max(float(np.abs(array[np.isfinite(array)]).max(initial=0.0)), 1e-6)
            if not np.allclose(array, new[name], rtol=0, atol=TOLERANCE * size, equal_nan=True):
                return f"output {name}: off by {np.nanmax(np.abs(array - new[name])) / size:.1e} of its size"
    return ""


if __name__ == "__main__":
    sys.exit(main())
