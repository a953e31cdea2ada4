"""Variables in front of a command: most are harmless, some decide which code runs."""

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
_SAFE = {
    "GIT_PAGER": r"cat|",
    "PAGER": r"cat|",
    "MANPAGER": r"cat|",
    "LESS": r"-?[A-Za-z]*",
    "GIT_EDITOR": r"true|:|cat",
    "EDITOR": r"true|:|cat",
    "VISUAL": r"true|:|cat",
    "GIT_TERMINAL_PROMPT": r"[01]",
    "GIT_OPTIONAL_LOCKS": r"[01]",
    "GIT_MERGE_AUTOEDIT": r"no",
    "GIT_LITERAL_PATHSPECS": r"[01]",
    "GIT_SEQUENCE_EDITOR": r"true|:|cat",
    "PYTHONDONTWRITEBYTECODE": r"\w*",
    "PYTHONUNBUFFERED": r"\w*",
    "PYTHONHASHSEED": r"\w*",
    "PYTHONFAULTHANDLER": r"\w*",
    "PYTHONIOENCODING": r"[\w:-]*",
    "PYTHONUTF8": r"[01]",
    "PYTHONASYNCIODEBUG": r"\w*",
    "PYTHONDEVMODE": r"\w*",
    "PYTHONOPTIMIZE": r"\w*",
    "PYTHONTRACEMALLOC": r"\d*",
    "PYTHONWARNINGS": r"[a-zA-Z:,]*",
    "PYTHONNOUSERSITE": r"\w*",
    "NODE_ENV": r"[\w-]*",
    "NODE_DEBUG": r"[\w,-]*",
    "NODE_NO_WARNINGS": r"\w*",
    "NODE_TEST_CONTEXT": r"[\w-]*",
    "NODE_OPTIONS": r"(?:"
    r" *--(?:max-old-space-size=\d+|experimental-vm-modules|no-warnings|enable-source-maps|trace-warnings"
    r"|experimental-strip-types|no-deprecation))*",
    "RUST_BACKTRACE": r"\w*",
    "RUST_LOG": r"[\w:=,.-]*",
    "RUST_TEST_THREADS": r"\d+",
    "RUST_MIN_STACK": r"\d+",
    "RUSTFLAGS": r"(?: *-[DAWF] ?[\w:-]+)*",
    "RUSTDOCFLAGS": r"(?: *-[DAWF] ?[\w:-]+)*",
    "CARGO_TERM_COLOR": r"\w+",
    "CARGO_INCREMENTAL": r"[01]",
    "CARGO_NET_OFFLINE": r"\w+",
    "CARGO_BUILD_JOBS": r"\d+",
    "CARGO_TERM_VERBOSE": r"\w+",
    "UV_OFFLINE": r"\w*",
    "UV_FROZEN": r"\w*",
    "UV_NO_SYNC": r"\w*",
    "AWS_REGION": r"[\w-]*",
    "AWS_DEFAULT_REGION": r"[\w-]*",
    "GOTOOLCHAIN": r"local",
    "RUBY_ENV": r"\w*",
    "COMPOSE": r"\w*",
    "COLUMNS": r"\d*",
    "LINES": r"\d*",
    "TERM": r"[\w-]*",
    "JEST_WORKER_ID": r"\d*",
    "COMPUTERNAME": r"[\w-]*",
    "OPTIMIZE": r"\w*",
    "MANWIDTH": r"\d*",
    "HISTCONTROL": r"\w*",
    "MAKEFLAGS": r"-?j?\d*",
    "DISPLAY": r":?[\d.]*",
    "SHELLCHECK_OPTS": r"[\w =,-]*",
}
_COMPILERS = frozenset(("CC", "CXX", "HOSTCC", "LINKER"))
_COMPILER = re.compile(r"(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+|musl-gcc)(?:-\d+)?\Z")
_FLAGS = re.compile(r"(?:[A-Z_]*(?:C|CPP|CXX|F|LD)FLAGS|LDLIBS|LIBS)\Z")
_FLAG_VALUE = re.compile(r"[\w=.,:+ -]*\Z")
_LOADS = re.compile(r"plugin|wrapper|specs|-B|load|-Wl,.*(?:rpath|interp)")
PATH_VARIABLES = {
    "PYTHONPATH": "read",
    "NODE_PATH": "read",
    "TMPDIR": "write",
    "TMP": "write",
    "TEMP": "write",
    "CARGO_TARGET_DIR": "write",
    "GOCACHE": "write",
    "GOTMPDIR": "write",
    "PYTHONPYCACHEPREFIX": "write",
    "GOMODCACHE": "read",
    "RUFF_CACHE_DIR": "write",
    "MYPY_CACHE_DIR": "write",
    "COVERAGE_FILE": "write",
}
"""Variables that hold folders: judged as such."""


def is_dangerous_variable(name: str, value: str) -> bool:
    """True when the variable may decide which code runs, or how the shell reads what follows."""
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
