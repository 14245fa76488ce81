from adk_fluent.telemetry.names import ATTRIBUTES as ATTRIBUTES
from adk_fluent.telemetry.names import METRICS as METRICS
from adk_fluent.telemetry.setup import set_up as set_up
