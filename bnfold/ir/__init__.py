"""The weight-free model: load, index, edit, save. Weights stay on disk until the moment they are written."""

from bnfold.ir.cut import Cut, ScaledValue, SelectedValue
from bnfold.ir.graph import Graph
from bnfold.ir.index import index_subgraphs, update_paths
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.storage.load import external_locations, load
from bnfold.ir.storage.save import encode, save, stage
from bnfold.ir.storage.staged import Staged
from bnfold.ir.storage.stored import Stored
from bnfold.ir.tensor import Exact, Inline, Scaled, Tensor
from bnfold.ir.text import utf8
from bnfold.ir.value import Value

__all__ = [
    "Cut",
    "Exact",
    "Graph",
    "Inline",
    "Model",
    "Node",
    "Scaled",
    "ScaledValue",
    "SelectedValue",
    "Staged",
    "Stored",
    "Tensor",
    "Value",
    "encode",
    "external_locations",
    "index_subgraphs",
    "load",
    "save",
    "stage",
    "update_paths",
    "utf8",
]
