"""Both models whole: in float64 and in a runtime."""
