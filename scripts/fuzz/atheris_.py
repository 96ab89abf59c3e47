"""Mode ``bytes`` under atheris: start `fuzz.guided`, collect its findings, start it again until the time is over."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from fuzz import seeds, watch
from fuzz.campaign import SCRIPTS, WALL_SECONDS, Campaign

BOUT_SECONDS = 300.0
MEMORY_MIB = 2048
LARGEST = 1 << 16


def is_there() -> bool:
    """Whether atheris is installed (``pip install atheris``); it is made for Linux and macOS."""
    return find_spec("atheris") is not None


def run(campaign: Campaign, *, seconds: float, count: int, seed: int) -> None:
    """Run as `Campaign.run`, guided by coverage; the campaign judges each finding again and shrinks it."""
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        corpus = (campaign.corpus or folder) / "libfuzzer"
        corpus.mkdir(parents=True, exist_ok=True)
        for path in seeds.small():
            (corpus / path.name).write_bytes(path.read_bytes())
        known: set[str] = set()
        slow = folder / "slow"
        slow.mkdir()
        while count > 0 and (left := ends - time.monotonic()) > 1:
            # libFuzzer's memory grows, and its limit is one for the whole process: start it anew after a while.
            executed, artifact = _once(folder, corpus, known, min(left, BOUT_SECONDS), count, seed)
            seed += 1
            campaign.totals.executions += executed
            count -= max(executed, 1)
            for path in sorted(slow.iterdir()):  # slow because of the instrumentation, perhaps: judged again without it
                campaign.take(path)
                path.unlink()
            if artifact is None and executed == 0:
                break
            if artifact is None:
                continue
            found = campaign.take(artifact) or f"{artifact.name.split('-')[0]}: seen under atheris only"
            if watch.kind(found) in known:
                break  # libFuzzer cannot pass over this finding, so it would stop there again
            known.add(watch.kind(found))
            if found.endswith("only"):
                campaign.found(found, artifact)


def _once(
    folder: Path, corpus: Path, known: set[str], seconds: float, count: int, seed: int
) -> tuple[int, Path | None]:
    """Run libFuzzer once; return the number of inputs that it tried, and the input at which it stopped."""
    (folder / "known").write_text("\n".join(sorted(known)), encoding="utf-8")
    artifacts = folder / f"found{len(known)}"
    artifacts.mkdir(exist_ok=True)
    options = {
        "max_total_time": int(seconds) or 1, "runs": min(count, 2**31 - 1), "seed": seed % 2**31 + 1,
        "max_len": LARGEST, "timeout": int(WALL_SECONDS), "report_slow_units": 1 << 30,
        "rss_limit_mb": MEMORY_MIB, "malloc_limit_mb": MEMORY_MIB,
        "print_final_stats": 1, "artifact_prefix": f"{artifacts}/",
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "fuzz.guided",
        str(corpus),
        *(f"-{key}={value}" for key, value in options.items()),
    ]
    environment = watch.environment() | {"FUZZ_KNOWN": str(folder / "known"), "FUZZ_SLOW": str(folder / "slow")}
    done = subprocess.run(
        command, cwd=SCRIPTS, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    counted = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr) or re.search(r"Done (\d+) runs", done.stderr)
    artifact = next(iter(sorted(artifacts.iterdir())), None)
    if artifact is None and done.returncode:
        raise RuntimeError(f"atheris ended with {done.returncode}: {done.stderr[-2000:]}")
    return int(counted[1]) if counted else 0, artifact
