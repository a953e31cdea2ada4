"""Clean an agent's environment: what it needs to build and test, no secrets and no access to the person's session.

This is hygiene, not a barrier: the sandbox keeps an agent from the places that these variables name.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Collection, Mapping, MutableMapping
from pathlib import Path

# Each changes the agent's tools, marks a nested CLI as nested, or gives access to the person's session.
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
"""What the gateway sends to a provider; removed for every program that we start."""


CALLER_VARIABLE = "BLUEFLAME_CALLER"
"""For which client a command of ours was started; agents do not get it."""


def name_caller(environ: Mapping[str, str]) -> str:
    """Who gives a command: the client that it was started for, else the person."""
    return environ.get(CALLER_VARIABLE) or getpass.getuser()


def remove_model_keys(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in MODEL_KEYS}


def take_model_keys(environ: MutableMapping[str, str]) -> dict[str, str]:
    """Remove the keys from the environment, so that no program that is started from it gets them, and return them."""
    return {name: environ.pop(name) for name in sorted(MODEL_KEYS) if name in environ}


def clean_environment(base: Mapping[str, str], *, allow: Collection[str] = ()) -> dict[str, str]:
    """Remove variables of REMOVED_VARIABLES and secrets, by name or by value; names in `allow` stay."""
    return {
        name: value
        for name, value in sorted(base.items())
        if name in allow
        or not (REMOVED_VARIABLES.fullmatch(name) or _is_secret_name(name) or SECRET_VALUES.search(value))
    }


def build_worktree_variables(
    *,
    root: Path,
    worktree: str,
    branch: str,
    session: str,
    task: str,
    base_branch: str,
    agent: str,
    role: str,
    ports: range | None = None,
) -> dict[str, str]:
    """Build the variables for everything that runs in a worktree: setup command, agent, checks."""
    return {
        "BLUEFLAME_ROOT": str(root),
        "BLUEFLAME_WORKTREE": worktree,
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
    """True for `NPM_TOKEN`, `DB_PASSWORD`, `apiKey`, `MYAPIKEY`; False for `KEYBOARD` and `AUTHOR`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    return not SECRET_WORDS.isdisjoint(words) or words[-1].endswith(("token", "apikey", "secret", "password"))
