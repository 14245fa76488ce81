"""Lazy packages: their public names are imported when they are first used.

The stub beside a lazy module (`__init__.pyi`) imports its public names; type checkers and editors read it.
The module itself takes its `__getattr__`, `__all__` and `__dir__` from `lazy`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os.path import exists
from sys import modules

from adk_fluent._exports import EXPORTS


def lazy(module: str) -> Callable[[str], object]:
    """Return a module's `__getattr__`, which imports a name from the module that defines it.

    The module also gets its `__all__` and `__dir__`. The names are those of its stub: `python -m codegen
    write` makes a table of them, so no source is read at run time.
    """
    public = sorted(EXPORTS[module])

    def get(name: str) -> object:
        home = EXPORTS[module].get(name)
        if home is None:
            folder = vars(modules[module]).get("__path__", [""])[0]
            if name.startswith("__") or exists(f"{folder}/{name}.py") or exists(f"{folder}/{name}"):
                # `from package import module` asks the package for the module first, and drops this error.
                raise AttributeError(f"{module} has no {name!r}")
            from difflib import get_close_matches  # this module is below `spelling`

            near = get_close_matches(name, public, n=1, cutoff=0.65)
            hint = f". Did you mean {near[0]!r}?" if near else f"; it has {', '.join(public)}."
            raise AttributeError(f"{module} has no {name!r}{hint}")
        value = getattr(
            __import__(home, fromlist=(name,)), name
        )  # as `from home import name`: it may be a module
        setattr(modules[module], name, value)
        return value

    vars(modules[module]).update(__all__=public, __dir__=partial(listing, module))
    return get


def listing(module: str) -> list[str]:
    """Return a module's public names for its `__dir__`, without the names that it imports.

    The public names are those of `__all__`, or the functions and classes that the module defines.
    """
    found = modules[module]
    if (said := getattr(found, "__all__", None)) is not None:
        return sorted(said)
    return sorted(
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    )
