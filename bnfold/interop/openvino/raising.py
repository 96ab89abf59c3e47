"""BatchNormInference of version 0 becomes version 5: the same formula, its inputs in another order."""

from __future__ import annotations

from bnfold.interop.openvino.document import Layer
from bnfold.interop.openvino.load import IrModel, Scope
from bnfold.interop.openvino.operators import NORM, is_v0


def raise_norms(model: IrModel) -> None:
    """Turn every BatchNormInference of version 0 that is left into version 5."""
    for scope in model.scopes:
        for layer in scope.net.layers.values():
            if layer.type == NORM and is_v0(layer):
                _raise(scope, layer)


def _raise(scope: Scope, layer: Layer) -> None:
    """(gamma, beta, data, mean, variance) becomes (data, gamma, beta, mean, variance)."""
    side, ports = layer.element.find("input"), layer.ports("input")
    assert side is not None, "a BatchNormInference has five inputs"
    ids, tails = [port.get("id", "") for port in ports], [port.tail for port in ports]
    order = (2, 0, 1, 3, 4)
    edges = [scope.net.edges.pop((layer.id, ids[index])) for index in order]
    for place, (index, edge) in enumerate(zip(order, edges, strict=True)):
        edge.set("to-port", ids[place])
        scope.net.edges[layer.id, ids[place]] = edge
        side.remove(ports[index])
        side.append(ports[index])
    for port, name, tail in zip(layer.ports("input"), ids, tails, strict=True):
        port.set("id", name)
        port.tail = tail
    layer.element.set("version", "opset5")
