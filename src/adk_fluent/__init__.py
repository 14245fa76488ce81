"""adk-fluent: a fluent, typed expression layer over Google's Agent Development Kit.

    from adk_fluent import Agent, Route

    classifier = Agent("classifier", model).instruct("Classify.").writes("intent")
    pipeline = classifier >> Route("intent").eq("booking", booker)

Importing this package, and composing expressions with it, imports no part of ADK.
"""

from adk_fluent._lazy import lazy

__version__ = "0.1.0"
__getattr__ = lazy(__name__)
