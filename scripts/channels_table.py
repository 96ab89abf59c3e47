#!/usr/bin/env python3
"""Prune networks of torchvision with PyTorch's own functions, and measure what `bnfold optimize` makes of the zeros.

Of each Conv and Linear but the last, `torch.nn.utils.prune.ln_structured` zeroes half of the filters. The exported
model is as large and as slow as before. A row says what bnfold makes of it: bytes, multiply-adds, the verdict, and the
latency before and after in onnxruntime and OpenVINO (medians, one thread, in turn).

Needs PyTorch and torchvision, best in an environment of its own:
`python -m venv pruned && pruned/bin/pip install -e . torch torchvision onnxruntime openvino`.
Run `pruned/bin/python scripts/channels_table.py [--only vgg11_bn] [--rounds 20]`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from _environment import ROOT, require  # first, because it reports a wrong Python

NETWORKS = ("resnet50", "mobilenet_v2", "vgg11_bn")
SIZE = 224


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="a network (all of them)")
    parser.add_argument("--share", type=float, default=0.5, help="of the filters that is zeroed (0.5)")
    parser.add_argument("--rounds", type=int, default=20, help="runs of each model (20)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "pruned", help="where exports go (%(default)s)")
    return parser.parse_args()


def export(name: str, share: float, path: Path) -> None:
    """Build a network with weights that are drawn, prune it as its users do, and export it."""
    import torch
    import torchvision
    from torch import nn
    from torch.nn.utils import prune

    torch.manual_seed(0)
    network = getattr(torchvision.models, name)(weights=None).eval()
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):  # as training leaves them, not as they start
            for numbers in (layer.bias, layer.running_mean):
                nn.init.normal_(numbers, 0, 0.1)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
    for layer in layers[:-1]:
        prune.ln_structured(layer, "weight", amount=share, n=1, dim=0)
        prune.remove(layer, "weight")
    torch.onnx.export(
        network, (torch.randn(1, 3, SIZE, SIZE),), str(path), opset_version=17, dynamo=False, input_names=["image"],
        output_names=["scores"], dynamic_axes={"image": {0: "batch"}},
    )  # fmt: skip


def milliseconds(before: Path, after: Path, runtime: str, rounds: int) -> str:
    """Return the median times of both in a runtime with one thread, run in turn."""
    import onnx
    from _bench import racing

    feeds, load = racing.random_feeds(onnx.load(before)), racing.RUNTIMES[runtime]
    race = racing.race({path.stem: load(path, feeds, 1) for path in (before, after)}, rounds)
    return " → ".join(f"{1000 * statistics.median(times):.1f} ms" for times in race.times.values())


def main() -> None:
    """Print the table."""
    arguments = parse()
    require("torch", "torchvision", "onnxruntime", "openvino", install="pip install torch torchvision openvino")
    import bnfold
    from bnfold import ir
    from bnfold.report.totals import multiply_adds, size

    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("| network | bytes | multiply-adds | onnxruntime | OpenVINO | verdict | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.only or NETWORKS:
        before, after = (arguments.folder / f"{name}{end}.onnx" for end in ("", "_small"))
        export(name, arguments.share, before)
        started = time.perf_counter()
        result = bnfold.optimize(before, after)
        seconds = time.perf_counter() - started
        counts = [multiply_adds(ir.load(path)) for path in (before, after)]
        adds = " → ".join(f"{count.count / 1e6:.0f} M" if count else "?" for count in counts)
        sizes = " → ".join(size(path.stat().st_size) for path in (before, after))
        cells = [milliseconds(before, after, runtime, arguments.rounds) for runtime in ("onnxruntime", "openvino")]
        verdict = result.verdict.status if result.verdict is not None else "none"
        print(f"| {name} | {sizes} | {adds} | {' | '.join(cells)} | {verdict} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
