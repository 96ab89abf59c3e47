"""What models and regions are fed: which sizes, and which numbers."""
