"""Decide where an agent may read and write. A path must pass as written and as its links resolve.

Reads obey the blocked paths; writes also obey the allowed paths, the task's scope, the naming style and the role.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from blueflame.lazy_dataclass import dataclass
from blueflame.model.policy import EVERYDAY, Decision, Policy, PolicyEnvironment
from blueflame.paths.build_outputs import is_build_output
from blueflame.paths.locks import WILDCARDS, LockPath, covers, fold_path, parse_locks
from blueflame.paths.naming_style import is_well_named
from blueflame.policy.decision_cache import DecisionCache
from blueflame.policy.path_names import (
    find_path_fault,
    format_list,
    is_in_git_folder,
    is_too_long,
    join_path,
    list_spellings,
    make_relative,
    normalise_path,
    sanitize_text,
)
from blueflame.policy.path_patterns import PatternMatcher, fold_text

ALLOWED = Decision(True, "allowed")
READ_DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/stdin"})
WRITE_DEVICES = frozenset({"/dev/null", "/dev/full", "/dev/stdout", "/dev/stderr"})
OWN_SETTINGS = frozenset(
    {".claude", ".claude.json", ".codex", ".gemini", ".gitconfig", ".bashrc", ".bash_profile", ".profile"}
)
"""Names in an agent's home that its runtime, its shell and git obey: changing them would weaken the watcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPolicy:
    """A policy with its patterns compiled."""

    policy: Policy
    allowed: PatternMatcher
    blocked: PatternMatcher
    naming: PatternMatcher
    scope: tuple[LockPath, ...] | None
    cache: DecisionCache
    blocked_prefixes: tuple[LockPath, ...]  # the folders and files that blocked patterns name in full, from the top


@lru_cache(maxsize=16)
def prepare_policy(policy: Policy) -> CompiledPolicy:
    """Compile the patterns of a policy, once. Raises re.error or BadLock if they are damaged."""
    return CompiledPolicy(
        policy=policy,
        allowed=PatternMatcher(policy.allowed_paths),
        blocked=PatternMatcher(policy.blocked_paths, caseless=True),
        naming=PatternMatcher(policy.naming_globs),
        cache=DecisionCache(),
        scope=None if policy.scope is None else parse_locks(policy.scope),
        blocked_prefixes=tuple(
            place for pattern in policy.blocked_paths.written if (place := _find_literal_prefix(fold_text(pattern)))
        ),
    )


def _find_literal_prefix(pattern: str) -> LockPath:
    """Return ("src", "secret") for `src/secret/**`; nothing for a pattern that matches names at any depth."""
    inner = pattern.rstrip("/").lstrip("/")
    if "/" not in inner or "\\" in inner:
        return ()
    parts = inner.split("/")
    wild = next((n for n, part in enumerate(parts) if not WILDCARDS.isdisjoint(part)), len(parts))
    return tuple(parts[:wild])


