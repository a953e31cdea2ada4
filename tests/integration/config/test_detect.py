"""Any repository gets a configuration that passes its own check and reaches its own sources."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.config.detect.repository import survey_repository
from blueflame.config.load import parse_config
from blueflame.config.scaffold import build_config_text, escape_glob
from blueflame.model.errors import Refused
from blueflame.paths.globs import Globs
from support.skeletons import SKELETONS, Skeleton

HERE = Path("blueflame.yaml")


def run(repo: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True)


def repository(path: Path, files: Mapping[str, str], *, branch: str = "main") -> Path:
    path.mkdir(parents=True)
    run(path, "init", "-q", "-b", branch)
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    run(path, "add", "-A")
    run(path, "commit", "-q", "--allow-empty", "-m", "chore: begin")
    return path


PYPROJECT = "[project]\nname='x'\n[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n"
PACKAGE = json.dumps({"scripts": {"test": "jest", "lint": "eslint ."}})
NO_TESTS = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})

REPOSITORIES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "python": (
        {"pyproject.toml": PYPROJECT, "src/x/a.py": "", "tests/test_a.py": ""},
        (".venv/bin/python -m pytest", ".venv/bin/python -m ruff check .", ".venv/bin/python -m mypy ."),
    ),
    "python with unittest": ({"app.py": "", "test_app.py": "import unittest\n"}, ("python3 -m unittest discover",)),
    "python with uv": ({"uv.lock": "", "pyproject.toml": PYPROJECT, "a.py": ""}, (".venv/bin/python -m pytest",)),
    "one file": ({"script.py": "print()\n"}, ()),
    "django": ({"manage.py": "", "site/views.py": ""}, ("python3 manage.py test",)),
    "node": (
        {"package.json": PACKAGE, "lib/index.js": "", "yarn.lock": ""},
        ("~/.local/bin/yarn test", "~/.local/bin/yarn run lint"),
    ),
    "node without tests": ({"package.json": NO_TESTS, "index.ts": ""}, ()),
    "monorepo": (
        {"packages/api/package.json": PACKAGE, "packages/api/src/a.ts": "", "apps/web app/page.tsx": ""},
        ("cd packages/api && npm test",),
    ),
    "go": ({"go.mod": "", "go.sum": "", "main.go": "", "pkg/a/a.go": ""}, ("go test ./...", "go vet ./...")),
    "go below": ({"server/go.mod": "", "server/main.go": ""}, ("cd server && go test ./...",)),
    "rust": ({"Cargo.toml": "", "src/main.rs": ""}, ("cargo test",)),
    "maven": ({"pom.xml": "", "mvnw": "", "src/main/java/A.java": ""}, ("./mvnw -B -o test",)),
    "gradle": ({"build.gradle.kts": "", "app/src/A.kt": ""}, ("gradle --no-daemon --offline test",)),
    "ruby": (
        {"Gemfile": "", ".rspec": "", ".rubocop.yml": "", "lib/a.rb": ""},
        ("bundle exec rspec", "bundle exec rubocop"),
    ),
    "php": ({"composer.json": "{}", "phpunit.xml": "", "src/A.php": ""}, ("vendor/bin/phpunit",)),
    "dotnet": ({"App.sln": "", "App/Program.cs": ""}, ("dotnet test --no-restore",)),
    "cmake": (
        {"CMakeLists.txt": "enable_testing()\n", "src/a.cpp": "", "include/a.hpp": ""},
        ("cmake -S . -B /tmp/build",),
    ),
    "elixir": ({"mix.exs": "", "lib/a.ex": ""}, ("mix test",)),
    "make": (
        {"Makefile": ".PHONY: test\ntest: build\n\t@true\nlint:\nX := test\n", "a.c": ""},
        ("make test", "make lint"),
    ),
    "just": ({"justfile": "test *args:\n  true\n", "a.py": ""}, ("just test",)),
    "broken manifests": ({"pyproject.toml": "[[[", "package.json": "{", "composer.json": "[]", "a.py": ""}, ()),
    "no language": ({"README.md": "# x\n", "data/table.csv": "", "LICENSE": ""}, ()),
    "only a file without a suffix": ({"run": "#!/bin/sh\n"}, ()),
    "nothing at all": ({}, ()),
    "odd names": (
        {
            "мой код/а.py": "",
            "[slug]/page.tsx": "",
            "{x}/a.js": "",
            "a*b/c.go": "",
            "#1/x.py": "",
            "!/y.py": "",
            "~/z.py": "",
        },
        (),
    ),
    "blanks at the ends": ({" lead/a.py": "", "trail /b.py": "", "a  b/c d.py": ""}, ()),
    "a line break in a name": ({"bad\nname/a.py": "", "good/b.py": ""}, ()),
    "folders named like secrets": ({"my.key/a.py": "", ".env.d/b.py": "", "x.pem/c.go": ""}, ()),
    "hidden and vendored": ({".github/s.py": "", "node_modules/a/b.js": "", "vendor/c.go": "", "lib/d.py": ""}, ()),
    "dotted files": (
        {".eslintrc.js": "", ".prettierrc.mjs": "", "package.json": PACKAGE, "index.js": ""},
        ("npm test",),
    ),
    "only dotted files": ({".eslintrc.js": ""}, ()),
    "only vendored": ({"vendor/c.go": ""}, ()),
    "secrets": ({".env": "", "deploy/id_rsa": "", "src/a.py": "", ".env.example": ""}, ()),
    "capital suffix": ({"A.PY": "", "SRC/B.CPP": ""}, ()),
}


@pytest.mark.parametrize("name", REPOSITORIES)
def test_the_configuration_passes_its_own_check_and_reaches_the_sources(tmp_path: Path, name: str) -> None:
    files, commands = REPOSITORIES[name]
    found = survey_repository(repository(tmp_path / "мой repo", files), lambda program: program != "yarn")
    loaded = parse_config(build_config_text(found), path=HERE)
    allowed = Globs(loaded.settings.permissions.allowed_paths)
    blocked = Globs(loaded.settings.permissions.blocked_paths)
    for source in found.sources:
        if "\n" not in source:
            assert allowed.matches(source), source
            assert not blocked.matches(source), source
    assert loaded.version == 2
    written = loaded.settings.validation.validator_diagnostics.commands
    for command in commands:
        assert any(each.startswith(command) for each in written), written
    assert bool(written) == bool(commands)


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda each: each.name)
def test_each_ecosystem_has_its_checks_and_registries(tmp_path: Path, skeleton: Skeleton) -> None:
    made = repository(tmp_path / "r", skeleton.files)
    found = survey_repository(made, lambda program: program not in ("pnpm", "yarn", "uv", "poetry")).commands
    for check in skeleton.checks:
        assert any(line.startswith(check) for line in found.tests), found
    assert set(found.registries) == set(skeleton.registries)


def write_scripts(**scripts: str) -> str:
    return json.dumps({"scripts": {name.replace("__", ":"): text for name, text in scripts.items()}})


SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a browser that another script starts": (
        write_scripts(test="npm run unit && npm run browser", unit="mocha test", browser="playwright test"),
        ("npm run unit",),
    ),
    "a browser behind a pattern of scripts": (
        write_scripts(test="run-s lint test-*", **{"test-node": "mocha test", "test-e2e": "vitest run -c e2e.ts"}),
        ("npm run test-node",),
    ),
    "a folder named like a script": (
        write_scripts(test="karma start", test__unit="mocha test"),
        ("npm run test:unit",),
    ),
    "a linter that writes": (
        write_scripts(test="jest", lint="biome lint --write .", lint__check="biome lint ."),
        ("npm test", "npm run lint:check"),
    ),
    "only a linter that writes": (write_scripts(test="jest", lint="eslint --fix ."), ("npm test",)),
    "types by another name": (
        write_scripts(test="jest", check__lint="eslint .", check__type="tsc"),
        ("npm test", "npm run check:lint", "npm run check:type"),
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_that_need_a_browser_or_write_are_not_checks(tmp_path: Path, name: str) -> None:
    package, checks = SCRIPTS[name]
    made = repository(tmp_path / "r", {"package.json": package, "index.js": ""})
    assert survey_repository(made).commands.checks == checks


def test_a_linter_at_the_start_of_the_test_script_does_not_hide_the_tests(tmp_path: Path) -> None:
    package = write_scripts(test="xo && NODE_ENV=test ava && npm run more && tsd", more="node more.js")
    (project,) = survey_repository(repository(tmp_path / "r", {"package.json": package, "a.js": ""})).projects
    assert [candidate.tests for candidate in project.candidates] == [
        ("npm test",),
        ("NODE_ENV=test npm exec --no -- ava", "npm run more"),
    ]


@pytest.mark.parametrize("beside", ["pretest", "posttest"])
def test_a_linter_before_or_after_the_test_script_does_not_hide_the_tests(tmp_path: Path, beside: str) -> None:
    package = write_scripts(test="tap --no-cov", **{beside: "npm run lint"})
    (project,) = survey_repository(repository(tmp_path / "r", {"package.json": package, "a.js": ""})).projects
    assert [candidate.tests for candidate in project.candidates] == [("npm test",), ("npm exec --no -- tap --no-cov",)]
    package = write_scripts(test="tap", **{beside: "npm run clean"})
    (project,) = survey_repository(repository(tmp_path / "s", {"package.json": package, "a.js": ""})).projects
    assert [candidate.tests for candidate in project.candidates] == [("npm test",)]


def test_a_pinned_package_manager_with_its_digest_is_installed(tmp_path: Path) -> None:
    package = json.dumps({"packageManager": "pnpm@11.1.0+sha512.0a-b_c", "scripts": {"test": "vitest run"}})
    made = repository(tmp_path / "r", {"package.json": package, "pnpm-lock.yaml": "lockfileVersion: '9.0'\n"})
    assert survey_repository(made, lambda _program: False).commands.setup[0].endswith(" pnpm@11.1.0")


TOP_MAKEFILE = "test: all\n\t@true\n"


def test_scripts_of_another_language_beside_the_tests_are_no_tests(tmp_path: Path) -> None:
    files = {
        "Makefile": TOP_MAKEFILE,
        "lib/a.c": "",
        "tests/unity/report_summary.py": "import unittest\n",
        "tests/test-speed.py": "import unittest\n",
    }
    assert survey_repository(repository(tmp_path / "r", files)).commands.checks == ("make test",)


def test_the_tests_of_the_whole_go_before_those_of_one_folder(tmp_path: Path) -> None:
    files = {"Makefile": TOP_MAKEFILE, "lib/a.c": "", "build/meson/meson.build": "", "build/cmake/CMakeLists.txt": ""}
    found = survey_repository(repository(tmp_path / "r", files)).commands
    assert found.checks == ("make test",)


def test_a_shorter_target_is_tried_where_the_tests_do_not_work(tmp_path: Path) -> None:
    files = {"Makefile": f"{TOP_MAKEFILE}check:\n\t@true\n", "a.c": ""}
    (project,) = survey_repository(repository(tmp_path / "r", files)).projects
    assert [candidate.tests for candidate in project.candidates] == [("make test",), ("make check",)]


def test_a_build_without_tests_is_a_check_but_no_reason_to_skip_the_makefile(tmp_path: Path) -> None:
    files = {"Makefile": TOP_MAKEFILE, "a.c": "", "CMakeLists.txt": "add_executable(a a.c)\n"}
    found = survey_repository(repository(tmp_path / "r", files)).commands
    assert found.tests == ("make test",)
    assert found.lints == ("cmake -S . -B /tmp/build && cmake --build /tmp/build -j2",)


def test_a_surveyed_repository_is_left_untouched(repo: Path) -> None:
    before = subprocess.run(
        ["git", "status", "--porcelain", "--ignored"], cwd=repo, capture_output=True, check=True
    ).stdout
    build_config_text(survey_repository(repo))
    after = subprocess.run(
        ["git", "status", "--porcelain", "--ignored"], cwd=repo, capture_output=True, check=True
    ).stdout
    assert before == after == b""


def test_secrets_are_blocked_and_manifests_and_lock_files_are_allowed(tmp_path: Path) -> None:
    files = {
        ".env": "",
        "deploy/id_rsa": "",
        "uv.lock": "",
        "web/package-lock.json": "",
        "web/package.json": "{}",
        "web/node_modules/left-pad/composer.json": "{}",
        "src/a.py": "",
        ".github/x.yml": "",
    }
    permissions = parse_config(
        build_config_text(survey_repository(repository(tmp_path / "r", files))), path=HERE
    ).settings.permissions
    blocked, allowed = Globs(permissions.blocked_paths), Globs(permissions.allowed_paths)
    for file in (".env", "deploy/id_rsa", "blueflame.yaml"):
        assert blocked.matches(file), file
    for file in ("uv.lock", "web/package-lock.json", "web/package.json"):
        assert allowed.matches(file), file
        assert not blocked.matches(file), file
    for file in (".github/x.yml", "composer.json"):
        assert not allowed.matches(file), file


def test_fragments_of_the_change_log_may_be_written_and_data_may_not(tmp_path: Path) -> None:
    files = {"src/a.py": "", "changelog.d/12.change.md": "", "news/3.bugfix": "", "data/table.csv": ""}
    found = survey_repository(repository(tmp_path / "r", files))
    assert (found.folders, found.other_folders) == (("changelog.d", "news", "src"), ("data",))


def test_scripts_without_a_suffix_may_be_changed(tmp_path: Path) -> None:
    made = repository(
        tmp_path / "r", {"lib/a.sh": "", "bin/tool": "#!/bin/sh\n", "run": "", "data/table": "", "COPYING": ""}
    )
    run(made, "update-index", "--chmod=+x", "bin/tool", "run")
    found = survey_repository(made)
    assert (found.folders, found.other_folders, found.root_names) == (("bin", "lib"), ("data",), ("run",))


@pytest.mark.parametrize(
    ("files", "patterns"),
    [
        (["a.go", "a_test.go"], ("/*_test.go",)),
        (["src/a.ts", "src/a.test.ts", "src/b/__tests__/help.ts"], ("src/**/*.test.ts", "src/**/__tests__/**/*.ts")),
        (["pkg/a.py", "pkg/test_a.py", "app/models.py", "app/tests.py"], ("app/**/tests.py", "pkg/**/test_*.py")),
        (["index.js", "test.js"], ("/test.js",)),
        (["src/a.py", "tests/test_a.py", "tests/help.py"], ("tests/**/*.py",)),
    ],
)
def test_tests_beside_sources_are_known_by_their_names(
    tmp_path: Path, files: list[str], patterns: tuple[str, ...]
) -> None:
    made = repository(tmp_path / "r", dict.fromkeys(files, ""))
    required = parse_config(build_config_text(survey_repository(made)), path=HERE).settings.validation.require_tests
    assert required.test_patterns == patterns
    assert not Globs(required.test_patterns).matches(files[0])


def test_an_ignored_configuration_is_noted(tmp_path: Path) -> None:
    made = repository(tmp_path / "r", {"a.py": "", ".gitignore": "/*\n!/.gitignore\n!/a.py\n"})
    (note,) = survey_repository(made).notes
    assert "git ignores blueflame.yaml" in note and "git add --force blueflame.yaml" in note


def test_submodules_are_noted(tmp_path: Path) -> None:
    made = repository(tmp_path / "r", {"a.py": ""})
    run(made, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},tests/data")
    run(made, "commit", "-q", "-m", "chore: add data")
    assert survey_repository(made).notes == ("submodules are left empty in agents' checkouts: tests/data",)


def test_what_is_not_tracked_is_not_seen(repo: Path) -> None:
    (repo / "scratch").mkdir()
    (repo / "scratch" / "a.rs").write_text("")
    found = survey_repository(repo)
    assert (found.languages, found.folders) == (("python",), ("src",))


def test_a_subfolder_is_enough_to_find_the_repository(repo: Path) -> None:
    assert survey_repository(repo / "src").repo == repo.resolve()


def test_languages_are_ordered_by_their_number_of_files(tmp_path: Path) -> None:
    files = {"a.go": "", "b.go": "", "c.py": "", "d.py": "", "e.rs": ""}
    assert survey_repository(repository(tmp_path / "r", files)).languages == ("go", "python", "rust")


# --- the base branch ---------------------------------------------------------------------------------------------


def test_the_base_branch_is_what_the_remote_says(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", {"a.py": ""}, branch="trunk")
    run(tmp_path, "clone", "-q", str(origin), "clone")
    run(tmp_path / "clone", "switch", "-q", "-c", "main")
    assert survey_repository(tmp_path / "clone").base_branch == "trunk"


def test_the_base_branch_must_be_here(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", {"a.py": ""}, branch="trunk")
    run(tmp_path, "clone", "-q", str(origin), "clone")
    run(tmp_path / "clone", "switch", "-q", "-c", "master")
    run(tmp_path / "clone", "branch", "-q", "-D", "trunk")
    assert survey_repository(tmp_path / "clone").base_branch == "master"


@pytest.mark.parametrize("branch", ["main", "master", "develop", "ветка/один"])
def test_the_base_branch_without_a_remote(tmp_path: Path, branch: str) -> None:
    found = survey_repository(repository(tmp_path / "r", {"a.py": ""}, branch=branch))
    assert found.base_branch == branch
    assert parse_config(build_config_text(found), path=HERE).settings.project.base_branch == branch


def test_the_configured_default_branch_goes_before_main(tmp_path: Path) -> None:
    repo = repository(tmp_path / "r", {"a.py": ""})
    run(repo, "branch", "dev")
    run(repo, "config", "init.defaultBranch", "dev")
    assert survey_repository(repo).base_branch == "dev"


def test_a_detached_head_still_has_a_base_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "r", {"a.py": ""})
    run(repo, "checkout", "-q", "--detach")
    assert survey_repository(repo).base_branch == "main"


def test_an_unborn_branch_is_reported(tmp_path: Path) -> None:
    run(tmp_path, "init", "-q", "-b", "start")
    found = survey_repository(tmp_path)
    assert found.base_branch == "start"
    assert any("no commit yet" in note for note in found.notes)
    assert parse_config(build_config_text(found), path=HERE).settings.permissions.allowed_paths == (
        "src/**",
        "tests/**",
        "docs/**",
    )


def test_no_repository_and_a_bare_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not in a git repository"):
        survey_repository(tmp_path)
    run(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(Refused, match="bare repository"):
        survey_repository(tmp_path / "bare.git")
    with pytest.raises(Refused, match="not a folder"):
        survey_repository(tmp_path / "none")


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cn")),
    min_size=1,
)


@given(NAMES.filter(lambda name: name not in (".", "..")), NAMES)
def test_an_escaped_name_matches_itself_and_nothing_near(name: str, other: str) -> None:
    if not name.isprintable():
        return
    globs = Globs((f"/{escape_glob(name)}/**",))
    assert globs.matches(f"{name}/a.py")
    assert name == other or not globs.matches(f"{other}/a.py")
