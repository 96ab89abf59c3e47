"""Two sides run beside each other, and whether what they gave would show a fault."""
