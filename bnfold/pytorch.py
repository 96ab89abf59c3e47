"""PyTorch export pipelines: fold what `torch.onnx.export` made, and compare the result with the module itself.

    program = torch.onnx.export(module.eval(), (x,), dynamo=True)
    outcome = bnfold.pytorch.optimize(program, module=module)
    program.save("model.onnx")

`optimize` takes an ``ONNXProgram`` (``dynamo=True``) and replaces its model, or a file of the older exporter
(``dynamo=False``, any opset) and writes another. Needs PyTorch, which bnfold does not install by itself
(``pip install torch``).
"""

from bnfold.interop.pytorch.run import TorchOutcome, optimize
from bnfold.interop.pytorch.verdict import ModuleRow, ModuleVerdict

__all__ = ["ModuleRow", "ModuleVerdict", "TorchOutcome", "optimize"]
