"""How far results are apart, how far rounding takes them, and where it takes them further."""
