"""Mode ``bytes`` under atheris, which keeps the inputs that reach new code: `python -m fuzz.guided` is a libFuzzer.

Its arguments are libFuzzer's. Findings whose kinds are in the file that FUZZ_KNOWN names are passed over. Slow inputs
go to the folder that FUZZ_SLOW names: instrumented code is slow, so they are judged again without instrumentation.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import sys
import time
from pathlib import Path

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np


def main() -> None:
    """Run libFuzzer, which ends the process."""
    with atheris.instrument_imports(include=["bnfold"]):
        import bnfold

        for module in pkgutil.walk_packages(bnfold.__path__, "bnfold."):
            if not module.name.endswith(("__main__", "worker")):
                importlib.import_module(module.name)
    from fuzz import bytes_, watch
    from fuzz.modes import HANG_SECONDS
    from fuzz.scramble import mutate

    known = set(Path(os.environ["FUZZ_KNOWN"]).read_text(encoding="utf-8").splitlines())
    slow = Path(os.environ["FUZZ_SLOW"])

    def one(data: bytes) -> None:
        begin = time.process_time()
        error = bytes_.examine(data).error
        if time.process_time() - begin > HANG_SECONDS:
            (slow / hashlib.sha256(data).hexdigest()[:10]).write_bytes(data)
        if error and watch.kind(error) not in known:
            raise AssertionError(error)

    def change(data: bytes, largest: int, seed: int) -> bytes:
        """Change the input: half the time with libFuzzer's blind changes, else with those of `scramble`."""
        if seed % 2:
            return bytes(atheris.Mutate(data, largest))
        return mutate(data, np.random.default_rng(seed))[:largest]

    atheris.Setup(sys.argv, one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
