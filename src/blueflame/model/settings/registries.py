"""Package registries by name: the hosts that a setup command may reach, and an agent may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

REGISTRIES: Mapping[str, tuple[str, ...]] = {
    "npm": ("registry.npmjs.org", "registry.yarnpkg.com", "nodejs.org"),  # nodejs.org: headers for native modules
    "pypi": ("pypi.org", "files.pythonhosted.org"),
    "crates": ("index.crates.io", "static.crates.io", "crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org"),
    "maven": (
        *("repo.maven.apache.org", "repo1.maven.org"),
        *("plugins.gradle.org", "plugins-artifacts.gradle.org", "services.gradle.org", "downloads.gradle.org"),
    ),
    "rubygems": ("rubygems.org", "index.rubygems.org"),
    "packagist": ("repo.packagist.org", "packagist.org", "api.github.com", "codeload.github.com"),
    "nuget": ("api.nuget.org",),
    "hex": ("hex.pm", "repo.hex.pm", "builds.hex.pm"),
    "pub": ("pub.dev",),
    "clojars": ("repo.clojars.org",),
}


def list_registry_hosts(names: Iterable[str]) -> tuple[str, ...]:
    """The hosts of presets; any other name is a host itself."""
    return tuple(dict.fromkeys(host for name in names for host in REGISTRIES.get(name, (name,))))
