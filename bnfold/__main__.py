"""``python -m bnfold``."""

from bnfold.cli import main

main(prog_name="bnfold")
