"""How projects in the other languages are set up and tested, each by its own tools."""

from __future__ import annotations

import re

from blueflame.config.detect.commands import Candidate, ProjectCommands
from blueflame.config.detect.project_files import ProjectFiles, as_dict

GRADLE_FILES = ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
GOLANGCI_FILES = (".golangci.yml", ".golangci.yaml", ".golangci.toml")


def detect_go(files: ProjectFiles) -> ProjectCommands | None:
    if not files.has("go.mod", "go.work"):
        return None
    modules = re.findall(r"(?m)^(?:use)?\s+(\.[\w./-]*?)/?\s*$", files.read_text("go.work"))
    where = " ".join(f"{module}/..." for module in modules or ["."])
    setup = ("go mod download",) if files.has("go.sum") else ()
    lint = ("golangci-lint run",) if files.has(*GOLANGCI_FILES) else ()
    return ProjectCommands(
        candidates=(Candidate(setup=setup, tests=(f"go test {where}",)),),
        lints=(f"go vet {where}", *lint),
        registries=("go",),
    )


def detect_rust(files: ProjectFiles) -> ProjectCommands | None:
    if not files.has("Cargo.toml"):
        return None
    manifest = files.read_text("Cargo.toml")
    workspace = " --workspace" if re.search(r"(?m)^\[workspace[].]", manifest) else ""
    locked = " --locked" if files.has("Cargo.lock") else ""
    wanted = "dependencies]" in manifest or bool(workspace)
    clippy = files.has("clippy.toml", ".clippy.toml") or "clippy" in manifest
    return ProjectCommands(
        candidates=(
            Candidate(setup=(f"cargo fetch{locked}",) if wanted else (), tests=(f"cargo test{workspace}",)),
            Candidate(tests=(f"cargo test{workspace}",)),
        )[: 2 if wanted else 1],
        lints=(f"cargo clippy{workspace}",) if clippy else (),
        registries=("crates",),
    )


def detect_jvm(files: ProjectFiles) -> ProjectCommands | None:
    if files.has("pom.xml"):
        maven = "./mvnw" if files.has("mvnw") else "mvn"
        return ProjectCommands(
            candidates=(
                Candidate(setup=(f"{maven} -B -q test-compile dependency:go-offline",), tests=(f"{maven} -B -o test",)),
                Candidate(setup=(f"{maven} -B -q test -DskipTests",), tests=(f"{maven} -B -o test",)),
                Candidate(tests=(f"{maven} -B test",)),
            ),
            registries=("maven",),
        )
    if files.has(*GRADLE_FILES):
        gradle = "./gradlew" if files.has("gradlew") else "gradle"
        return ProjectCommands(
            candidates=(
                Candidate(
                    setup=(f"{gradle} --no-daemon testClasses",), tests=(f"{gradle} --no-daemon --offline test",)
                ),
                Candidate(tests=(f"{gradle} --no-daemon --offline test",)),
            ),
            registries=("maven",),
        )
    if files.has("build.sbt"):
        return ProjectCommands(
            candidates=(Candidate(setup=("sbt update",), tests=("sbt test",)),), registries=("maven",)
        )
    return None


def detect_ruby(files: ProjectFiles) -> ProjectCommands | None:
    if not files.has("Gemfile"):
        return None
    specs = files.has(".rspec") or any(file.startswith("spec/") for file in files.files)
    rake = files.has("Rakefile") and any(file.startswith("test/") for file in files.files)
    tests = ("bundle exec rspec",) if specs else ("bundle exec rake test",) if rake else ()
    return ProjectCommands(
        # in the checkout: the folder of the system's gems cannot be written
        candidates=(Candidate(setup=("bundle config set --local path vendor/bundle && bundle install",), tests=tests),),
        lints=("bundle exec rubocop",) if files.has(".rubocop.yml") else (),
        registries=("rubygems",),
    )


def detect_php(files: ProjectFiles) -> ProjectCommands | None:
    if not files.has("composer.json"):
        return None
    scripts = as_dict(files.read_json("composer.json").get("scripts"))
    unit = files.has("phpunit.xml", "phpunit.xml.dist")
    tests = ("composer test",) if "test" in scripts else ("vendor/bin/phpunit",) if unit else ()
    return ProjectCommands(
        candidates=(Candidate(setup=("composer install --no-interaction",), tests=tests),),
        lints=("composer lint",) if "lint" in scripts else (),
        registries=("packagist",),
    )


def detect_dotnet(files: ProjectFiles) -> ProjectCommands | None:
    if not files.find(r"[^/]+\.(sln|slnx|csproj|fsproj)"):
        return None
    return ProjectCommands(
        candidates=(Candidate(setup=("dotnet restore",), tests=("dotnet test --no-restore",)),), registries=("nuget",)
    )


SINGLE_FILES = (
    ("mix.exs", ("mix deps.get",), "mix test", ("hex",)),
    ("Package.swift", (), "swift test", ()),
    ("build.zig", (), "zig build test", ()),
    ("pubspec.yaml", ("dart pub get",), "dart test", ("pub",)),
    ("stack.yaml", (), "stack test", ()),
    ("dune-project", (), "dune test", ()),
    ("deps.edn", ("clojure -P -X:test",), "clojure -X:test", ("maven", "clojars")),
    ("deno.json", (), "deno test", ()),
)


def detect_others(files: ProjectFiles) -> ProjectCommands | None:
    for name, setup, test, registries in SINGLE_FILES:
        if files.has(name):
            return ProjectCommands(candidates=(Candidate(setup=setup, tests=(test,)),), registries=registries)
    return None
