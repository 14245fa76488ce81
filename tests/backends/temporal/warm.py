"""Imported by the process from which workers are forked: does once what each would do at its start."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from adk_fluent.backends.temporal import worker

asyncio.run(cast(Any, worker)._warm())
