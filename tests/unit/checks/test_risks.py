from __future__ import annotations

import pytest

from blueflame.checks.dependencies import find_new_dependencies, is_manifest
from blueflame.checks.risks import RISK_KINDS, RiskInputs, find_risks
from blueflame.model.changes import Change


def kinds(*changes: Change, **more: object) -> list[str]:
    return [risk.kind for risk in find_risks(RiskInputs(changes=changes, **more))]  # type: ignore[arg-type]


def changed(path: str, **fields: object) -> Change:
    return Change(status="M", path=path, old_mode="100644", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".github/workflows/ci.yml", "ci"),
        ("sub/.gitlab-ci.yml", "ci"),
        ("Makefile", "build"),
        ("docker/Dockerfile.prod", "build"),
        ("web/tsconfig.base.json", "build"),
        ("pyproject.toml", "config"),
        (".eslintrc.json", "config"),
        ("config/production.yml", "config"),
        (".env.example", "config"),
        ("db/migrations/0004_drop_users.sql", "migration"),
        ("dist/app.min.js", "generated"),
        ("api/users_pb2.py", "generated"),
        ("src/__snapshots__/a.snap", "snapshot"),
        ("yarn.lock", "lockfile"),
        ("web/bun.lock", "lockfile"),
        ("web/package.json", "build"),
        ("go.mod", "build"),
        ("src/App/App.csproj", "build"),
    ],
)
def test_names_tell_what_a_change_is_about(path: str, kind: str) -> None:
    assert kinds(changed(path)) == [kind]


@pytest.mark.parametrize("path", ["src/app.py", "README.md", "tests/test_a.py", "src/configure.py", "src/rebuild.py"])
def test_ordinary_changes_raise_no_hint(path: str) -> None:
    assert kinds(changed(path, added=10)) == []


def test_what_happens_to_a_file_is_a_hint_too() -> None:
    assert kinds(Change(status="D", path="tests/test_a.py", mode="000000")) == ["tests"]
    assert kinds(Change(status="R", path="src/a.py", old_path="tests/test_a.py")) == ["tests"]
    assert kinds(changed("run", mode="100755")) == ["mode"]
    assert kinds(Change(status="A", path="run", mode="100755", old_mode="000000")) == ["mode"]
    assert kinds(changed("a.png", binary=True)) == ["binary"]
    assert kinds(changed("a", symlink=True, mode="120000")) == ["link"]
    assert kinds(changed(".allowed"), allow_file=".allowed") == ["secrets"]
    assert kinds(changed("a.py"), unread=("a.py",)) == ["unread"]


def test_size_counts_files_and_lines() -> None:
    assert kinds(*(changed(f"src/{n}.py", added=1) for n in range(41))) == ["large"]
    (risk,) = find_risks(RiskInputs(changes=[changed("a.py", added=900, deleted=101)]))
    assert str(risk) == "is large: 1 files, 1,001 changed lines"


def test_hints_come_in_one_order_with_the_first_names() -> None:
    many = [changed(f"c{n}.toml") for n in range(10)]
    found = find_risks(RiskInputs(changes=[*many, changed("Jenkinsfile")], dependencies={"c1.toml": ("left-pad",)}))
    assert [risk.kind for risk in found] == ["ci", "config", "dependency"]
    assert str(found[1]).endswith("c7.toml and 2 more")
    assert str(found[2]) == "adds a dependency: left-pad (c1.toml)"
    assert set(RISK_KINDS) >= {risk.kind for risk in found}


@pytest.mark.parametrize(
    ("path", "before", "after", "new"),
    [
        ("package.json", '{"dependencies": {"a": "1"}}', '{"devDependencies": {"a": "1", "b": "1"}}', ("b",)),
        ("composer.json", "{}", '{"require": {"x/y": "1"}}', ("x/y",)),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["a>=1"]\n',
            '[project]\ndependencies = ["A >= 2", "b_c[x]; x > \'3\'"]\n[dependency-groups]\ndev = ["d"]\n',
            ("b-c", "d"),
        ),
        ("pyproject.toml", "", '[tool.poetry.dependencies]\npython = "^3"\nrich = "*"\n', ("rich",)),
        ("Pipfile", "", '[packages]\nflask = "*"\n', ("flask",)),
        ("setup.cfg", "", "[options]\ninstall_requires =\n    rich>=1\n    attrs\n", ("attrs", "rich")),
        ("requirements-dev.txt", "a==1\n", "a==2\n# no\n-r other.txt\nb  # yes\n", ("b",)),
        ("Cargo.toml", "", '[dependencies]\nserde = "1"\n[target.x.dev-dependencies]\ny = "1"\n', ("serde", "y")),
        ("go.mod", "module m\n", "module m\nrequire a/b v1\nrequire (\n\tc/d v2 // indirect\n)\n", ("a/b", "c/d")),
        ("Gemfile", "gem 'rails'\n", "gem 'rails', '7'\ngem \"pg\"\n", ("pg",)),
        (
            "pom.xml",
            "",
            "<dependency><groupId>g</groupId><artifactId>a</artifactId></dependency>",
            ("g:a",),
        ),
        ("build.gradle", "", "  testImplementation 'a:b:1'\n", ("a:b",)),
        ("App.csproj", "", '<PackageReference Include="X" Version="1"/>', ("X",)),
    ],
)
def test_new_dependencies_are_found_by_name(path: str, before: str, after: str, new: tuple[str, ...]) -> None:
    assert is_manifest(f"deep/{path}")
    assert find_new_dependencies(path, before, after) == new
    assert find_new_dependencies(path, after, after) == ()
    assert find_new_dependencies(path, after, None) == ()


@pytest.mark.parametrize("text", ["{", "[]", '{"dependencies": [' + "[" * 100_000])
def test_a_manifest_that_cannot_be_read_is_reported(text: str) -> None:
    assert find_new_dependencies("package.json", "{}", text) is None
