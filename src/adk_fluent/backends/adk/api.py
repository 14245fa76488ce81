"""The interface of the ADK backend: all that the rest of adk-fluent uses of it.

`./dev lint` refuses every other import of what is below `backends/adk`. Names are imported on first use. Some
are modules: their functions belong together, and are used as `places.is_shared(...)`.

Run expressions on ADK

- `ADKBackend`: compiles expressions to native ADK objects and runs them on ADK's runner.
- `BackendOver`: the base of backends that run expressions as another backend does, and add something.
- `Compiled`: an expression as a native app, with what is needed to run it.
- `Services`: where the sessions, artifacts, memories and credentials of a run are kept.
- `DEFAULT_USER`: the user of a run that names none.
- `default_backend`: the backend of runs that name none.
- `fresh_services`: services in memory that no other run uses.
- `build`: the native agent, or workflow, of an expression, for ADK's own tools.
- `knowingly`: uses of ADK's experimental and deprecated parts without its warnings.
- `can_pause`: whether a run of an expression may stop to wait for a person.
- `OpenTools`: what the tools of an expression hold open, such as connections to MCP servers.
- `close_inside`: closes the middleware of an expression.

Take over what was made with ADK alone

- `AddedPlugin`: the base of plugins that an app gets because of the expression it is compiled from.
- `without_crossings`: a tree without what compiling adds where its parts run elsewhere.
- `made_with`: what ADK's agent for a remote one was made with.
- `Scripting`: copies of native agents and their tools with scripted models.
- `BEHIND`: the attribute of a function that ADK calls for a user's, which holds that.

Answer in the place of models and tools

- `scripting`: the base of backends that ask no agent's own model, and the models that their names mean.
- `Script`: the responses of one agent, in order.
- `ScriptedLlm`: the model that gives them.
- `Response`: what a script can hold.
- `ToolCall`: a function call that a scripted model makes.
- `ModelRequest`: a request to a model, as tests read it.
- `check_script`: refuses what can never be a response.
- `around`: what runs in the place of a tool's call, or around it.
- `Replacing`: the base of plugins that put other tools in the place of an agent's.
- `injected_names`: the resources that the functions of an expression are given.

Record runs and play them again

- `parts`: ADK's messages, responses, actions and events from their JSON.
- `recorded`: the artifacts that a run finds and saves, and how a replay restores them.
- `Answering`: what answers calls of a remote agent in the place of its process.
- `event_of`: a recorded response of a remote agent as the event that it was.
- `as_outcome`: marks the error of a recorded tool call, so that it counts as raised by the tool.
- `works_inside`: whether a tool acts inside the run alone, so that a replay runs it.
- `stores_what_plugins_give`: whether the installed ADK stores the event that a plugin returns.
- `clock_of_events`: the clock that dates ADK's events.
- `ids`: where ADK gets ids, time and chance from, for runs that are run again from their history.

Ask, store and spread

- `approvals`: questions to people in ADK's events, and their answers.
- `REFUSED`: the metadata key of an event that tells that a person refused.
- `close`: what closes a resource that functions are given, as users mark it.
- `VisibilityPlugin`: marks every event with whether the user should see it.
- `sqlite`: session stores in SQLite files, and turns of those who write to one.
- `places`: where artifacts are kept, and whether other processes find them there.
- `segments`: the parts of an expression that run elsewhere, and what crosses to them and back.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
