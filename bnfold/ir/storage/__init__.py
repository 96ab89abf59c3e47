"""Reading and writing model files; large tensors stay on disk."""
