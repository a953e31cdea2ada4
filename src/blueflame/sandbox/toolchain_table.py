"""Where toolchains are in a person's home, and which parts of those folders hold no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class ToolchainFolder(NamedTuple):
    why: str
    folders: tuple[str, ...]  # $VARIABLE, a path in the home, or an absolute one
    parts: tuple[str, ...] = ("",)  # shown; "" is the whole folder
    marks: tuple[str, ...] = ()  # one of these names must be in it, if the folder's name is ambiguous


TOOLCHAIN_FOLDERS = (
    ToolchainFolder("Python versions (pyenv)", ("$PYENV_ROOT", ".pyenv")),
    ToolchainFolder("Python packages (conda)", ("$CONDA_PREFIX", "miniconda3", "anaconda3", "miniforge3", "mambaforge"),
                    marks=("conda-meta",)),
    ToolchainFolder("Python versions and tools (uv)", (".local/share/uv",), ("python", "tools")),
    ToolchainFolder("Python tools (pipx)", ("$PIPX_HOME", ".local/share/pipx", ".local/pipx"), ("venvs", "shared")),
    ToolchainFolder("Python packages of the person", (".local/lib",), marks=("python3*",)),
    ToolchainFolder("Node versions (nvm)", ("$NVM_DIR", ".nvm"), ("versions", "alias", "nvm.sh", "nvm-exec")),
    ToolchainFolder("Node versions (fnm)", ("$FNM_DIR", ".local/share/fnm", ".fnm"), ("node-versions", "aliases")),
    ToolchainFolder("Node versions (Volta)", ("$VOLTA_HOME", ".volta"), ("bin", "tools")),
    ToolchainFolder("Node packages of the person", (".npm-global", ".npm-packages"), ("bin", "lib")),
    ToolchainFolder("Node packages of the person (pnpm)", ("$PNPM_HOME", ".local/share/pnpm")),
    ToolchainFolder("Bun", ("$BUN_INSTALL", ".bun"), ("bin", "install/global")),
    ToolchainFolder("Deno", ("$DENO_INSTALL", ".deno"), ("bin",)),
    ToolchainFolder("versions of tools (asdf)", ("$ASDF_DATA_DIR", "$ASDF_DIR", ".asdf"),
                    ("bin", "shims", "installs", "plugins", "lib", "libexec", "asdf.sh")),
    ToolchainFolder("versions of tools (mise)", ("$MISE_DATA_DIR", ".local/share/mise"),
                    ("installs", "shims", "plugins")),
    ToolchainFolder("Ruby versions (rbenv)", ("$RBENV_ROOT", ".rbenv")),
    ToolchainFolder("Ruby versions (rvm)", (".rvm",), ("bin", "rubies", "gems", "scripts")),
    ToolchainFolder("Ruby packages", (".gem",), ("ruby",)),
    ToolchainFolder("Ruby packages", ("$GEM_HOME", ".local/share/gem/ruby")),
    ToolchainFolder("Java versions (SDKMAN)", ("$SDKMAN_DIR", ".sdkman"), ("candidates",)),
    ToolchainFolder("Java", ("$JAVA_HOME", ".jdks"), marks=("bin", "*")),
    ToolchainFolder("Java packages (Maven)", (".m2",), ("repository",)),
    ToolchainFolder("Java packages (Gradle)", (".gradle",), ("caches/modules-2",)),
    ToolchainFolder("Go versions (goenv)", (".goenv",), ("bin", "shims", "versions", "libexec")),
    ToolchainFolder("Go", ("$GOROOT",), marks=("bin",)),
    ToolchainFolder("Go's tools and downloaded modules", ("$GOPATH", "go"), ("bin", "pkg/mod")),
    ToolchainFolder("Go's downloaded modules", ("$GOMODCACHE",), marks=("cache",)),
    ToolchainFolder("Rust's tools", ("$CARGO_HOME", ".cargo"), ("bin", "registry", "git")),
    ToolchainFolder("Rust versions (rustup)", ("$RUSTUP_HOME", ".rustup")),
    ToolchainFolder(".NET", ("$DOTNET_ROOT", ".dotnet"), marks=("dotnet",)),
    ToolchainFolder(".NET packages", (".nuget",), ("packages",)),
    ToolchainFolder("Haskell", (".ghcup",), ("bin", "ghc", "cache")),
    ToolchainFolder("Haskell", (".cabal",), ("bin", "packages", "store")),
    ToolchainFolder("OCaml", (".opam",)),
    ToolchainFolder("Julia", (".julia",), ("juliaup", "packages", "artifacts", "compiled", "registries")),
    ToolchainFolder("PHP packages", (".composer",), ("vendor",)),
    ToolchainFolder("browsers for tests (Playwright)", ("$PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright")),
    ToolchainFolder("browsers for tests (Puppeteer)", ("$PUPPETEER_CACHE_DIR", ".cache/puppeteer")),
    ToolchainFolder("Homebrew", ("$HOMEBREW_PREFIX", "/home/linuxbrew/.linuxbrew", ".linuxbrew"), marks=("Cellar",)),
    ToolchainFolder("Nix", ("/nix/store",)),
)  # fmt: skip

SECRET_PATHS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".netrc", ".npmrc", ".pypirc", ".pgpass"),
    *(".git-credentials", ".gitconfig", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".nuget/NuGet"),
    *(".composer/auth.json", ".password-store", ".local/share/keyrings", ".mozilla", ".thunderbird"),
    *(".claude", ".claude.json", ".codex", ".gemini", ".terraform.d", ".vault-token", ".bash_history", ".zsh_history"),
    *(".yarnrc", ".yarnrc.yml", ".hex"),
)
"""Never mounted, nor a folder that holds one of them."""

CACHE_VARIABLES: Mapping[str, str] = MappingProxyType(
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
"""Caches that builds write to, in the private home."""

CERTIFICATE_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT"),
    *("NIX_SSL_CERT_FILE", "CARGO_HTTP_CAINFO", "DENO_CERT"),
)
