"""Build the environment inside a sandbox: the person's, cleaned, with paths that exist inside only."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from blueflame.model.sandbox import TMP
from blueflame.sandbox.bwrap import is_below
from blueflame.sandbox.toolchain_table import CACHE_VARIABLES
from blueflame.sandbox.toolchains import Toolchains
from blueflame.system.environment import clean_environment

# A variable's name does not show what it holds, so only those are passed that common tools read: locale and time,
# colours, compilers, interpreters and package managers.
PASSED_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|COLUMNS|LINES|CI|SOURCE_DATE_EPOCH"
    r"|CC|CXX|CPP|LD|AR|AS|RANLIB|STRIP|(C|CXX|CPP|LD|F)FLAGS|MAKEFLAGS|PKG_CONFIG_PATH|CMAKE_\w+|DEBIAN_FRONTEND"
    r"|PYTHON\w+|PIP_\w+|UV_\w+|POETRY_\w+|PYENV_\w+|VIRTUAL_ENV|CONDA_\w+|TOX_\w+|PYTEST_\w+|DJANGO_SETTINGS_MODULE"
    r"|NODE_ENV|NODE_EXTRA_CA_CERTS|NODE_PATH|NVM_\w+|(npm|NPM)_\w+|YARN_\w+|PNPM_\w+|VOLTA_\w+|BUN_\w+|DENO_\w+"
    r"|GO[A-Z0-9]+|CGO_\w+|CARGO_\w+|RUST\w+|JAVA_HOME|JDK_HOME|MAVEN_\w+|GRADLE_\w+|RUBY\w+|GEM_\w+|BUNDLE_\w+|RBENV_\w+"
    r"|DOTNET_\w+|ASDF_\w+|MISE_\w+|SDKMAN_\w+|SSL_CERT_(FILE|DIR)|\w+_CA_BUNDLE|PIP_CERT|RAILS_ENV|RACK_ENV|MIX_ENV"
)
FIXED_VARIABLES = {
    "PYTHONDONTWRITEBYTECODE": "1",  # checkouts stay clean
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_update_notifier": "false",
    "GOTOOLCHAIN": "local",
}


def build_inner_environment(
    environ: Mapping[str, str],
    tools: Toolchains,
    *,
    allow: Collection[str],
    user: str,
    home: str,
    real_home: Path,
    inside: Collection[str],
    online: bool,
) -> dict[str, str]:
    """`inside` are the targets of mounts, `online`: some of the network can be reached."""
    kept = {
        name: value
        for name, value in clean_environment(environ, allow=allow).items()
        if name in allow or (PASSED_VARIABLES.fullmatch(name) and not _is_missing_inside(value, real_home, inside))
    }
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    path = os.pathsep.join([*tools.path, f"{home}/.local/bin"])  # last: what setup installs there hides nothing
    ours = {"HOME": home, "USER": user, "LOGNAME": user, "SHELL": shell, "PATH": path}
    places = {name: f"{home}/{place}" for name, place in CACHE_VARIABLES.items()}
    temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), TMP)
    found = kept | FIXED_VARIABLES | places | dict(tools.variables) | temporary | ours
    found.setdefault("LANG", "C.UTF-8")
    offline = {"CARGO_NET_OFFLINE": "true", "GOPROXY": tools.variables.get("GOPROXY", "off")}
    found |= list_online_variables(tools, environ) if online else offline
    return dict(sorted(found.items()))


def list_online_variables(tools: Toolchains, environ: Mapping[str, str]) -> dict[str, str]:
    """List what differs where registries can be reached; downloaded modules go before them."""
    downloaded = tools.variables.get("GOPROXY")
    served = environ.get("GOPROXY", "https://proxy.golang.org,direct")
    return {"CARGO_NET_OFFLINE": "false", "GOPROXY": f"{downloaded},{served}" if downloaded else served}


def _is_missing_inside(value: str, real_home: Path, inside: Collection[str]) -> bool:
    """Whether it is a path in the person's home that does not exist inside: a tool would fail to create it."""
    if not value.startswith("/") or os.pathsep in value:
        return False
    path = os.path.normpath(value)
    return is_below(path, str(real_home)) and not any(is_below(path, target) for target in inside)
