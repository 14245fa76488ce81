from adk_fluent.eval.cases import FluentCase as FluentCase
from adk_fluent.eval.comparing import RegressionReport as RegressionReport
from adk_fluent.eval.judges import FluentJudge as FluentJudge
from adk_fluent.eval.metrics import PrebuiltMetrics as PrebuiltMetrics
from adk_fluent.eval.report import FluentEvalReport as FluentEvalReport
from adk_fluent.eval.report import TagSummary as TagSummary
from adk_fluent.eval.simulation import UserSimulation as UserSimulation
from adk_fluent.eval.suite import FluentEvalSuite as FluentEvalSuite
