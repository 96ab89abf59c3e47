"""scripts/export_table.py in parts: `vision` and `sequences` build, `exporting` writes, `judging` compares."""
