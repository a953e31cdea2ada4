"""How a JavaScript project is set up and tested: npm, pnpm, yarn, bun; workspaces; unit tests before browsers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from blueflame.config.detect.commands import Candidate, ProjectCommands
from blueflame.config.detect.project_files import ProjectFiles, as_dict

MANIFESTS = ("package.json",)
UNIT_SCRIPTS = ("test:unit", "test-unit", "unit", "test:node", "test-node", "test:ci", "test-ci")
LINT_SCRIPTS = (  # of each row the first that only looks
    ("lint:check", "check:lint", "lint"),
    ("typecheck", "type-check", "check:type", "check:types", "check-types", "types:check"),
)
RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun", "run-s", "run-p", "npm-run-all"})  # of other scripts
LINTS = re.compile(r"\b(\w*lint\w*|xo|standard|prettier|biome|tsd|tsc|format|check|type-?check)\b")
PROGRAM = re.compile(r"^((?:\w+=\S*\s+)*)(\S+)")  # after variables
WRITES = re.compile(r"--(fix|write)\b")
NEEDS_A_BROWSER = re.compile(
    r"playwright|cypress|karma|wtr\b|web-test-runner|testcafe|nightwatch|wdio|selenium|puppeteer|airtap|testem"
    r"|ng test|grunt test|\be2e\b"
)
WATCHES = re.compile(r"\b(react-scripts test|vitest(?! run)|jest --watch|ng test|vue-cli-service test)")
NO_TESTS = re.compile(r"no test specified|^\s*(exit 0|true|echo [^&|;]*)?\s*$")
OWN_PREFIX = "~/.local"  # in the sandbox's own home: for package managers that this machine lacks


class NodeManager(NamedTuple):
    program: str
    install: str
    run_all: str  # a script in every package of a workspace
    run_program: str  # a program that was installed
    version: str = ""  # what to install where the program is missing


NPM = NodeManager(
    "npm", "install --no-package-lock --no-audit --no-fund", "run {} --workspaces --if-present", "exec --no --"
)
NPM_LOCKED = NPM._replace(install="ci --no-audit --no-fund")
PNPM = NodeManager("pnpm", "install --frozen-lockfile", "--recursive --if-present run {}", "exec", "9")
YARN = NodeManager("yarn", "install --frozen-lockfile", "--silent workspaces run {}", "run", "1")
YARN_BERRY = NodeManager("yarn", "install --immutable", "workspaces foreach --all run {}", "run")
BUN = NodeManager("bun", "install --frozen-lockfile", "run --filter '*' {}", "x", "1")


def detect_node(files: ProjectFiles) -> ProjectCommands | None:
    if not files.has("package.json"):
        return None
    package = files.read_json("package.json")
    scripts = {name: text for name, text in as_dict(package.get("scripts")).items() if isinstance(text, str)}
    manager, before = _choose_manager(files, package)
    test = _choose_test_script(scripts)
    tests = (_build_run_line(manager.program, test, scripts[test]),) if test else ()
    has_workspaces = package.get("workspaces") or files.has("pnpm-workspace.yaml")
    if not tests and has_workspaces and (shared := _find_shared_script(files)):
        tests = (f"{manager.program} {manager.run_all.format(shared)}",)
    install = (*before, f"{manager.program} {manager.install}")
    built = (*install, f"{manager.program} run build") if "build" in scripts else ()
    whole = [Candidate(setup=setup, tests=tests) for setup in (install, built) if setup]
    parts = tuple(_list_test_parts(manager, scripts, test)) if test else ()
    return ProjectCommands(
        candidates=(*whole, *([Candidate(setup=install, tests=parts)] if parts else [])),
        lints=tuple(f"{manager.program} run {name}" for name in _list_lint_scripts(scripts)),
        registries=("npm",),
    )


def _choose_manager(files: ProjectFiles, package: Mapping[str, object]) -> tuple[NodeManager, tuple[str, ...]]:
    """The manager of the lock file, and the commands that install it where this machine lacks it."""
    manager = _find_manager(files, package)
    if manager.program == "npm":
        return manager, ()
    own = files.find(r"\.yarn/releases/yarn-[\w.-]+\.cjs") if manager is YARN_BERRY else ()
    if own:
        return manager._replace(program=f"node {own[0]}"), ()
    if files.is_installed(manager.program):
        return manager, ()
    pinned = re.fullmatch(rf"{manager.program}@([\w.-]+)(\+[\w.-]+)?", str(package.get("packageManager", "")))
    version = pinned[1] if pinned else manager.version
    name = "@yarnpkg/cli-dist" if manager is YARN_BERRY else manager.program
    wanted = f"{name}@{version}" if version else name
    return (
        manager._replace(program=f"{OWN_PREFIX}/bin/{manager.program}"),
        (f"npm install --global --prefix {OWN_PREFIX} --no-audit --no-fund {wanted}",),
    )


def _find_manager(files: ProjectFiles, package: Mapping[str, object]) -> NodeManager:
    if files.has("pnpm-lock.yaml"):
        return PNPM._replace(version=_find_pnpm_version(files))
    if files.has("yarn.lock"):
        return YARN_BERRY if "__metadata:" in files.read_text("yarn.lock") or files.has(".yarnrc.yml") else YARN
    if files.has("bun.lock", "bun.lockb"):
        return BUN
    if files.has("package-lock.json", "npm-shrinkwrap.json"):
        return NPM_LOCKED
    named = str(package.get("packageManager", "")).partition("@")[0]
    if files.has("pnpm-workspace.yaml") or named == "pnpm":
        return PNPM._replace(install="install --no-lockfile")
    return YARN._replace(install="install --no-lockfile") if named == "yarn" else NPM


def _find_pnpm_version(files: ProjectFiles) -> str:
    """The pnpm that writes this form of the lock file."""
    found = re.search(r"(?m)^lockfileVersion: '?([\d.]+)", files.read_text("pnpm-lock.yaml"))
    return {"5": "7", "6": "8"}.get(found[1].partition(".")[0], PNPM.version) if found else PNPM.version


def _choose_test_script(scripts: Mapping[str, str]) -> str | None:
    """`test`, unless it needs a browser and there is one for the units."""
    usual = scripts.get("test", "")
    units = [name for name in UNIT_SCRIPTS if scripts.get(name) and not _needs_a_browser(scripts, name)]
    if usual and not NO_TESTS.search(usual) and not (units and _needs_a_browser(scripts, "test")):
        return "test"
    return units[0] if units else None


def _needs_a_browser(scripts: Mapping[str, str], name: str) -> bool:
    return any(NEEDS_A_BROWSER.search(scripts[each]) for each in _list_reached_scripts(scripts, name))


def _list_reached_scripts(scripts: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The script and those that it runs by their names: `npm run a`, `run-s a b:*`."""
    reached = [name]
    for each in reached:
        named = tuple(_list_named_scripts(scripts[each]))
        reached += [other for other in scripts if other not in reached and any(fnmatchcase(other, n) for n in named)]
    return tuple(reached)


