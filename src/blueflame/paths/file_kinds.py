"""Which files are source, tests or secrets, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

SUFFIXES: Mapping[str, str] = {
    "python": ".py .pyi .pyx .ipynb",
    "javascript": ".js .jsx .mjs .cjs",
    "typescript": ".ts .tsx .mts .cts",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
    "kotlin": ".kt .kts",
    "scala": ".scala .sc",
    "groovy": ".groovy",
    "ruby": ".rb .rake .erb",
    "php": ".php",
    "c": ".c .h",
    "c++": ".cc .cpp .cxx .hpp .hh .hxx",
    "c#": ".cs .razor",
    "f#": ".fs .fsx",
    "swift": ".swift",
    "objective-c": ".m .mm",
    "elixir": ".ex .exs",
    "erlang": ".erl .hrl",
    "haskell": ".hs .lhs",
    "ocaml": ".ml .mli",
    "clojure": ".clj .cljs .cljc .edn",
    "lua": ".lua",
    "dart": ".dart",
    "r": ".r .rmd",
    "julia": ".jl",
    "perl": ".pl .pm",
    "zig": ".zig",
    "nim": ".nim",
    "shell": ".sh .bash .zsh .fish",
    "powershell": ".ps1 .psm1",
    "sql": ".sql",
    "fortran": ".f90 .f95 .f",
    "solidity": ".sol",
    "terraform": ".tf",
    "protobuf": ".proto",
    "web": ".html .htm .css .scss .sass .less .vue .svelte .astro",
}
LANGUAGE_OF: Mapping[str, str] = {suffix: name for name, suffixes in SUFFIXES.items() for suffix in suffixes.split()}

_FOLDERS = "node_modules vendor third_party bower_components dist target venv __pycache__ site-packages"
THIRD_PARTY_FOLDERS = frozenset(_FOLDERS.split())

SECRET_FILE_NAME = re.compile(
    r"\.env(\..+)?|.+\.(secret|key|pem|p12|pfx|jks|keystore)|id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.npmrc|\.pypirc|\.htpasswd"
    r"|credentials\.json|service-account.*\.json|secrets\.ya?ml"
)
HARMLESS_FILE_NAME = re.compile(r"\.env\.(example|sample|template|dist)")

TEST_NAME = re.compile(
    r"test_.+\.py|tests?\.(py|[cm]?[jt]sx?)|.+_test\.(py|go|rb|exs|cc|cpp|dart|lua)|.+\.(test|spec)\.[cm]?[jt]sx?|.+_spec\.rb"
    r"|.+Tests?\.(java|kt|cs|swift|php|scala)|conftest\.py"
)
TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing"})


def is_secret_file(file: str) -> bool:
    name = file.rstrip("/").rpartition("/")[2]
    return SECRET_FILE_NAME.fullmatch(name) is not None and HARMLESS_FILE_NAME.fullmatch(name) is None


def is_test_file(file: str) -> bool:
    *folders, name = file.split("/")  # a map asks about every file of a repository: a path object would take seconds
    return TEST_NAME.fullmatch(name) is not None or not TEST_FOLDERS.isdisjoint(folders)
