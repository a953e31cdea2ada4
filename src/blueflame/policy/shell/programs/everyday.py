"""The rule `@everyday`: what developers run all day, allowed where a sandbox holds the agent.

The sandbox is the boundary: what a toolchain runs can do no more than code that the agent writes itself. So programs
are allowed by name, with any options. Refused is what leaves the checkout or the machine, with what to do instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from blueflame.lazy_pattern import compile_later
from blueflame.policy.shell.marks import LOOSE, NUMBER, UNKNOWN, split_names
from blueflame.policy.shell.programs.filters import FILTERS
from blueflame.policy.shell.programs.git import GitCall, is_harmless_setting
from blueflame.policy.shell.programs.spec import ParsedArguments, ProgramSpec, parse_arguments
from blueflame.policy.shell.programs.table import PROGRAMS, PYTHON

EVERYDAY_PROGRAMS: Mapping[str, str] = {
    "files": "rm mv cp mkdir rmdir touch ln chmod install truncate unlink patch tar zip unzip gzip gunzip bzip2 xz zstd"
    " bunzip2 unxz xzcat ffmpeg ffprobe convert magick identify"
    " split csplit mktemp rsync dd dos2unix iconv rename",
    "shell": "bash sh dash perl env printenv ag ack fd fdfind bc dc sponge hyperfine entr cloc tokei lsof ss netstat"
    " xmllint yamllint shellcheck shfmt bats openssl sqlite3 pandoc dot just task bazel bazelisk pre-commit codespell"
    " gron mlr xsv tput",
    "databases": "psql createdb dropdb initdb pg_ctl pg_isready redis-server redis-cli mysql mysqladmin mongosh duckdb",
    "python": "pip uv uvx pipx poetry pdm hatch flit pipenv rye tox nox pytest py.test ruff black isort flake8 pylint"
    " mypy pyright basedpyright ty coverage bandit yapf autopep8 autoflake pyupgrade vulture virtualenv pyenv conda"
    " sphinx-build mkdocs django-admin flask alembic cython maturin scons invoke inv doit twine gunicorn uvicorn"
    " ipython jupyter pybabel behave locust stubgen dmypy pip-compile pip-sync"
    " pip-audit pipdeptree pydocstyle docformatter djlint towncrier deptry lint-imports celery fastapi streamlit",
    "node": "node npm npx pnpm pnpx yarn yarnpkg bun bunx deno corepack tsc ts-node tsx jest vitest mocha ava tap"
    " jasmine karma playwright cypress eslint prettier biome standard xo oxlint stylelint rollup vite webpack"
    " esbuild swc babel turbo nx lerna rimraf next nuxt ng vue-tsc svelte-check c8 nyc nodemon tsup knip changeset"
    " astro storybook gulp grunt parcel expo react-scripts ember sass tailwindcss",
    "go": "go gofmt goimports gofumpt golangci-lint staticcheck gotestsum mockgen govulncheck revive ginkgo buf protoc"
    " wire stringer templ sqlc dlv golint swag air",
    "rust": "cargo rustc rustfmt rustdoc rustup clippy-driver wasm-pack trunk bacon",
    "java": "mvn mvnd mvnw gradle gradlew java javac jar javap jshell kotlin kotlinc ktlint sbt scala scalac ant lein"
    " clojure clj groovy javadoc checkstyle google-java-format",
    "ruby": "ruby bundle bundler gem rake rspec rubocop rails irb erb standardrb brakeman srb cucumber",
    "c": "make gmake cmake ctest cpack ninja meson gcc g++ cc c++ cpp clang clang++ ld ar nm objdump readelf strip"
    " ranlib size ldd gdb lldb valgrind strace pkg-config autoconf automake autoreconf aclocal libtool libtoolize"
    " clang-format clang-tidy cppcheck ccache gcov lcov gcovr bear c++filt addr2line as objcopy bison flex m4"
    " swig doxygen nasm",
    "php": "php composer phpunit pest phpstan psalm php-cs-fixer phpcs phpcbf rector",
    "dotnet": "dotnet msbuild csc fsharpc",
    "other languages": "swift swiftc swiftlint mix elixir iex rebar3 erl erlc ghc ghci runghc cabal stack hlint ormolu"
    " dune ocaml ocamlfind opam zig nim nimble lua luajit luarocks busted stylua julia R Rscript dart flutter crystal"
    " shards forge solc",
    "localhost": "curl wget",
}
"""Programs by what they are for; with them every program in the checkout, and git on the agent's own checkout."""

