from adk_fluent.a2a.card import AgentCard as AgentCard
from adk_fluent.a2a.directory import AgentDirectory as AgentDirectory
from adk_fluent.a2a.directory import FoundAgent as FoundAgent
from adk_fluent.a2a.hosting import DirectoryServer as DirectoryServer
from adk_fluent.expr.remote import RemoteAgent as RemoteAgent
from adk_fluent.ir.annotations import AuthConfig as AuthConfig
from adk_fluent.ir.annotations import RetryConfig as RetryConfig
