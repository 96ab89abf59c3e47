"""Models of other packages: onnx_ir, PyTorch, OpenVINO."""
