"""Alterations of bnfold's own code, and whether its verification, or its tests, notice them."""
