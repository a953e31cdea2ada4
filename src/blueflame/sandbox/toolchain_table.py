"""Where toolchains are kept in a person's home, and which parts of those folders are nobody's secret."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Known(NamedTuple):
    why: str
    folders: tuple[str, ...]  # $VARIABLE, a path in the home, or an absolute one
    parts: tuple[str, ...] = ("",)  # shown; "" is the whole folder
    marks: tuple[str, ...] = ()  # one of these names must be in it, where the folder's own name says too little


KNOWN = (
    Known("Python versions (pyenv)", ("$PYENV_ROOT", ".pyenv")),
    Known("Python packages (conda)", ("$CONDA_PREFIX", "miniconda3", "anaconda3", "miniforge3", "mambaforge"),
          marks=("conda-meta",)),
    Known("Python versions and tools (uv)", (".local/share/uv",), ("python", "tools")),
    Known("Python tools (pipx)", ("$PIPX_HOME", ".local/share/pipx", ".local/pipx"), ("venvs", "shared")),
    Known("Python packages of the person", (".local/lib",), marks=("python3*",)),
    Known("Node versions (nvm)", ("$NVM_DIR", ".nvm"), ("versions", "alias", "nvm.sh", "nvm-exec")),
    Known("Node versions (fnm)", ("$FNM_DIR", ".local/share/fnm", ".fnm"), ("node-versions", "aliases")),
    Known("Node versions (Volta)", ("$VOLTA_HOME", ".volta"), ("bin", "tools")),
    Known("Node packages of the person", (".npm-global", ".npm-packages"), ("bin", "lib")),
    Known("Node packages of the person (pnpm)", ("$PNPM_HOME", ".local/share/pnpm")),
    Known("Bun", ("$BUN_INSTALL", ".bun"), ("bin", "install/global")),
    Known("Deno", ("$DENO_INSTALL", ".deno"), ("bin",)),
    Known("versions of tools (asdf)", ("$ASDF_DATA_DIR", "$ASDF_DIR", ".asdf"),
          ("bin", "shims", "installs", "plugins", "lib", "libexec", "asdf.sh")),
    Known("versions of tools (mise)", ("$MISE_DATA_DIR", ".local/share/mise"), ("installs", "shims", "plugins")),
    Known("Ruby versions (rbenv)", ("$RBENV_ROOT", ".rbenv")),
    Known("Ruby versions (rvm)", (".rvm",), ("bin", "rubies", "gems", "scripts")),
    Known("Ruby packages", (".gem",), ("ruby",)),
    Known("Ruby packages", ("$GEM_HOME", ".local/share/gem/ruby")),
    Known("Java versions (SDKMAN)", ("$SDKMAN_DIR", ".sdkman"), ("candidates",)),
    Known("Java", ("$JAVA_HOME", ".jdks"), marks=("bin", "*")),
    Known("Java packages (Maven)", (".m2",), ("repository",)),
    Known("Java packages (Gradle)", (".gradle",), ("caches/modules-2",)),
    Known("Go versions (goenv)", (".goenv",), ("bin", "shims", "versions", "libexec")),
    Known("Go", ("$GOROOT",), marks=("bin",)),
    Known("Go's tools and downloaded modules", ("$GOPATH", "go"), ("bin", "pkg/mod")),
    Known("Go's downloaded modules", ("$GOMODCACHE",), marks=("cache",)),
    Known("Rust's tools", ("$CARGO_HOME", ".cargo"), ("bin", "registry", "git")),
    Known("Rust versions (rustup)", ("$RUSTUP_HOME", ".rustup")),
    Known(".NET", ("$DOTNET_ROOT", ".dotnet"), marks=("dotnet",)),
    Known(".NET packages", (".nuget",), ("packages",)),
    Known("Haskell", (".ghcup",), ("bin", "ghc", "cache")),
    Known("Haskell", (".cabal",), ("bin", "packages", "store")),
    Known("OCaml", (".opam",)),
    Known("Julia", (".julia",), ("juliaup", "packages", "artifacts", "compiled", "registries")),
    Known("PHP packages", (".composer",), ("vendor",)),
    Known("browsers for tests (Playwright)", ("$PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright")),
    Known("browsers for tests (Puppeteer)", ("$PUPPETEER_CACHE_DIR", ".cache/puppeteer")),
    Known("Homebrew", ("$HOMEBREW_PREFIX", "/home/linuxbrew/.linuxbrew", ".linuxbrew"), marks=("Cellar",)),
    Known("Nix", ("/nix/store",)),
)  # fmt: skip

SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".netrc", ".npmrc", ".pypirc", ".pgpass"),
    *(".git-credentials", ".gitconfig", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(
        ".m2/settings.xml",
        ".m2/settings-security.xml",
        ".gradle/gradle.properties",
        ".nuget/NuGet",
        ".composer/auth.json",
    ),
    *(".password-store", ".local/share/keyrings", ".mozilla", ".thunderbird", ".claude", ".claude.json", ".codex"),
    *(".gemini", ".terraform.d", ".vault-token", ".bash_history", ".zsh_history", ".yarnrc", ".yarnrc.yml", ".hex"),
)
"""Never shown, nor a folder that one of them is in."""

WITHOUT_HOME: Mapping[str, str] = MappingProxyType(
    {
        "CARGO_HOME": ".cargo",
        "GOPATH": "go",
        "GOCACHE": ".cache/go-build",
        "GOMODCACHE": "go/pkg/mod",
        "npm_config_cache": ".npm",
        "PIP_CACHE_DIR": ".cache/pip",
        "UV_CACHE_DIR": ".cache/uv",
        "GRADLE_USER_HOME": ".gradle",
        "DENO_DIR": ".cache/deno",
    }
)
"""What is written there while building goes into the private home."""

CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT"),
    *("NIX_SSL_CERT_FILE", "CARGO_HTTP_CAINFO", "DENO_CERT"),
)
