from adk_fluent.analysis.visibility import infer_visibility as infer_visibility
from adk_fluent.backends.adk.api import VisibilityPlugin as VisibilityPlugin
from adk_fluent.ir.annotations import Visibility as Visibility
