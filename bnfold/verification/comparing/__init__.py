"""Evaluate two models side by side, and compare their results."""
