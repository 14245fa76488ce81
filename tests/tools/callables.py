"""Callables of every kind that ADK takes as a tool, by name.

`test_declarations.py` reads this file twice, once with postponed annotations.
"""

# ruff: noqa: D103
# pyright: basic

import dataclasses
import enum
import functools
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Annotated, Any, Literal, TypedDict

from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel, Field


class Trip(BaseModel):
    """A trip."""

    to: str
    days: int = 3


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    a: int


SHAPES: dict[str, Any] = {}


def shape(f):
    SHAPES[f.__name__] = f
    return f


@shape
def bare():
    return 1


@shape
def undocumented(city: str):
    return city


@shape
def undocumented_ret(city: str) -> str:
    return city


@shape
def documented(city: str) -> str:
    """Say the weather.

    Args:
        city: the city.
    """
    return city


@shape
async def a_undoc(city: str) -> str:
    return city


@shape
async def a_doc(city: str) -> str:
    """Doc."""
    return city


@shape
def gen(city: str) -> Generator[str, None, None]:
    yield city


@shape
def genit(city: str) -> Iterator[str]:
    """Doc."""
    yield city


@shape
async def agen(city: str) -> AsyncGenerator[str, None]:
    yield city


@shape
def with_ctx(city: str, tool_context: ToolContext) -> str:
    return city


@shape
def with_ctx_named(city: str, ctx: ToolContext) -> str:
    return city


@shape
def with_optional_ctx(city: str, ctx: ToolContext | None = None) -> str:
    return city


@shape
def untyped(a, b=2):
    return a


@shape
def untyped_ctx(a, tool_context):
    return a


@shape
def defaults(a: int = 1, b: str = "x", c: float = 1.5, d: bool = True, e: str | None = None) -> dict:
    return {}


@shape
def lit(a: Literal["x", "y"], b: Literal[1, 2] = 1) -> str:
    return a


@shape
def opt(a: str | None = None, b: int | None = None) -> str:
    return ""


@shape
def uni(a: int | str) -> str:
    return ""


@shape
def model(trip: Trip) -> Trip:
    return trip


@shape
def models(trips: list[Trip], by: dict[str, Trip] | None = None) -> list[Trip]:
    return trips


@shape
def optmodel(trip: Trip | None = None) -> None:
    return None


@shape
def enumed(c: Color) -> str:
    return ""


@shape
def enumdef(c: Color = Color.RED) -> str:
    return ""


@shape
def lists(a: list[str], b: list[list[int]], c: dict[str, Any], d: tuple[int, str]) -> list:
    return []


@shape
def barelist(a: list, b: dict) -> dict:
    return {}


@shape
def ann(a: Annotated[str, Field(description="what")], b: Annotated[int, "n"] = 1) -> str:
    return ""


@shape
def kwonly(a: str, *, b: int = 2) -> str:
    return a


@shape
def star(a: str, *args: str, **kwargs: Any) -> str:
    return a


@shape
def posonly(a: str, /, b: int) -> str:
    return a


@shape
def dc(p: Point) -> str:
    return ""


@shape
def td(r: Row) -> str:
    return ""


@shape
def anyp(a: Any, b: object = None) -> Any:
    return a


@shape
def emptydoc(a: str) -> str:
    ""
    return a


@shape
def indented(a: str) -> str:
    """
    Strange.

        More.
    """
    return a


@shape
def stream(input_stream: str, a: str) -> str:
    return a


def deco(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs)

    return inner


def deco_bad(f):
    def inner(*args, **kwargs):
        return f(*args, **kwargs)

    return inner


def deco_typed(f):
    @functools.wraps(f)
    def inner(city: str, n: int = 1):
        return f(city)

    return inner


SHAPES["decorated"] = deco(documented)
SHAPES["decorated_undoc"] = deco(undocumented)
SHAPES["decorated_ctx"] = deco(with_ctx)
SHAPES["decorated_bad"] = deco_bad(documented)
SHAPES["decorated_async"] = deco(a_doc)
SHAPES["decorated_typed"] = deco_typed(documented)
SHAPES["lambda0"] = lambda: 1
SHAPES["lambda1"] = lambda a, b=1: a


class K:
    """The class K."""

    def __init__(self, n: int = 1) -> None:
        self.n = n

    def doc(self, city: str) -> str:
        """M doc."""
        return city

    def undoc(self, city: str) -> str:
        return city

    @classmethod
    def cm(cls, city: str) -> str:
        return city

    @staticmethod
    def sm(city: str) -> str:
        return city

    async def am(self, city: str) -> str:
        return city

    def ctx(self, city: str, tool_context: ToolContext) -> str:
        return city


k = K()
for m in ("doc", "undoc", "cm", "sm", "am", "ctx"):
    SHAPES["method_" + m] = getattr(k, m)


class C1:
    """Object doc."""

    def __call__(self, city: str) -> str:
        """Call doc."""
        return city


class C2:
    def __call__(self, city: str) -> str:
        """Call doc."""
        return city


class C3:
    def __call__(self, city: str, n: int = 1) -> str:
        return city


class C4:
    async def __call__(self, city: str) -> str:
        return city


class C5:
    def __call__(self, city: str, tool_context: ToolContext) -> str:
        return city


class C6:
    def __init__(self):
        self.__name__ = "given"
        self.__doc__ = "inst doc"

    def __call__(self, city: str) -> str:
        return city


for c in (C1, C2, C3, C4, C5, C6):
    SHAPES["obj_" + c.__name__] = c()
SHAPES["class_model"] = Trip
SHAPES["class_dc"] = Point
SHAPES["partial"] = functools.partial(documented)
SHAPES["partial_kw"] = functools.partial(defaults, a=5)
SHAPES["partial_pos"] = functools.partial(lit, "x")
SHAPES["partial_undoc"] = functools.partial(undocumented)
SHAPES["partial_async"] = functools.partial(a_doc)
SHAPES["partial_ctx"] = functools.partial(with_ctx)
SHAPES["partial_obj"] = functools.partial(C3(), n=3)
p = functools.partial(undocumented)
functools.update_wrapper(p, undocumented)
SHAPES["partial_named"] = p
p: Any = functools.partial(undocumented)
p.__name__ = "named"
p.__doc__ = "Own."
SHAPES["partial_renamed"] = p
SHAPES["cached"] = functools.lru_cache(documented)
SHAPES["cached_undoc"] = functools.lru_cache(undocumented)
SHAPES["builtin_len"] = len


def renamed(a: str) -> str:
    return a


renamed.__name__ = "other"
renamed.__doc__ = "Other."
SHAPES["renamed"] = renamed
sd = functools.singledispatch(documented)
SHAPES["singledispatch"] = sd
