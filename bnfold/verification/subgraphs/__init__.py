"""Each changed region on its own, in float64."""
