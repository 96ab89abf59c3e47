"""bnfold: upgrade, fold, decompose and verify BatchNormalization in ONNX models."""
