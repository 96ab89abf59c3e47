"""A network as PyTorch's quantisation-aware training exports it, its BatchNormalizations in it: no integer changes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import analysis, ir

torch = pytest.importorskip("torch")


def exported(path: Path, scheme: Any, observer: Any) -> onnx.ModelProto:
    """Conv (3×3, depthwise, 1×1) → BatchNormalization → Relu, weights behind FakeQuantize, trained a little."""
    from torch.ao import quantization

    nn = torch.nn
    fake = quantization.FakeQuantize.with_args(
        observer=observer, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=scheme
    )
    layers = []
    for into, out, groups, kernel in ((3, 8, 1, 3), (8, 8, 8, 3), (8, 12, 1, 1)):
        conv = nn.Conv2d(into, out, kernel, padding=kernel // 2, groups=groups, bias=False)
        conv.qconfig = quantization.QConfig(activation=nn.Identity, weight=fake)
        norm = nn.BatchNorm2d(out)
        nn.init.uniform_(norm.weight, 0.3, 1.5)
        layers += [conv, norm, nn.ReLU()]
    module = quantization.prepare_qat(nn.Sequential(*layers).train())
    training = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(20):
        x = torch.randn(4, 3, 12, 12)
        training.zero_grad()
        module(x).square().mean().backward()
        training.step()
    module.eval().apply(quantization.disable_observer)
    torch.onnx.export(module, (x,), path, opset_version=17, dynamo=False)
    return onnx.load(path)


@pytest.mark.parametrize("scheme", ["per_tensor_symmetric", "per_channel_symmetric"])
def test_no_integer_changes(scheme: str, tmp_path: Path) -> None:
    from torch.ao import quantization

    kind = "MovingAverageMinMaxObserver" if "tensor" in scheme else "MovingAveragePerChannelMinMaxObserver"
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own: the exporter, and this way of training, are old
        proto = exported(tmp_path / "qat.onnx", getattr(torch, scheme), getattr(quantization, kind))
    outcome = bnfold.fold(proto)
    assert outcome.report.count("folded") == 3
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    before, after = (integers(form) for form in (proto, outcome.to_proto()))
    assert len(before) == 3
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def integers(proto: onnx.ModelProto) -> list[Any]:
    """What each QuantizeLinear of a constant makes."""
    quantizers = [node for node in ir.load(proto).nodes() if node.is_op("QuantizeLinear")]
    return [held.numpy() for node in quantizers if (held := analysis.constant(node.output(0))) is not None]
