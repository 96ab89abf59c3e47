#!/usr/bin/env python3
"""Write docs/later_forms.md from onnx's schemas: operators of old files that are read in a later form.

Needs the project's environment: `.venv/bin/python scripts/make_later_forms.py`. With --check it writes nothing and
fails if the page is out of date; a test does that.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise

from _environment import ROOT
from onnx import AttributeProto, defs

from bnfold.converting import registry, steps  # noqa: F401 - importing the steps registers them
from bnfold.ir.forms import SchemaForm, form_of
from bnfold.ir.schemas import schema_of, versions_of

PAGE = ROOT / "docs" / "later_forms.md"
NEWEST = 17
"""The newest opset whose forms are listed: the lowest and the newest supported onnx agree up to it."""
HEAD = f"""\
# Old files in a later form

Some exporters wrote operators that are newer than the opset that the file declares. If a node does not fit its
declared version (its attributes, their types, the number of its inputs or outputs), the upgrade reads it as the next
later version that it fits, up to the target opset, and if there is none as the newest earlier version that it fits (a
`Cast` of opset 6 whose `to` is a text). The report then lists a repair of kind `later-form` or `earlier-form`. A node
that fits its declared version is read as that, and one that fits no version stays as it was. BatchNormalization and
InstanceNormalization are read by meaning at every version.

The table has the forms that give a newer operator away, for each version up to opset {NEWEST}. One of them is enough,
if the rest of the node fits too. `scripts/make_later_forms.py` writes this page from onnx's schemas.

| operator | of a version before | with | is read as |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    names = {schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain}
    rows = []
    for name in sorted(names - registry.BY_MEANING.keys()):
        versions = [v for v in versions_of(name) if v <= NEWEST and not schema_of(name, v).deprecated]
        for old, new in pairwise(versions):
            if additions := _additions(form_of(name, old), form_of(name, new)):
                rows.append(f"| {name} | {new} | {'; '.join(additions)} | {name}-{new} |\n")
    return HEAD + "".join(rows)


def _additions(old: SchemaForm, new: SchemaForm) -> list[str]:
    """Describe the inputs and attributes that the new form allows and the old one does not."""
    attributes = [
        f"`{name}`{f' as {_name(kind)}' if name in old.attributes else ''}"
        for name, kind in sorted(new.attributes.items())
        if old.attributes.get(name) != kind
    ]
    without = [f"no `{name}`" for name in sorted(old.required & new.attributes.keys() - new.required)]
    return attributes + without + _counts("input", old.inputs, new.inputs) + _counts("output", old.outputs, new.outputs)


def _name(kind: AttributeProto.AttributeType) -> str:
    name: str = AttributeProto.AttributeType.Name(kind)
    return name.lower()


def _counts(what: str, old: range, new: range) -> list[str]:
    more = [number for number in range(new.start, min(new.stop, 16)) if number not in old]
    if not more:
        return []
    return [f"{' or '.join(map(str, more))} {what}{'s' if more != [1] else ''}"]


def main() -> int:
    """Parse the arguments, write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    if parser.parse_args().check:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE} is out of date: run scripts/make_later_forms.py", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