EVERYDAY_SUMMARY = (
    "toolchain programs with any arguments: python, pytest, pip, uv, node, npm, npx, tsc, go, cargo, mvn, gradle, ruby,"
    " bundle, php, composer, dotnet, make, cmake, gcc and the like",
    "programs and scripts of the repository, such as ./scripts/check.sh, .venv/bin/pytest and node_modules/.bin/jest",
    "rm, mv, cp, mkdir, touch, ln, chmod, sed -i and the like on the files of the task, on build output and in /tmp",
    "git that reads or changes its own checkout: status, diff, log, show, blame, grep, add, commit, restore, stash,"
    " reset, cherry-pick, checkout of files",
    "ls, cat, grep, find, sed, awk, jq and other readers; curl and wget to localhost",
    "pipes, here-documents, loops, cd, variables, timeout",
)
"""What the rule allows, in words for agents and people."""

EVERYDAY_REFUSED = (
    "git push, fetch, pull, merge, rebase, other branches, npm publish and the like, sudo, docker, ssh, gh,"
    " installing system packages, curl to other hosts"
)

_LANDED = "your commits are collected and landed for you; commit and continue"
_PUBLISHED = "publishing is left to a person; finish the change and say what should be published"
_OFFLINE = "only localhost can be reached; work with what is in the checkout"
_RIGHTS = "there are no other rights here; do it without, in your checkout"
_CONTAINERS = "there are no containers here; run the program itself or leave it to a person"
_ACCOUNTS = "no account is signed in here; leave it to a person"
_MACHINE = "the machine is set up by a person; say in your last message what is missing"
_OTHERS = "end only what you started: kill %1 or kill $!"
_RUNNING = "start it in the background with & instead"
_CONTROL = "sessions and gates are a person's; finish your task"

_REFUSED: Mapping[str, str] = {
    _RIGHTS: "sudo su doas pkexec runuser chroot unshare nsenter mount umount capsh setcap newgrp sg chown chgrp",
    _CONTAINERS: "docker docker-compose podman nerdctl buildah kubectl helm minikube kind vagrant",
    _OFFLINE: "ssh scp sftp ssh-keygen ssh-add nc ncat netcat socat telnet ftp lftp rclone nmap ping dig nslookup http"
    " xh aria2c",
    _ACCOUNTS: "gh glab hub aws gcloud gsutil az heroku vercel netlify fly flyctl firebase wrangler doctl terraform"
    " tofu pulumi ansible ansible-playbook op vault gpg security",
    _MACHINE: "apt apt-get aptitude dpkg yum dnf rpm apk pacman zypper brew port snap flatpak systemctl service"
    " crontab at batch systemd-run launchctl useradd usermod passwd visudo sysctl",
    _OTHERS: "pkill killall fuser skill",
    _RUNNING: "tmux screen",
    _CONTROL: "blueflame claude codex gemini cursor-agent opencode aider",
}
_PUBLISHING: Mapping[str, str] = {
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun"),
        "publish unpublish login logout adduser owner deprecate dist-tag access token team org",
    ),
    "cargo": "publish login logout owner yank",
    "twine": "upload register",
    **dict.fromkeys(("poetry", "uv", "flit", "hatch", "pdm", "maturin"), "publish upload"),
    "gem": "push yank signin owner",
    **dict.fromkeys(("mvn", "mvnd", "mvnw"), "deploy release:prepare release:perform"),
    **dict.fromkeys(("gradle", "gradlew"), "publish publishToMavenCentral publishPlugins uploadArchives"),
    "dotnet": "nuget",
    "changeset": "publish",
    "lerna": "publish",
    "mix": "hex.publish",
    "rake": "release",
}
_PUBLISHES_LATER = frozenset({"mvn", "mvnd", "mvnw", "gradle", "gradlew", "rake"})
"""Any of their words may be a goal, not only the first."""

_NAMES = frozenset(name for names in EVERYDAY_PROGRAMS.values() for name in names.split()) | frozenset(FILTERS)
_OBJECTIONS = {name: advice for advice, names in _REFUSED.items() for name in names.split()}
_VERSION = compile_later(r"-?\d[\d.]*\Z")
_LOCAL = compile_later(
    rf"(?:https?://)?(?:localhost|127(?:\.\d{{1,3}}){{3}}|0\.0\.0\.0|\[::1?\])(?::[\d{UNKNOWN}{LOOSE}{NUMBER}]+)?(?:[/?#]|\Z)",
    re.IGNORECASE,
)


def is_everyday(name: str) -> bool:
    """Return whether a program, by its bare name, is one of those that developers run all day."""
    known = name in _NAMES or _VERSION.sub("", name) in _NAMES
    return known or name.startswith("cargo-") or PYTHON.match(name) is not None


