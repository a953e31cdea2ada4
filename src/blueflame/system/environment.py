"""What an agent finds in its environment: what it needs to build and test, and nothing that opens a door.

This is hygiene, not a wall: the sandbox is what keeps an agent from the places these variables point at.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

# Each would steer the agent's tools, tell a nested CLI that it runs inside another, or lead into the person's session.
REMOVED_VARIABLES = re.compile(
    r"""
    GIT_.* | CLAUDECODE | CLAUDE_.* | ANTHROPIC_.* | OPENAI_.* | CODEX_.* | GEMINI_.* | BEADS_.* | BD_.* | BLUEFLAME_.*
    | AWS_.* | AZURE_.* | GOOGLE_.* | GCLOUD_.* | KUBECONFIG | DOCKER_.* | VAULT_.*
    | SSH_.* | GPG_.* | GNUPGHOME | NETRC | TMUX.* | STY
    | DBUS_.* | DISPLAY | WAYLAND_DISPLAY | XAUTHORITY | XDG_RUNTIME_DIR | XDG_SESSION_.*
    | LD_.* | DYLD_.* | BASH_ENV | ENV | PROMPT_COMMAND | BASH_FUNC_.* | SHELLOPTS | BASHOPTS | IFS | PS4
    | PYTHONSTARTUP | PYTHONPATH | PYTHONHOME | PYTHONINSPECT | NODE_OPTIONS | PERL5OPT | PERL5LIB | RUBYOPT
    | PWD | OLDPWD | SHLVL | _
    """,
    re.VERBOSE | re.IGNORECASE,
)
SECRET_WORDS = frozenset(
    {"token", "tokens", "key", "keys", "apikey", "secret", "secrets", "credential", "credentials", "creds", "private"}
    | {"password", "passwords", "passwd", "passphrase", "pass", "pwd", "pin", "pat", "dsn"}
    | {"auth", "authorization", "cookie", "cookies"}
)
SECRET_VALUES = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|-----BEGIN |\b(sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|AKIA)"
)


MODEL_KEYS = frozenset(
    {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY"}
    | {"GEMINI_API_KEY", "GOOGLE_API_KEY"}
)
"""What the gateway shows a provider. No program that we start has any business with it."""


def remove_model_keys(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in MODEL_KEYS}


def clean_environment(base: Mapping[str, str], *, allow: Collection[str] = ()) -> dict[str, str]:
    """`base` without doors and secrets, by name or by the look of the value; a name in `allow` stays in any case."""
    return {
        name: value
        for name, value in sorted(base.items())
        if name in allow
        or not (REMOVED_VARIABLES.fullmatch(name) or _is_secret_name(name) or SECRET_VALUES.search(value))
    }


def build_worktree_variables(
    *,
    root: Path,
    worktree: Path,
    branch: str,
    session: str,
    task: str,
    base_branch: str,
    agent: str,
    role: str,
    ports: range | None = None,
) -> dict[str, str]:
    """What Blue Flame tells everything that runs in a worktree: the setup command, the agent, the checks."""
    return {
        "BLUEFLAME_ROOT": str(root),
        "BLUEFLAME_WORKTREE": str(worktree),
        "BLUEFLAME_BRANCH": branch,
        "BLUEFLAME_SESSION": session,
        "BLUEFLAME_TASK": task,
        "BLUEFLAME_BASE_BRANCH": base_branch,
        "BLUEFLAME_AGENT": agent,
        "BLUEFLAME_ROLE": role,
        **(_build_port_variables(ports) if ports else {}),
    }


def _build_port_variables(ports: range) -> dict[str, str]:
    return {
        "PORT": str(ports[0]),
        "BLUEFLAME_PORTS": f"{ports[0]}-{ports[-1]}",
        **{f"BLUEFLAME_PORT_{n}": str(port) for n, port in enumerate(ports)},
    }


def _is_secret_name(name: str) -> bool:
    """`NPM_TOKEN`, `DB_PASSWORD`, `apiKey`, `MYAPIKEY`; not `KEYBOARD` and not `AUTHOR`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    return not SECRET_WORDS.isdisjoint(words) or words[-1].endswith(("token", "apikey", "secret", "password"))
