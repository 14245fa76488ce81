"""What is deployed of a segment: its inputs, outputs, queue and start command, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from adk_fluent.analysis.cuts import Hearing
from adk_fluent.ir.endpoints import place_of_queue

if TYPE_CHECKING:
    from adk_fluent.ir.annotations import TransportConfig
    from adk_fluent.ir.state_keys import StateFieldRef

VERSION: Final = 1
"""The version of the JSON form."""

TARGET: Final = "TARGET"
"""What stands in a start command for `module:attribute`, which only who deploys knows."""


@dataclass(frozen=True, slots=True)
class Port:
    """A state key that crosses.

    Attributes:
        key: the key, scope prefix included.
        schema: the JSON schema of its value; empty where no `StateSchema` has the key.
        field: the schema field it is, such as `Billing.intent`; `None` where there is none.
    """

    key: str
    schema: Mapping[str, Any]
    field: str | None = None

    @classmethod
    def of(cls, key: str, fields: Mapping[str, StateFieldRef]) -> Port:
        """The port of a key, given the schema fields of the pipeline."""
        ref = fields.get(key)
        if ref is None:
            return cls(key, {})
        from adk_fluent.state.field_types import field_type

        owner = ref.schema.__name__ if ref.schema is not None else "State"
        return cls(key, field_type(ref).adapter.json_schema(), f"{owner}.{ref.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is deployed of a segment.

    Attributes:
        segment: its name.
        app_name: the name of its ADK app.
        index: its place among the segments of the pipeline.
        ir_hash: the hash of its graph; workers and callers of one pipeline agree on it.
        inputs: the keys that come in; `None` if the whole state does.
        outputs: the keys that it is known to write.
        open_outputs: whether it may write more.
        hears: what of the conversation comes in.
        files: the artifacts it uses; its workers need the artifact service of their callers (`--artifacts`).
        serialization: what crosses is written as this.
        isolation: what it shares with its caller.
        queue: the queue that its workers serve.
        endpoint: where that queue is; `None` if only who deploys knows.
        min_instances: workers there are at least.
        max_instances: workers there are at most.
        previous: the segment before, if there is one.
        next: the segment after, if there is one.
    """

    segment: str
    app_name: str
    index: int
    ir_hash: str
    inputs: tuple[Port, ...] | None
    outputs: tuple[Port, ...]
    open_outputs: bool
    hears: Hearing
    serialization: Literal["json", "protobuf", "arrow"]
    isolation: Literal["none", "process", "container"]
    queue: str
    endpoint: str | None
    min_instances: int
    max_instances: int
    previous: str | None
    next: str | None
    files: tuple[str, ...] = ()

    def command(self, target: str = TARGET, *, address: str | None = None) -> tuple[str, ...]:
        """What starts a worker of the segment, in any image that has the package and the pipeline.

        Args:
            target: the pipeline, as `module:attribute`.
            address: host and port of the Temporal server; by default one on the worker's own machine.
        """
        where = () if address is None else ("--address", address)
        return ("adk-fluent", "worker", target, "--segment", self.segment, *where)

    def dockerfile(
        self, target: str = TARGET, *, image: str = "python:3.12-slim", address: str | None = None
    ) -> str:
        """What builds a container of the segment, from the folder that holds the pipeline.

        The folder's `requirements.txt` names adk-fluent with the extras that the segment needs. The worker
        runs as a user without rights, and as process 1, so that it is told when the container is to stop.

        Args:
            target: the pipeline, as `module:attribute`.
            image: the image to start from; give its digest where builds are to be repeated exactly.
            address: as for `command`.
        """
        labels = {"segment": self.segment, "queue": self.queue, "ir_hash": self.ir_hash}
        said = " ".join(f"adk_fluent.{name}={json.dumps(value)}" for name, value in labels.items())
        return "\n".join(
            [
                f"FROM {image}",
                f"LABEL {said}",
                "WORKDIR /app",
                "COPY requirements.txt .",
                "RUN pip install --no-cache-dir -r requirements.txt",
                "COPY . .",
                "RUN useradd --system --no-create-home worker",
                "USER worker",
                f"CMD {json.dumps(list(self.command(target, address=address)))}",
                "",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The manifest as JSON-able data."""
        hears = self.hears
        return {
            "version": VERSION,
            **{name: value for name, value in asdict(self).items() if name != "hears"},
            "inputs": None if self.inputs is None else [asdict(port) for port in self.inputs],
            "outputs": [asdict(port) for port in self.outputs],
            "files": list(self.files),
            "conversation": {
                "authors": sorted(hears.authors),
                "earlier": sorted(hears.earlier),
                "user": hears.user,
            },
            "command": list(self.command()),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Manifest:
        """The manifest that `to_dict` gave; what a newer version adds is left out."""
        known: dict[str, Any] = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        said = cast("Mapping[str, Any]", data["conversation"])
        known["hears"] = Hearing(frozenset(said["authors"]), frozenset(said["earlier"]), bool(said["user"]))
        known["inputs"] = None if data["inputs"] is None else _ports(data["inputs"])
        known["outputs"] = _ports(data["outputs"])
        known["files"] = tuple(data.get("files") or ())
        return cls(**known)


def _ports(data: list[Mapping[str, Any]]) -> tuple[Port, ...]:
    return tuple(Port(port["key"], port["schema"], port.get("field")) for port in data)


def queue_of(transport: TransportConfig | None, default: str) -> str:
    """The name of a queue: the end of the endpoint's path, else `default`."""
    endpoint = None if transport is None else transport.endpoint
    return default if endpoint is None else place_of_queue(endpoint).queue
