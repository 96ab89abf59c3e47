"""The parts of scripts/upgrade_table: `models` lists them, `convert` is the child that upgrades, `judging` compares."""
