"""Many models: where they lie, who runs them, which are up to date."""
