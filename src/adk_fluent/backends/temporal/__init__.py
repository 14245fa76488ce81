"""Runs on Temporal: a run is a workflow, and all that has an effect in it is an activity.

The compiled tree of agents runs inside the workflow, as on ADK's own runner: it only decides. Each question
to a model, each call of a tool, a callback or a function is an activity, which a worker does; what it gave is
in the history of the workflow, so that after a crash the tree is run again up to where it was, and nothing
that is done is done again.
"""

from importlib.util import find_spec

from adk_fluent.errors import MissingExtraError, install

if find_spec("temporalio") is None:
    raise MissingExtraError(
        f"TemporalBackend and its workers need the package temporalio. Install it: {install('temporal')}."
    )
