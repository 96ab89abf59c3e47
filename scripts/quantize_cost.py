#!/usr/bin/env python3
"""Measure the effect of folding on int8 quantisation, in decibels of signal over quantisation noise (more is better).

A network in the manner of MobileNet, channels even and uneven, is quantised by onnxruntime's quantize_static with and
without folding first, weights per tensor and per channel, and with the folded weights equalised across layers. A
further column has the weights alone, activations in float32. Prints a Markdown table; medians over networks drawn
anew. Needs the project's environment: `.venv/bin/python scripts/quantize_cost.py`. With model files it prints the
effect of equalisation on these instead: expected noise of their int8 weights at the worst output, on random inputs.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from statistics import median

import _environment  # first, for its message to users of another Python
import numpy as np
from _quantize import network, trained, variants


def main() -> None:
    """Draw, quantise, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=9, metavar="N", help="networks for each spread (9)")
    parser.add_argument("--decades", type=float, nargs="+", default=[0, 1, 2], metavar="D", help="spreads (0 1 2)")
    parser.add_argument("--draws", type=int, default=6, metavar="N", help="draws of noise for each model (6)")
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL.onnx")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)  # the quantiser recommends its preprocessing, which would fold by itself
    if asked.models:
        _environment.require_files(asked.models, sought="model")
        print("| network, dB | per tensor | per channel |\n|---|---|---|")
        for path in asked.models:
            print(f"| {path.name} | {' | '.join(trained.row(path, asked.draws))} |")
        return
    columns = {decades: _measure(decades, asked.networks) for decades in asked.decades}
    print("| weights alone / and activations, dB | " + " | ".join(f"{decades:g} decades" for decades in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for way in next(iter(columns.values())):
        cells = ("{:.1f} / {:.1f}, spread {:.0f}".format(*found[way]) for found in columns.values())
        print(f"| {way} | " + " | ".join(cells) + " |")


def _measure(decades: float, networks: int) -> dict[str, tuple[float, ...]]:
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(networks):
        rng = np.random.default_rng(seed)
        shape = (32, network.CHANNELS, network.SIZE, network.SIZE)
        data, unseen = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        model = network.settle(network.make(decades, rng), data)
        reference = network.run(model, unseen)[0].astype(np.float64)
        for way, form, per_channel in variants.ways(model):
            weights = variants.weights_only(form, per_channel=per_channel)
            whole = variants.quantized(form, data, per_channel=per_channel)
            of_weights, of_all = (variants.decibels(int8, reference, unseen) for int8 in (weights, whole))
            found.setdefault(way, []).append((of_weights, of_all, variants.spread(form)))
    return {way: tuple(median(column) for column in zip(*rows, strict=True)) for way, rows in found.items()}


if __name__ == "__main__":
    main()
