from adk_fluent.local.llm import LocalLlm as LocalLlm
