"""A misspelt key, in adk-fluent."""

from adk_fluent import Agent
from adk_fluent.errors import ADKFluentError
from adk_fluent.testing import mock_backend

research = Agent("research").instruct("Find facts.").writes("facts")
pipeline = research >> Agent("writer").instruct("Write with {fact}.")

print("before:", *pipeline.check().errors, sep="\n")
script = mock_backend({"research": "Tea is old.", "writer": "..."})
try:
    pipeline.ask("Tea", backend=script)
except ADKFluentError as error:
    print("asked:", *script.calls)
    print(f"run: {type(error).__name__}: {str(error).partition('. ')[0]}.")
