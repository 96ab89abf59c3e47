"""The passes in order, and one job from file to file."""
