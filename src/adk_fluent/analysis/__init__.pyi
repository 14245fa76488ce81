from adk_fluent.analysis.facts import Facts as Facts
from adk_fluent.analysis.facts import analyse as analyse
