"""Environment variables of a command: most are harmless, some decide which code runs."""

from __future__ import annotations

import re

from blueflame.policy.shell.marks import is_static, split_names

_DANGEROUS = re.compile(
    r"(?:LD|DYLD|GIT|BASH|PYTHON|PERL|RUBY|NODE|NPM|YARN|PNPM|COREPACK|CARGO|RUSTC?|RUSTUP|RUSTDOC|PIP|UV|POETRY|CONDA|TOX|NOX"
    r"|PYTEST|MAKE|JAVA|JDK|_JAVA|MAVEN|GRADLE|GEM|BUNDLE|XDG|SSH|GPG|DOCKER|KUBE|LESS|MAN|SHELL|PS[0-4]|BLUEFLAME|CLAUDE"
    r"|ANTHROPIC|OPENAI|OPENSSL|GLIBC|MALLOC|SYSTEMD|DBUS|AWS|HIST|COMP|OPT|NLS|GCONV|AWK|RIPGREP|GREP)(?:_|[A-Z0-9]|$)"
)
_NAMES = split_names(
    "PATH ENV IFS CDPATH PROMPT_COMMAND PROMPT_DIRTRIM EDITOR VISUAL PAGER BROWSER HOME PWD OLDPWD SHELLOPTS BASHOPTS"
    " GLOBIGNORE FIGNORE FUNCNEST POSIXLY_CORRECT TMOUT FCEDIT INPUTRC TERMINFO TERMINFO_DIRS LOCPATH"
    " HOSTALIASES RES_OPTIONS"
    " ZDOTDIR COMSPEC MFLAGS GOFLAGS GOROOT GOPATH GOENV GOPROXY GOSUMDB GONOSUMDB GOINSECURE GOTOOLDIR GOTOOLCHAIN"
    " GOPRIVATE GCCGO AR LD AS NM RANLIB STRIP CPP FC PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR GCC_EXEC_PREFIX"
    " COMPILER_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH CLASSPATH TAR_OPTIONS RSYNC_RSH"
    " CVS_RSH SUDO_ASKPASS"
    " DISPLAY CONFIG_SHELL TEXINPUTS VIMINIT EXINIT ELECTRON_RUN_AS_NODE DENO_DIR BUN_INSTALL HUSKY_HOME WGETRC"
    " CURL_HOME"
    " NETRC RANDOM SECONDS LINENO REPLY_ UID EUID PPID GROUPS TEXTDOMAIN TEXTDOMAINDIR BASH LINES_ COLUMNS_"
    " EMACS EPOCHSECONDS"
    " DIRSTACK HOSTFILE IGNOREEOF MAILPATH MAILCHECK MAIL TIMEFORMAT LOGNAME USER"
)
PYTEST_FLAGS = (
    r"(?: *(?:-[qvxsl]+|-r[A-Za-z]*|-n ?(?:\d+|auto)|-p ?no:\w+|--(?:tb|color|maxfail|durations|verbosity)=\w+"
    r"|--(?:no-header|no-summary|no-cov|strict-markers|strict-config|quiet|verbose)))*"
)
"""Options of pytest that change its output, or run fewer tests at a time."""
_SAFE_BY_VALUE = {
    r"cat|": "GIT_PAGER MANPAGER PAGER",
    r"-?[A-Za-z]*": "LESS",
    r"true|:|cat": "EDITOR GIT_EDITOR GIT_SEQUENCE_EDITOR VISUAL",
    r"[01]": "CARGO_INCREMENTAL GIT_LITERAL_PATHSPECS GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT PYTHONUTF8",
    r"no": "GIT_MERGE_AUTOEDIT",
    r"\w*": "COMPOSE HISTCONTROL NODE_NO_WARNINGS OPTIMIZE PYTHONASYNCIODEBUG PYTHONDEVMODE"
    " PYTHONDONTWRITEBYTECODE PYTHONFAULTHANDLER PYTHONHASHSEED PYTHONNOUSERSITE PYTHONOPTIMIZE"
    " PYTHONUNBUFFERED RUBY_ENV RUST_BACKTRACE UV_FROZEN UV_NO_SYNC UV_OFFLINE",
    r"[\w:-]*": "PYTHONIOENCODING",
    r"\d*": "COLUMNS JEST_WORKER_ID LINES MANWIDTH PYTHONTRACEMALLOC",
    r"[a-zA-Z:,]*": "PYTHONWARNINGS",
    r"[\w-]*": "AWS_DEFAULT_REGION AWS_REGION COMPUTERNAME NODE_ENV NODE_TEST_CONTEXT TERM",
    r"[\w,-]*": "NODE_DEBUG",
    r"(?: *--(?:max-old-space-size=\d+|experimental-vm-modules|no-warnings|enable-source-maps|trace-warnings"
    r"|experimental-strip-types|no-deprecation))*": "NODE_OPTIONS",
    r"[\w:=,.-]*": "RUST_LOG",
    r"\d+": "CARGO_BUILD_JOBS RUST_MIN_STACK RUST_TEST_THREADS",
    r"(?: *-[DAWF] ?[\w:-]+)*": "RUSTDOCFLAGS RUSTFLAGS",
    r"\w+": "CARGO_NET_OFFLINE CARGO_TERM_COLOR CARGO_TERM_VERBOSE",
    r"local": "GOTOOLCHAIN",
    r"(?: *-(?:mod=(?:mod|readonly|vendor)|v|race|short|trimpath|count=\d+|p=\d+|tags=[\w,]+))*": "GOFLAGS",
    PYTEST_FLAGS: "PYTEST_ADDOPTS",
    r"-?j?\d*": "MAKEFLAGS",
    r":?[\d.]*": "DISPLAY",
    r"[\w =,-]*": "SHELLCHECK_OPTS",
}
"""Values that are fine, by regular expression, and the variables that may hold them."""
_SAFE = {name: value for value, names in _SAFE_BY_VALUE.items() for name in names.split()}
_COMPILERS = frozenset(("CC", "CXX", "HOSTCC", "LINKER"))
_COMPILER = re.compile(r"(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+|musl-gcc)(?:-\d+)?\Z")
_FLAGS = re.compile(r"(?:[A-Z_]*(?:C|CPP|CXX|F|LD)FLAGS|LDLIBS|LIBS)\Z")
_FLAG_VALUE = re.compile(r"[\w=.,:+ -]*\Z")
_LOADS = re.compile(r"plugin|wrapper|specs|-B|load|-Wl,.*(?:rpath|interp)")
_READ_PATHS = split_names("PYTHONPATH NODE_PATH GOMODCACHE")
_WRITTEN_PATHS = split_names(
    "TMPDIR TMP TEMP CARGO_TARGET_DIR GOCACHE GOTMPDIR PYTHONPYCACHEPREFIX RUFF_CACHE_DIR MYPY_CACHE_DIR COVERAGE_FILE"
)
PATH_VARIABLES = {**dict.fromkeys(_READ_PATHS, "read"), **dict.fromkeys(_WRITTEN_PATHS, "write")}
"""Variables that hold folders, and how they are used."""


