"""scripts/export_table in parts: `vision` and `sequences` build the networks, `exporting` writes them, `judging` compares."""
