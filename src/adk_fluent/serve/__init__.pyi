from adk_fluent.ir.annotations import AuthConfig as AuthConfig
from adk_fluent.serve.limits import Authenticate as Authenticate
from adk_fluent.serve.limits import ServeLimits as ServeLimits
from adk_fluent.serve.server import A2AServer as A2AServer
