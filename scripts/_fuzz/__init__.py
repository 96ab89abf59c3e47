"""Random graphs from a table of operators, rewritten and judged in float64: what scripts/fuzz is made of."""
