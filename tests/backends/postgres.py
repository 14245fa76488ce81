"""A PostgreSQL server of the test's own, in a folder of its own, on 127.0.0.1."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.limits import LIMIT
from tests.services import free_port, program


def programs() -> Path:
    """The folder of PostgreSQL's server programs."""
    found = program("initdb")
    assert found is not None, "PostgreSQL's server programs are needed: apt-get install postgresql"
    return Path(found).parent


class Postgres:
    """A server that can be stopped and started again; as it refuses to run as root, root runs it as another.

    Attributes:
        url: for `DatabaseSessionService`.
    """

    def __init__(self) -> None:
        self._programs = programs()
        self._user: str | None = None
        place = None
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            self._user = "postgres" if "postgres" in names else "nobody"
            place = "/tmp"  # TMPDIR may lie in a folder that only root can enter
        self._folder = Path(tempfile.mkdtemp(prefix="adk-fluent-postgres-", dir=place))
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._port = free_port()
        self.url = f"postgresql+asyncpg://tester@127.0.0.1:{self._port}/postgres"
        self._do("initdb", "-A", "trust", "-U", "tester", "--no-sync", "--encoding=UTF8", "--locale=C")

    def _do(self, name: str, *arguments: str) -> None:
        command = [str(self._programs / name), "-D", str(self._folder / "data"), *arguments]
        subprocess.run(
            command, check=True, user=self._user, cwd=self._folder, stdout=subprocess.DEVNULL, timeout=LIMIT
        )

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._do("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """End it at once, as a crash would: every connection breaks."""
        self._do("pg_ctl", "-w", "-m", "immediate", "stop")

    @property
    def runs(self) -> bool:
        """Whether it was started and not stopped."""
        return (self._folder / "data" / "postmaster.pid").exists()

    def close(self) -> None:
        """End it, and remove what it left."""
        if self.runs:
            self.stop()
        shutil.rmtree(self._folder)