def _list_named_scripts(text: str) -> Iterator[str]:
    for command in re.split(r"[;&|]+", text):
        program, *words = re.sub(r"[\"']", " ", command).split() or [""]
        yield from words if program in RUNNERS else ()


def _list_lint_scripts(scripts: Mapping[str, str]) -> Iterator[str]:
    for names in LINT_SCRIPTS:
        found = [name for name in names if scripts.get(name) and not WRITES.search(scripts[name])]
        yield from found[:1]


def _build_run_line(program: str, script: str, text: str) -> str:
    line = f"{program} test" if script == "test" else f"{program} run {script}"
    return f"CI=true {line}" if WATCHES.search(text) else line


def _list_test_parts(manager: NodeManager, scripts: Mapping[str, str], test: str) -> Iterator[str]:
    """The tests of a script that runs linters as well, or before or after it: a red linter must not hide them."""
    parts = [part.strip() for part in scripts[test].split("&&")]
    beside = (scripts.get(f"pre{test}", ""), scripts.get(f"post{test}", ""))
    if not any(LINTS.search(text) for text in (*(parts if len(parts) > 1 else ()), *beside)):
        return
    for part in (part for part in parts if not LINTS.search(part)):
        yield PROGRAM.sub(lambda found: found[1] + _word_program(manager, found[2]), part)


def _word_program(manager: NodeManager, program: str) -> str:
    if program in RUNNERS:
        return manager.program
    return program if program == "node" else f"{manager.program} {manager.run_program} {program}"


def _find_shared_script(files: ProjectFiles) -> str | None:
    """The test script of the packages: the one that most of them have."""
    found = list(_list_package_scripts(files))
    return max(sorted(set(found)), key=found.count) if found else None


def _list_package_scripts(files: ProjectFiles) -> Iterator[str]:
    for file in files.find(r"(?:[\w@.-]+/)+package\.json"):
        scripts = as_dict(files.read_json(file).get("scripts"))
        chosen = _choose_test_script({name: text for name, text in scripts.items() if isinstance(text, str)})
        if chosen is not None:
            yield chosen
