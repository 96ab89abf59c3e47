"""The types of what the functions take and return, for annotations: all that a field or an argument may hold.

What is taken: `Source`, `Output`, `Opset`, `Tolerance`, `Progress`, and the fields of `bnfold.Options` as keywords,
`OptionFields`.
What stands in an `Outcome`: in its `Report` (`BatchNormEvent`, …), in its `Verdict` (`Code`, `Evidence`, …), and a
`StepRow` for each step of another program.
"""

from bnfold.api import OnnxProgram, Output, Source
from bnfold.batch.worker import Counts
from bnfold.ir.cut import Cut, ScaledValue, SelectedValue
from bnfold.pipeline.chain import StepRow
from bnfold.report.events import BatchNormEvent, NormalizationRow
from bnfold.report.growth import Growth
from bnfold.report.other_events import ChannelEvent, EqualizeEvent, RewriteCount, SimplifyEvent
from bnfold.report.reasons import Reason, SearchTrace
from bnfold.report.rewrites import Rewrite
from bnfold.report.totals import Products, Totals
from bnfold.semantics import Repair
from bnfold.settings import Opset, OptionFields, Tolerance
from bnfold.settings.progress import Progress
from bnfold.verification import Code, Evidence, Experiment, Explained, Location, NextStep, OutputRow, RuntimeRow, Why

__all__ = [
    "BatchNormEvent",
    "ChannelEvent",
    "Code",
    "Counts",
    "Cut",
    "EqualizeEvent",
    "Evidence",
    "Experiment",
    "Explained",
    "Growth",
    "Location",
    "NextStep",
    "NormalizationRow",
    "OnnxProgram",
    "Opset",
    "OptionFields",
    "Output",
    "OutputRow",
    "Products",
    "Progress",
    "Reason",
    "Repair",
    "Rewrite",
    "RewriteCount",
    "RuntimeRow",
    "ScaledValue",
    "SearchTrace",
    "SelectedValue",
    "SimplifyEvent",
    "Source",
    "StepRow",
    "Tolerance",
    "Totals",
    "Why",
]
