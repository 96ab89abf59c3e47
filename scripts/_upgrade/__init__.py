"""scripts/upgrade_table in parts: `models` says which, `convert` is the child that upgrades, `judging` compares."""
