#!/usr/bin/env python
"""Kill `bnfold optimize` at random moments; the output must be the old state or the new one, complete and usable.

    .venv/bin/python scripts/kill_test.py --count 1000

Settings: a new output, one that replaces another, in place, each with the weights inside and in a data file. Half of
the moments are drawn over the whole life of the process, half from its first temporary file on. After every kill
model and data file must have the bytes of the old state or of the new one, and the next run must succeed, give the new
state and leave no temporary file. Exit code 1 if anything else was found.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import _environment
import onnx
from _bench.generate import chain, save_external

State = dict[str, bytes]
"""The content of the files that make up a model, by name."""
NONE: State = {}
KINDS = ("new", "replacing", "in place")


@dataclass
class Setting:
    """One way to run the command: the previous state of the folder, the options, the expected state."""

    name: str
    home: Path
    in_place: bool
    old: State = field(default_factory=dict)
    new: State = field(default_factory=dict)
    life: float = 1.0
    work: float = 0.1

    @property
    def folder(self) -> Path:
        """The folder that the command runs in."""
        return self.home / "work"

    @property
    def output(self) -> Path:
        """The file that the command writes."""
        return self.folder / ("in.onnx" if self.in_place else "out.onnx")

    def command(self, *, verify: bool) -> list[str]:
        """Return the command line."""
        paths = [str(self.folder / "in.onnx"), str(self.output)]
        flags = ["--in-place"] if self.in_place else []
        flags += [] if verify else ["--no-verify"]
        return [sys.executable, "-m", "bnfold", "optimize", *paths, "-q", *flags]

    def reset(self) -> None:
        """Restore the state before the run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.home / "before", self.folder)

    def run(self) -> None:
        """Run once, undisturbed."""
        started = time.monotonic()
        subprocess.run(self.command(verify=False), check=True, cwd=_environment.ROOT)
        self.life = 0.7 * self.life + 0.3 * (time.monotonic() - started)

    def state(self) -> State:
        """Return the model at the output with its data file; nothing if there is none."""
        return state(self.output)

    def temporary(self) -> int:
        """Count temporary files."""
        return sum(path.name.startswith(".bnfold-") for path in self.folder.iterdir())


def state(path: Path) -> State:
    """Return the bytes of a model file and of the data files it refers to."""
    if not path.exists():
        return NONE
    model = onnx.load(path, load_external_data=False)
    entries = (entry for tensor in model.graph.initializer for entry in tensor.external_data)
    names = {entry.value for entry in entries if entry.key == "location"}
    return {name: (path.parent / name).read_bytes() for name in (path.name, *sorted(names))}


def content(path: Path) -> bytes:
    """Return the model with its weights inside, wherever they are kept."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        tensor.ClearField("data_location")
    encoded: bytes = model.SerializeToString(deterministic=True)
    return encoded


def prepare(home: Path, layers: int, *, in_place: bool, external: int, replaces: bool) -> Setting:
    """Lay out a setting and find its old and its new state."""
    name = "in place" if in_place else "replacing" if replaces else "new"
    setting = Setting(f"{name}{', external data' if external else ''}", home, in_place=in_place)
    before = home / "before"
    for place, count in (("other", layers - 1), ("before", layers)):
        (home / place).mkdir(parents=True)
        net = chain(count, 96, 3)
        if external:
            save_external(net, home / place / "model.onnx")
            net_file = home / place / "model.onnx"
        else:
            net_file = home / place / "model.onnx"
            net_file.write_bytes(net.model().SerializeToString())
        net_file.rename(home / place / "in.onnx")
    if replaces:
        arguments = [str(home / "other" / "in.onnx"), str(before / "out.onnx"), "-q", "--no-verify"]
        subprocess.run([sys.executable, "-m", "bnfold", "optimize", *arguments], check=True, cwd=_environment.ROOT)
    setting.reset()
    setting.old = setting.state()
    for _ in range(2):
        setting.reset()
        setting.run()
    setting.new = setting.state()
    assert setting.old != setting.new, "the states must differ for the test to tell anything"
    return setting


def kill(setting: Setting, draw: random.Random) -> str:
    """Run and kill once; return the findings, for the statistics."""
    setting.reset()
    aimed, verify = draw.random() < 0.5, draw.random() < 0.25
    process = subprocess.Popen(setting.command(verify=verify), cwd=_environment.ROOT, start_new_session=True)
    if aimed:
        while process.poll() is None and not setting.temporary():
            time.sleep(0.0003)
        started = time.monotonic()
        delay = draw.uniform(0, setting.work * (4 if verify else 1))
    else:
        delay = draw.uniform(0, setting.life * (1.5 if verify else 1.05))
    try:
        process.wait(delay)
        if aimed:
            setting.work = 0.8 * setting.work + 0.2 * (time.monotonic() - started)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    ended = process.wait() == 0
    left = setting.temporary()
    found = setting.state()
    if found not in (setting.old, setting.new):
        raise AssertionError(f"{setting.name}: the output is neither the old state nor the new: {sorted(found)}")
    which = "new" if found == setting.new else "old"
    setting.run()
    if setting.temporary():
        raise AssertionError(f"{setting.name}: the next run left temporary files")
    if content(setting.output) != content_of(setting):
        raise AssertionError(f"{setting.name}: the next run made something else")
    return f"{which} state, " + ("ended before the kill" if ended else f"killed, {left} temporary files left")


_contents: dict[str, bytes] = {}


def content_of(setting: Setting) -> bytes:
    """Return the model that the setting has to end with."""
    if setting.name not in _contents:
        setting_folder = setting.home / "new"
        setting_folder.mkdir()
        for name, data in setting.new.items():
            (setting_folder / name).write_bytes(data)
        _contents[setting.name] = content(setting_folder / setting.output.name)
    return _contents[setting.name]


def main() -> int:
    """Run the settings; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="how many kills")
    parser.add_argument("--layers", type=int, default=24, help="Conv + BatchNormalization in the model, 333 kB each")
    parser.add_argument("--kind", choices=KINDS, action="append", help="what becomes of the output; all by default")
    parser.add_argument("--external", type=int, choices=(0, 1), action="append", help="weights in a data file, or not")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw, counts, failures = random.Random(arguments.seed), Counter[tuple[str, str]](), 0
    with tempfile.TemporaryDirectory(prefix="kill-test-") as folder:
        settings = [
            prepare(Path(folder) / f"{index}", arguments.layers, in_place=kind == "in place", external=external,
                    replaces=kind == "replacing")
            for index, (kind, external) in enumerate(product(arguments.kind or KINDS, arguments.external or (0, 1)))
        ]  # fmt: skip
        for number in range(arguments.count):
            setting = settings[number % len(settings)]
            try:
                counts[setting.name, kill(setting, draw)] += 1
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                failures += 1
                print(f"kill {number}: {error}", flush=True)
            if number % 100 == 99:
                print(f"{number + 1} runs, {failures} failures so far", file=sys.stderr, flush=True)
    for (name, found), count in sorted(counts.items()):
        print(f"{count:5}  {name}: {found}")
    print(f"{sum(counts.values()) + failures} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
