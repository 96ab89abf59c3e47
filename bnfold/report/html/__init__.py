"""The report as one HTML file that needs nothing else: no network, no script it does not carry, no framework."""

from __future__ import annotations

from bnfold.report.html.page import html

__all__ = ["html"]
