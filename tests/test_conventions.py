"""The project's own rules, checked over its files."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from adk_fluent._exports import EXPORTS
from tests.limits import LIMIT

pytestmark = pytest.mark.newest

ROOT = Path(__file__).resolve().parent.parent
CODE = ("src", "codegen", "docgen", "benchmarks", "examples", "tests")

# Only these import google.adk; the import rules in pyproject.toml say the same of the source text.
MAY_IMPORT_ADK = (
    "a2a",
    "adopt.native_runs",
    "adopt.reading",
    "adopt.run_comparison",
    "adopt.tool_stubs",
    "backends.adk",
    "backends.dry_run",
    "backends.mock",
    "backends.preview",
    "backends.temporal",
    "backends.trace",
    "distributed.durable",
    "debug.repeating",
    "debug.replaying",
    "distributed.backend",
    "distributed.processes",
    "distributed.queues",
    "distributed.working",
    "eval.adk_evaluators",
    "eval.adk_services",
    "eval.adk_sets",
    "eval.light_service",
    "eval.playthrough",
    "eval.tool_mocks",
    "local",
    "serve",
    "telemetry",
    "testing",
)
# The one module that may use names which ADK keeps to itself.
PRIVATE_NAMES = "src/adk_fluent/backends/adk/compat/private.py"

# Written in pieces, so that this file keeps its own rules.
REGISTRY_HOSTS = (
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "npmjs" + ".org",
    "debian" + ".org",
    "npmjs" + ".com",
)
MACHINE_PATH = re.compile(r"(?<![\w.~$}-])/(?:home|root|tmp|Users|work|workspace)/\w")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b|\braise NotImplemented" + r"Error\b")
AVOIDED_TEST = re.compile(r"\bpytest\.(?:mark\.)?(?:skip|skipif|xfail|import" + r"orskip)\b")
IGNORE = re.compile(r"#\s*(?:type|pyright):\s*ignore")
EXPLAINED_IGNORE = re.compile(r"#\s*pyright:\s*ignore\[[\w, ]+\]\s+#\s*\w")


def repo_files() -> list[Path]:
    """Every text file that is part of the repository."""
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=LIMIT)
    names = listed.stdout.decode().split("\0")
    return sorted(ROOT / name for name in names if name and (ROOT / name).is_file())


def python_files(*folders: str) -> list[Path]:
    """Every Python file under these top-level folders."""
    return [
        path for path in repo_files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    ]


def matches(paths: list[Path], pattern: re.Pattern[str]) -> list[str]:
    """`file:line: text` of each line that the pattern finds."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def module_name(path: Path) -> str:
    """The dotted name under which a file of src is imported."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def may_import_adk(module: str) -> bool:
    """True if this module may import ADK."""
    inside = module.removeprefix("adk_fluent.")
    return any(inside == allowed or inside.startswith(f"{allowed}.") for allowed in MAY_IMPORT_ADK)


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Each name that a module imports, dotted, however deep the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


IMPORT_AND_LOOK = """
import importlib, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    heavy = sorted(module for module in sys.modules if module.startswith(("google.adk", "google.genai")))
    if heavy:
        found[name] = heavy[0]
        break
print(json.dumps(found))
"""


def test_importing_the_library_does_not_import_adk() -> None:
    """`import adk_fluent`, and every module that need not talk to ADK, leaves google.adk unloaded."""
    modules = [module_name(path) for path in python_files("src") if path.name != "__main__.py"]
    light = [module for module in modules if not may_import_adk(module)]
    assert "adk_fluent" in light
    command = [sys.executable, "-W", "error", "-c", IMPORT_AND_LOOK, json.dumps(light)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}


def test_private_names_of_adk_are_used_in_one_module() -> None:
    """No module but the one made for it imports a name that ADK marks as its own with an underscore."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files("src")
        if path != ROOT / PRIVATE_NAMES
        for name in imported_names(ast.parse(path.read_text()))
        if name.startswith("google.") and any(part.startswith("_") for part in name.split("."))
    ]
    assert found == []


HOMES = {
    "a2a": {"a2a", "a2a/protocol", "serve"},
    "aio_pika": {"distributed/queues"},
    "diskcache": {"middleware"},
    "google.cloud": {"distributed/queues"},
    "mcp": set[str](),
    "nats": {"distributed/queues"},
    "playwright": set[str](),
    "pyarrow": {"distributed/formats"},
    "redis": {"distributed/queues", "middleware"},
    "temporalio": {"backends/temporal"},
}
"""Where each client library is used: a library of a transport or an engine, or of one of its services."""


