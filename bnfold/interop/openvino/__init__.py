"""OpenVINO IR (.xml and .bin): inspect, fold, decompose and verify BatchNormInference, versions 0 and 5.

The file itself is edited, not a model that OpenVINO made of it. Its Python API would be less work and do less well: it
resolves and rewrites what it reads (a missing epsilon becomes 0, compressed weights are widened by its constant
folding), offers neither of the transformations that fold BatchNormInference, maps the .bin into memory and dies when
that file is replaced, and changes from year to year. The XML names everything that is needed, what is not touched
stays as it was to the letter, and nothing has to be installed: the openvino package is imported only to verify, in a
process of its own, where it is a judge that shares nothing with the rewrite.

Nothing is folded here. `load` reads the layers as ONNX operators, where they are the same, into the graph that the rest
of bnfold works on; folding, decomposing, the report and its reasons are the code that ONNX models go through;
`write_back` takes the edits back into the document, `stage` writes it. The names of this module are what a format of
the pipeline (`bnfold.pipeline.formats.Format`) has to have.
"""

from bnfold.interop.openvino import pickling
from bnfold.interop.openvino.load import load
from bnfold.interop.openvino.rewrite import check, left, rewrite
from bnfold.interop.openvino.stage import as_onnx, data_file, data_files, stage
from bnfold.interop.openvino.verify import verify

__all__ = [
    "as_onnx",
    "check",
    "data_file",
    "data_files",
    "is_two_files",
    "left",
    "load",
    "pickling",
    "rewrite",
    "stage",
    "verify",
]

is_two_files = True
