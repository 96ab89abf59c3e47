"""``python -m bnfold``."""

from bnfold.cli import run

run()