def test_each_client_library_is_used_in_its_package() -> None:
    """Client libraries are imported only in their package, even in functions and by name."""
    found = {library: set[str]() for library in HOMES}
    for path in python_files("src"):
        tree = ast.parse(path.read_text())
        for name in (*imported_names(_without_typing(tree)), *_imported_by_name(tree)):
            for library in HOMES:
                if name == library or name.startswith(f"{library}."):
                    found[library].add(str(path.parent.relative_to(ROOT / "src/adk_fluent")))
    assert found == HOMES


def _without_typing(tree: ast.Module) -> ast.Module:
    """The module without what it imports for its annotations."""
    tree.body = [
        each
        for each in tree.body
        if not (isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING")
    ]
    return tree


def _imported_by_name(tree: ast.Module) -> list[str]:
    return [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "import_module"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


ADK_BACKEND = "adk_fluent.backends.adk"


def backend_exceptions() -> list[tuple[str, str]]:
    """Importer and imported module of each exception to the interface of the ADK backend, as patterns."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (interface,) = (each for each in contracts if each["id"] == "backend")
    pairs = (each.partition(" -> ") for each in interface["ignore_imports"])
    return [(importer, imported) for importer, _, imported in pairs]


def modules_of(path: Path) -> Iterator[tuple[str, str]]:
    """Each module of src that a file imports, those for annotations included, as importer and imported."""
    tree = ast.parse(path.read_text())
    importer = module_name(path)
    for name in (*imported_names(tree), *_imported_by_name(tree)):
        while name and not is_module(name):
            name = name.rpartition(".")[0]
        if name:
            yield importer, name


@cache
def is_module(name: str) -> bool:
    """True if a dotted name is a module of src."""
    at = ROOT / "src" / name.replace(".", "/")
    return at.with_suffix(".py").is_file() or (at / "__init__.py").is_file()


def past_the_interface(imports: Iterable[tuple[str, str]]) -> list[str]:
    """The imports, importer and imported module, that reach inside the ADK backend from outside."""
    allowed = backend_exceptions()
    return [
        f"{importer} -> {imported}"
        for importer, imported in imports
        if imported.startswith(f"{ADK_BACKEND}.")
        and not f"{importer}.".startswith(f"{ADK_BACKEND}.")
        and not any(fnmatch(importer, one) and fnmatch(imported, other) for one, other in allowed)
    ]


def test_the_adk_backend_is_used_through_its_interface() -> None:
    """Other packages use only the backend's interface, even for annotations and in the table of exports."""
    imports = [pair for path in python_files("src") for pair in modules_of(path)]
    assert sum(imported == f"{ADK_BACKEND}.api" for _, imported in imports) > 30
    assert past_the_interface(imports) == []
    assert past_the_interface((module, home) for module in EXPORTS for home in EXPORTS[module].values()) == []
    assert len(backend_exceptions()) <= 3


def test_an_import_past_the_interface_is_found() -> None:
    """An import in a function, one for annotations and one by name are found; the interface is not."""
    inside = f"{ADK_BACKEND}.running.sqlite"
    for source in (
        f"def f():\n    from {inside} import turns_of",
        f"if TYPE_CHECKING:\n    from {ADK_BACKEND}.running import sqlite",
        f"import_module('{inside}')",
    ):
        tree = ast.parse(source)
        (name,) = (*imported_names(tree), *_imported_by_name(tree))
        assert past_the_interface([("adk_fluent.cli.new", name)]), source
    assert past_the_interface([("adk_fluent.cli.new", f"{ADK_BACKEND}.api")]) == []


KNOWN_CIRCLES = (
    {"expr.agent", "expr.preset"},
    {"expr.base", "expr.workflow"},
    {"expr.live", "expr.expression_run", "expr.session", "expr.terminals"},
)
"""Modules that import each other, some of them for annotations alone. No more may come up."""

PRECISE = ("errors", "backends.events")
"""An import for one annotation, without which users would not see the type of `RunError.result`."""


def imported_at_once(tree: ast.AST) -> Iterator[ast.stmt]:
    """The imports of a module outside of functions, those for annotations included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported_at_once(node)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The groups of modules that lead to each other; `graph` has what each imports."""
    left = dict(graph)
    while without := [name for name, names in left.items() if not names & left.keys()]:
        for name in without:
            del left[name]
    ahead: dict[str, set[str]] = {}
    for name in left:
        ahead[name], pending = set(), [name]
        while pending:
            new = left.get(pending.pop(), set()) - ahead[name]
            ahead[name] |= new
            pending += new
    groups = {frozenset(other for other in ahead[name] if name in ahead.get(other, ())) for name in left}
    return sorted((set(group) for group in groups if group), key=sorted)


def test_no_new_circle_of_imports() -> None:
    """No modules import each other, also not for annotations alone, but those that are known to."""
    graph: dict[str, set[str]] = {}
    for path in python_files("src"):
        body = ast.Module([*imported_at_once(ast.parse(path.read_text()))], [])
        here = module_name(path)
        names = {name for name in imported_names(body) if name.startswith("adk_fluent.")}
        found = {name if is_module(name) else name.rpartition(".")[0] for name in names} - {here}
        graph[here.removeprefix("adk_fluent.")] = {name.removeprefix("adk_fluent.") for name in found}
    importing, imported = PRECISE
    graph[importing].remove(imported)
    assert circles(graph) == sorted(KNOWN_CIRCLES, key=sorted)


def test_a_circle_is_found() -> None:
    """Modules on a circle are found, those before and behind it are not; nor are imports in functions."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [{"b", "c"}]
    source = "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    import c"
    assert [*imported_names(ast.Module([*imported_at_once(ast.parse(source))], []))] == ["a", "b"]


def test_every_module_says_what_it_is_for() -> None:
    """Every module of the library, its generator and its benchmarks starts with a docstring."""
    paths = python_files("src", "codegen", "docgen", "benchmarks", "examples")
    assert paths
    silent = [
        str(path.relative_to(ROOT)) for path in paths if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_every_test_states_its_promise() -> None:
    """Every test function has a docstring, and none is skipped or expected to fail."""
    tests = [
        (path, node)
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert tests
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, node in tests
        if not ast.get_docstring(node)
    ]
    assert silent == []
    assert matches(python_files("tests"), AVOIDED_TEST) == []


Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[str, str]
"""A function of the tests: its file, and its name."""


def asserts(node: ast.AST) -> bool:
    """True if a function can fail a test on purpose: by an `assert`, or a block that must raise."""
    for inside in ast.walk(node):
        if isinstance(inside, ast.Assert):
            return True
        if isinstance(inside, ast.Call) and isinstance(inside.func, ast.Attribute):
            pytests = isinstance(inside.func.value, ast.Name) and inside.func.value.id == "pytest"
            if pytests and inside.func.attr in ("raises", "warns", "fail"):
                return True
    return False


def helpers(node: ast.AST, places: dict[str, Place]) -> set[Place]:
    """The functions of the tests that a function calls by name."""
    called = (inside.func for inside in ast.walk(node) if isinstance(inside, ast.Call))
    return {places[func.id] for func in called if isinstance(func, ast.Name) and func.id in places}


def places_in(file: str, tree: ast.Module) -> dict[str, Place]:
    """The test functions that the names of a file mean."""
    found: dict[str, Place] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            home = f"{(node.module or '').replace('.', '/')}.py"
            found |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
        elif isinstance(node, Function):
            found[node.name] = (file, node.name)
    return found


def never_assert(files: dict[str, str]) -> list[str]:
    """The tests in these files, path → source, of which neither they nor what they call asserts."""
    holding: set[Place] = set()
    calls: dict[Place, set[Place]] = {}
    tests: dict[Place, int] = {}
    for file, source in files.items():
        tree = ast.parse(source)
        places = places_in(file, tree)
        for node in ast.walk(tree):
            if isinstance(node, Function):
                place = (file, node.name)
                holding |= {place} if asserts(node) else set()
                calls.setdefault(place, set()).update(helpers(node, places))
                if node.name.startswith("test_"):
                    tests[place] = node.lineno
    while more := {place for place, called in calls.items() if called & holding} - holding:
        holding |= more
    return [f"{file}:{line} {name}" for (file, name), line in tests.items() if (file, name) not in holding]


def test_every_test_can_fail() -> None:
    """Every test asserts something, itself or in a function of the tests that it calls."""
    files = {str(path.relative_to(ROOT)): path.read_text() for path in python_files("tests")}
    assert never_assert(files) == []


def test_a_test_that_asserts_nothing_is_found() -> None:
    """A test asserts if it, or a helper in any file, has an assertion or a block that must raise."""
    helping = "def check(x):\n    assert x\n\ndef look(x):\n    return x\n"
    tests = [
        "from tests.helping import check as held, look",
        "def here():\n    held(1)",
        "def test_a():\n    assert True",
        "def test_b():\n    held(1)",
        "async def test_c():\n    here()",
        "def test_d():\n    with pytest.raises(ValueError):\n        look(1)",
        "def test_e():\n    look(1)",
        "def test_f():\n    thing.check(1)",
        "def test_g():\n    test_e()",
    ]
    found = never_assert({"tests/helping.py": helping, "tests/test_x.py": "\n".join(tests)})
    assert [line.split()[1] for line in found] == ["test_e", "test_f", "test_g"]


WAITS_IN_THREADS = ("acquire", "communicate", "get", "join", "read", "readline", "wait")
RUNS = ("call", "check_call", "check_output", "run")


def has_limit(call: ast.Call) -> bool:
    """True if a call has a `timeout=`."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in given)


def may_hang(call: ast.Call) -> str | None:
    """The thing that a call waits for without a limit, if any."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="to_thread") | ast.Name(id="to_thread"), args=[waits], keywords=[]
        ):
            known = isinstance(waits, ast.Attribute) and waits.attr in WAITS_IN_THREADS
            return f"to_thread({ast.unparse(waits)})" if known else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess"), attr=name)) if name in RUNS:
            return None if has_limit(call) else f"subprocess.{name}"
        case ast.Call(func=ast.Attribute(attr="communicate")):
            return None if has_limit(call) else "communicate()"
        case _:
            return None


def limited_by(call: ast.Call) -> list[ast.expr]:
    """The arguments of `within_limit` in a call: a process of the loop takes no `timeout=`."""
    return call.args if isinstance(call.func, ast.Name) and call.func.id == "within_limit" else []


def without_limit(files: dict[str, str]) -> list[str]:
    """The calls in these files, path → source, that wait for a thread or a process as long as it takes."""
    found: list[str] = []
    for file, source in files.items():
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        limited = [one for call in calls for one in limited_by(call)]
        found += [
            f"{file}:{call.lineno} {what}"
            for call in calls
            if call not in limited and (what := may_hang(call)) is not None
        ]
    return found


def test_nothing_is_waited_for_without_a_limit() -> None:
    """No test waits for a thread or a process without end: a test that hangs would say nothing of why.

    Of threads it is worse: pytest ends no test that waits in one, since the loop waits for it when it closes.
    """
    paths = [path for path in python_files("tests") if path != ROOT / "tests" / "limits.py"]
    assert without_limit({str(path.relative_to(ROOT)): path.read_text() for path in paths}) == []


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("asyncio.to_thread(event.wait)", "in_thread(event.wait, LIMIT)"),
        ("asyncio.to_thread(event.wait)", "asyncio.to_thread(event.wait, LIMIT)"),
        ("to_thread(self.process.stdout.readline)", "to_thread(self.process.poll)"),
        ("await asyncio.to_thread(thread.join)", "await asyncio.to_thread(thread.join, timeout=LIMIT)"),
        ("subprocess.run(['x'], check=True)", "subprocess.run(['x'], check=True, timeout=LIMIT)"),
        ("subprocess.run(['x'], timeout=None)", "subprocess.Popen(['x'])"),
        ("subprocess.run(['x'], **options)", "other.run(['x'], **options)"),
        ("subprocess.check_output('x')", "subprocess.check_output('x', timeout=2 * LIMIT)"),
        ("server.communicate(b'x')", "server.communicate(b'x', timeout=LIMIT)"),
        ("await server.communicate()", "await within_limit(server.communicate())"),
    ],
)
def test_a_wait_without_a_limit_is_found(bad: str, good: str) -> None:
    """A wait for a thread or process without a limit is found by its line."""
    (found,) = without_limit({"tests/test_x.py": f"async def test_a():\n    {bad}"})
    assert found.startswith("tests/test_x.py:2 ")
    assert without_limit({"tests/test_x.py": f"async def test_a():\n    {good}"}) == []


def test_every_type_ignore_gives_its_rule_and_reason() -> None:
    """An ignored type error names the pyright rule and, in a comment after it, why it is wrong here."""
    ignored = matches(python_files(*CODE), IGNORE)
    assert [line for line in ignored if not EXPLAINED_IGNORE.search(line)] == []


def test_nothing_is_left_unfinished() -> None:
    """The code holds no notes about work to do and no methods that only raise."""
    assert matches(python_files(*CODE), UNFINISHED) == []


def test_no_address_of_a_package_registry() -> None:
    """No file, lock files included, names the host that packages come from."""
    pattern = re.compile("|".join(re.escape(host) for host in REGISTRY_HOSTS))
    assert matches(repo_files(), pattern) == []


def test_no_path_of_somebodys_machine() -> None:
    """No file names a folder that exists on one machine only."""
    assert matches(repo_files(), MACHINE_PATH) == []


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (MACHINE_PATH, 'open("/ho' + 'me/ann/x")', 'open("docs/home/ann")'),
        (UNFINISHED, "# TO" + "DO: later", "todos = []"),
        (AVOIDED_TEST, "@pytest.mark.sk" + "ip", "@pytest.mark.local"),
        (IGNORE, "x = y  # ty" + "pe: ignore", "x = y  # ignore the type"),
    ],
)
def test_the_rules_find_what_they_forbid(rule: re.Pattern[str], bad: str, good: str) -> None:
    """Each pattern finds a line that breaks its rule and leaves a similar harmless one alone."""
    assert rule.search(bad)
    assert not rule.search(good)
