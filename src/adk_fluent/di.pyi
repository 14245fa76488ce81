from adk_fluent.backends.adk.api import close as close
from adk_fluent.ir.resources import Resource as Resource
