"""Two branches write one key, in adk-fluent."""

from adk_fluent import Agent

web = Agent("web").instruct("Search the web.").writes("found")
docs = Agent("docs").instruct("Search the docs.").writes("found")

print("before:", *(web | docs).check().warnings, sep="\n")
