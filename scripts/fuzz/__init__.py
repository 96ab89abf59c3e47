"""The parts of scripts/fuzz: random graphs from a table of operators, rewritten and judged in float64."""
