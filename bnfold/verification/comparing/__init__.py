"""Two sides run beside each other, and their results compared."""
