"""A misspelt key, in adk-fluent."""

from adk_fluent import Agent

research = Agent("research").instruct("Find facts.").writes("facts")
pipeline = research >> Agent("writer").instruct("Write with {fact}.")

print("before:", *pipeline.check().errors, sep="\n")