_WALLS = re.compile(
    r"(?:LD|DYLD|GIT|BASH|SSH|GPG|DOCKER|KUBE|BLUEFLAME|CLAUDE|ANTHROPIC|OPENAI|SYSTEMD|DBUS|AWS)(?:_|[A-Z0-9]|$)"
    r"|(?:ENV|IFS|CDPATH|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|PS[0-4]|GLOBIGNORE|\w+_proxy|\w+_PROXY)$"
)
_OWN_LIBRARIES = frozenset(("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"))


def is_wall_variable(name: str, value: str) -> bool:
    """Return whether the variable changes how commands are read, what git does, or the way out of the sandbox."""
    return name not in _OWN_LIBRARIES and bool(_WALLS.match(name)) and is_dangerous_variable(name, value)


def is_dangerous_variable(name: str, value: str) -> bool:
    """Return whether the variable may decide which code runs, or how the shell reads what follows."""
    if name in PATH_VARIABLES:
        return False
    if name in _SAFE:
        return not (is_static(value) and re.fullmatch(_SAFE[name], value))
    if name in _COMPILERS:
        return not (is_static(value) and _COMPILER.match(value))
    if _FLAGS.match(name):
        return not (is_static(value) and _FLAG_VALUE.match(value)) or bool(_LOADS.search(value))
    if name.lower().endswith("_proxy") or name.lower().startswith("npm_config"):
        return True
    return name in _NAMES or bool(_DANGEROUS.match(name)) or not re.fullmatch(r"[A-Za-z_]\w*", name)
