"""An analyst's report becomes a file in versions, a table and a picture reach the models.

python examples/artifacts.py
"""

import asyncio
import base64
import os
from typing import Any

from adk_fluent import A, Agent, C, S
from adk_fluent.backends import ADKBackend, MockBackend
from adk_fluent.testing import mock_backend

# One grey pixel, in the place of a chart.
CHART = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
sales = [{"tea": "green", "sold": 12}, {"tea": "black", "sold": 7}]

analyst = Agent("analyst").instruct("Sum up {artifact.sales.csv}").writes("report")
critic = Agent("critic").context(C.none() + A.for_llm("chart.png") + A.for_llm("report.md")).writes("report")

pipeline = (
    S.set(sales=sales)
    >> A.publish("sales.csv")
    >> A.save("chart.png", CHART)
    >> analyst.artifacts(A.publish("report.md"))
    >> critic.artifacts(A.publish("report.md", metadata={"reviewed": True}))
    >> A.version("report.md")
    >> A.list()
)


async def main() -> None:
    print("warnings:", pipeline.check().warnings)
    script = {"analyst": "# Green tea leads", "critic": "# Green tea leads by far"}
    backend = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(script)
    result = await pipeline.run("How are sales?", backend=backend)
    for event in result:
        if event.artifact_delta:
            print(event.author, "saved", event.artifact_delta)
    if isinstance(backend, MockBackend):
        show_requests(backend)
    print("files:", result.state["artifacts"], "latest version:", result.state["report_version"])


def show_requests(backend: MockBackend) -> None:
    told: Any = backend.calls["analyst"][0].config
    print("analyst was told:", told.system_instruction.splitlines()[0])
    for content in backend.calls["critic"][0].contents:
        print("critic was shown:", [part.text or "a picture" for part in content.parts or ()])


if __name__ == "__main__":
    asyncio.run(main())
