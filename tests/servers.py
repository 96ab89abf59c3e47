"""A real FTP server for the tests of URLs: every process reaches it, it renames, and a test can watch it."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Asked = Callable[[str, Path, int], None]
"""(command, file, the client's port)"""


@contextmanager
def ftp(folder: Path, asked: Asked = lambda *_: None) -> Iterator[str]:
    """Serve ``folder``; the URL, which holds a password. ``asked`` is told of each transfer after it has begun."""
    pytest.importorskip("fsspec")
    pytest.importorskip("pyftpdlib")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of asyncore, which it uses up to Python 3.11
        from pyftpdlib.authorizers import DummyAuthorizer
        from pyftpdlib.handlers import FTPHandler
        from pyftpdlib.servers import FTPServer

    logging.getLogger("pyftpdlib").setLevel(logging.ERROR)
    authorizer = DummyAuthorizer()
    authorizer.add_user("me", "secret", str(folder), perm="elradfmwMT")

    class Handler(FTPHandler):  # type: ignore[misc] # a package without types
        def ftp_RETR(self, file: str) -> Any:  # noqa: N802 - the command's name
            answer = super().ftp_RETR(file)
            asked("RETR", Path(file), self.remote_port)
            return answer

        def ftp_STOR(self, file: str, mode: str = "w") -> Any:  # noqa: N802
            answer = super().ftp_STOR(file, mode)
            asked("STOR", Path(file), self.remote_port)
            return answer

    Handler.authorizer = authorizer
    server = FTPServer(("127.0.0.1", 0), Handler)
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            server.serve_forever(timeout=0.05, blocking=False, handle_exit=False)
        server.close_all()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"ftp://me:secret@127.0.0.1:{server.address[1]}"
    finally:
        stopped.set()
        thread.join()
