"""Many models: where they are stored, how they are run in parallel, and which of them are up to date."""
