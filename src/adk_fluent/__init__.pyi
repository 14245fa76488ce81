from adk_fluent.backends.events import final_text as final_text
from adk_fluent.expr.agent import Agent as Agent
from adk_fluent.expr.artifacts import A as A
from adk_fluent.expr.base import FanOut as FanOut
from adk_fluent.expr.base import Loop as Loop
from adk_fluent.expr.base import Pipeline as Pipeline
from adk_fluent.expr.context import C as C
from adk_fluent.expr.preset import Preset as Preset
from adk_fluent.expr.remote import RemoteAgent as RemoteAgent
from adk_fluent.expr.steps import Route as Route
from adk_fluent.expr.steps import agent as agent
from adk_fluent.expr.steps import gate as gate
from adk_fluent.expr.steps import loop_until as loop_until
from adk_fluent.expr.steps import tap as tap
from adk_fluent.expr.steps import transfer as transfer
from adk_fluent.expr.steps import until as until
from adk_fluent.expr.tools import T as T
from adk_fluent.expr.transforms import S as S
from adk_fluent.expr.workflow import map_over as map_over
from adk_fluent.expr.workflow import race as race
from adk_fluent.prompt.factories import P as P
from adk_fluent.state.schema import StateSchema as StateSchema

__version__: str
