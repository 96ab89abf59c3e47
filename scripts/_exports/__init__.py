"""scripts/export_table in parts: `vision` and `sequences` build, `exporting` writes, `judging` compares."""
