"""Differences between two models, and the nodes around them, found without running the models."""
