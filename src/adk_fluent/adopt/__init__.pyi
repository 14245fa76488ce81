from adk_fluent.adopt.adopting import adopt as adopt
from adk_fluent.adopt.adopting import config_of as config_of
from adk_fluent.adopt.source import to_source as to_source
