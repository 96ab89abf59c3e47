"""The console command, and ``python -m bnfold``."""

from __future__ import annotations

import gc

from bnfold import startup, streams


def run() -> None:
    """The console command. What it leaves in memory goes with the process: searching it for cycles takes a tenth."""
    streams.fill_closed()
    startup.defer_onnx()
    main = startup.command()
    try:
        main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    run()