@lru_cache(maxsize=256)
def find_objection(argv: tuple[str, ...]) -> str | None:
    """Return what to do instead of a command that would leave the checkout or the machine; None if it stays."""
    name, words = argv[0].rsplit("/", 1)[-1], argv[1:]
    if PYTHON.match(name) and "-m" in words[:-1]:
        return find_objection(words[words.index("-m") + 1 :])
    if name in _OBJECTIONS:
        return _OBJECTIONS[name]
    if name in ("curl", "wget"):
        return None if all(_LOCAL.match(word) for word in _list_addresses(name, words)) else _OFFLINE
    asked = [word for word in words if not word.startswith("-")]
    verbs = _PUBLISHING.get(name, "").split()
    if name == "yarn" and asked[:1] == ["npm"]:
        asked = asked[1:]
    if name == "dotnet" and asked[:2] != ["nuget", "push"]:
        return None
    return _PUBLISHED if any(word in verbs for word in (asked if name in _PUBLISHES_LATER else asked[:1])) else None


def _list_addresses(name: str, words: tuple[str, ...]) -> Iterator[str]:
    parsed = parse_arguments(PROGRAMS.get(name, ProgramSpec()), words)
    yield from parsed.operands
    yield from (value for option, value in parsed.options if option == "--url" and value)


_STAY = "stay on your branch, only its commits are collected; git show REVISION:FILE reads other versions"
_NO_MERGE = "results are merged for you; git cherry-pick takes over a single commit"
_GIT_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("push", "send-pack", "request-pull", "svn", "p4"), _LANDED),
    **dict.fromkeys(("fetch", "pull", "clone", "ls-remote"), _OFFLINE),
    **dict.fromkeys(("merge", "rebase", "subtree"), _NO_MERGE),
    "switch": _STAY,
}
_GIT_VERBS = split_names(
    "status diff log show blame annotate grep ls-files ls-tree rev-parse rev-list merge-base describe name-rev"
    " for-each-ref show-ref shortlog reflog whatchanged cat-file check-ignore check-attr count-objects cherry diff-tree"
    " diff-index diff-files range-diff show-branch var version help"
    " add commit restore checkout stash reset rm mv branch tag clean apply am cherry-pick revert format-patch notes"
    " update-index hash-object archive bisect config remote worktree submodule lfs fsck gc verify-commit stripspace"
    " interpret-trailers patch-id merge-file rerere"
)
_GIT_ONLY: Mapping[str, tuple[tuple[str, ...], str]] = {
    "remote": (("get-url",), _OFFLINE),
    "worktree": (("list",), "you have one checkout; git show REVISION:FILE reads other versions"),
    "submodule": (("status", "summary"), _OFFLINE),
    "lfs": (("ls-files", "status", "track"), _OFFLINE),
}
"""Subcommands of which only some verbs stay in the checkout."""
_FILE = compile_later(r"\.{1,2}\Z|\./|.*/\Z|(?:.*/)?[^/]*\.[A-Za-z][\w-]*\Z")


def is_everyday_git(call: GitCall) -> bool:
    return call.subcommand in _GIT_VERBS


def find_git_objection(call: GitCall, parsed: ParsedArguments) -> str | None:
    """Return what to do instead of a git command that reaches outside of its own checkout or leaves its branch."""
    if call.subcommand in _GIT_REFUSED:
        return _GIT_REFUSED[call.subcommand]
    if call.subcommand == "checkout" and not _takes_files(call, parsed):
        return f"{_STAY}; to take a file from another one: git checkout REVISION -- FILE"
    if call.subcommand == "branch" and any(name in ("-m", "-M", "--move") for name, _ in parsed.options):
        return "keep the name of your branch: its commits are collected by it"
    allowed, instead = _GIT_ONLY.get(call.subcommand, ((), ""))
    return instead if instead and parsed.operands and parsed.operands[0] not in allowed else None


def _takes_files(call: GitCall, parsed: ParsedArguments) -> bool:
    """Return whether a checkout only changes files: `git checkout -- x`, `git checkout src/app.py`."""
    if any(name in ("-b", "-B", "--orphan", "--detach", "-d", "-t", "--track") for name, _ in parsed.options):
        return False
    return "--" in call.words or all(word == "HEAD" or _FILE.match(word) for word in parsed.operands)


def is_harmless_call(call: GitCall) -> bool:
    """Return whether the options before the subcommand only set harmless settings: `git -c color.ui=never log`."""
    return call.refused == "-c" and all(map(is_harmless_setting, call.settings))
