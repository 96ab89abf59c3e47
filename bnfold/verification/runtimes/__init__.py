"""Models in onnxruntime or OpenVINO, in processes of their own."""
