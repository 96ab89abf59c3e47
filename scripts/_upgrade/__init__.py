"""The parts of scripts/upgrade_table.py: `models`, `convert`, the child that upgrades, and `judging`."""