@dataclass(frozen=True, slots=True, kw_only=True)
class PathAccess:
    """Checks the paths of one call. `shell`: folders and harmless devices may be named as well."""

    rules: CompiledPolicy
    world: PolicyEnvironment
    cwd: str
    shell: bool = False

    def check_read(self, path: str) -> Decision:
        if self.shell and path in READ_DEVICES:
            return ALLOWED
        return self._check_path(path, "read")

    def check_write(self, path: str) -> Decision:
        if self.shell and path in WRITE_DEVICES:
            return ALLOWED
        return self._check_path(path, "write")

    def check_cwd(self) -> Decision:
        """Refuse calls made from outside the worktree and the scratch folders."""
        if not self.cwd.startswith("/") or find_path_fault(self.cwd):
            return Decision(False, "malformed_call", f"the cwd {sanitize_text(self.cwd)!r} is not an absolute path")
        policy = self.rules.policy
        for name in self._list_names(self.cwd):
            if not _is_inside(name, (policy.worktree, *policy.scratch)):
                details = f"the call was made in {sanitize_text(self.cwd)}, outside the worktree {policy.worktree}"
                return Decision(False, "outside_worktree", f"{details}; go back to it first")
        return ALLOWED

    def _check_path(self, path: str, use: str) -> Decision:
        found = find_path_fault(path)
        if found:
            return Decision(False, found[0], f"{use} {sanitize_text(path)!r}: {found[1]}")
        for name in self._list_names(join_path(self.cwd, path)):
            if is_too_long(name):
                answer: tuple[str, str] | None = ("outside_worktree", "the path that it resolves to is too long")
            else:
                answer = self._refuse_read(name) if use == "read" else self._refuse_write(name)
            if answer is not None:
                resolved = name != normalise_path(join_path(self.cwd, path))
                via = f" (it resolves to {sanitize_text(name)})" if resolved else ""
                return Decision(False, answer[0], f"{use} {sanitize_text(path)}{via}: {answer[1]}")
        return ALLOWED

    def _list_names(self, path: str) -> Iterable[str]:
        """Yield the path as written, with links resolved, and with `..` after a link as the kernel takes it."""
        written = normalise_path(path)
        yield written
        real = self.world.resolve(written)
        if real != written:
            yield real
        if ".." in path and (climbed := self.world.resolve(path)) not in (written, real):
            yield climbed

    def _refuse_read(self, name: str) -> tuple[str, str] | None:
        policy = self.rules.policy
        inner = make_relative(name, policy.worktree)
        if inner is not None:
            return self._refuse_blocked(inner)
        if "\0" not in name and _is_inside(name, (*policy.scratch, *policy.readable)):
            return None
        return "outside_worktree", f"it is outside the worktree {policy.worktree}; read files in the worktree"

    def _refuse_write(self, name: str) -> tuple[str, str] | None:
        policy = self.rules.policy
        inner = make_relative(name, policy.worktree)
        if inner is not None:
            return self._refuse_change(inner)
        private = next((found for folder in policy.scratch if (found := make_relative(name, folder)) is not None), None)
        if "\0" in name or private is None:
            return "outside_worktree", f"it is outside the worktree {policy.worktree}; {self.hint}"
        if not OWN_SETTINGS.isdisjoint(part for form in list_spellings(private) for part in form.split("/")):
            return "blocked_path", "settings of your own tools may not be changed"
        return None

    def _refuse_change(self, inner: str) -> tuple[str, str] | None:
        """Return the rule and the reason for which a path in the worktree may not be written."""
        rules = self.rules
        if rules.policy.read_only:
            return "read_only_role", f"a {rules.policy.role} only reads; report what should be changed instead"
        if is_in_git_folder(inner) or ".gitmodules" in list_spellings(inner):
            return "blocked_path", "git's own files are never written; use git commands"
        if self.is_everyday and is_build_output(inner):
            return self._refuse_blocked(inner)
        found = self._refuse_blocked(inner) or self._refuse_unallowed(inner) or self._refuse_out_of_scope(inner)
        return found or self._refuse_misnamed(inner)

    def _refuse_blocked(self, inner: str) -> tuple[str, str] | None:
        for form in list_spellings(inner):
            pattern = self.rules.blocked.find_touching(form) if form else self.rules.blocked.find_first("\x01")
            if pattern is not None:
                return "blocked_path", f"{sanitize_text(pattern, 80)} is in blocked_paths; continue without it"
        return None

    def _refuse_unallowed(self, inner: str) -> tuple[str, str] | None:
        allowed = self.rules.allowed
        if allowed.matches(inner):
            return None
        if self.shell and inner and allowed.covers(inner):
            # a whole folder, as in `rm -r src`, is refused if it holds a blocked path
            folder = tuple(fold_text(inner).split("/"))
            held = next((place for place in self.rules.blocked_prefixes if covers(folder, place)), None)
            return ("blocked_path", f"{'/'.join(held)} is in it, which is in blocked_paths") if held else None
        return "path_not_allowed", f"it is not in allowed_paths; {self.hint}"

    def _refuse_out_of_scope(self, inner: str) -> tuple[str, str] | None:
        scope = self.rules.scope
        if scope is None or any(covers(lock, fold_path(tuple(inner.split("/")))) for lock in scope):
            return None
        return "outside_file_scope", f"your task has not locked it; {self.hint}"

    def _refuse_misnamed(self, inner: str) -> tuple[str, str] | None:
        """Refuse new files that break the naming style; existing files keep their names."""
        style = self.rules.policy.naming_style
        if not style or is_well_named(inner, style) or not self.rules.naming.matches(inner):
            return None
        if self.shell and "." not in inner.rpartition("/")[2]:  # probably a folder; the postcheck covers the rest
            return None
        if self.world.read_text(f"{self.rules.policy.worktree}/{inner}") is not None:
            return None
        return "file_naming", f"new files here are named in {style}; choose such a name"

    @property
    def hint(self) -> str:
        writable = describe_writable(self.rules.policy)
        return f"{writable}; put output into build/ or /tmp" if self.is_everyday else writable

    @property
    def is_everyday(self) -> bool:
        """Whether a command in a sandbox is judged, which may also leave build output."""
        return self.shell and EVERYDAY in self.rules.policy.allowed_commands


def describe_writable(policy: Policy) -> str:
    if policy.read_only:
        return f"a {policy.role} writes nothing in the worktree"
    allowed = format_list(policy.allowed_paths.written)
    if policy.scope:
        return f"your task may write {format_list(policy.scope)}, as far as that is in {allowed}"
    return f"you may write {allowed}"


def _is_inside(name: str, folders: Iterable[str]) -> bool:
    return any(make_relative(name, folder) is not None for folder in folders)
