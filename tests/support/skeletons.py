"""Small but real projects, one for each ecosystem, with dotted files, several folders, a red base, a slow suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """A repository, what init should find in it, and an honest change to it."""

    name: str
    files: Mapping[str, str]
    checks: tuple[str, ...]  # how each check begins
    change: tuple[str, str]  # a file and its new content
    registries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()  # without them, only what is generated is checked
    traits: str = ""
    red: bool = False  # its base is red, and the change does not make it worse


PYTEST = "def test_adds():\n    from app import add\n\n    assert add(1, 2) == 3\n"
APP = "def add(a, b):\n    return a + b\n"
UNITTEST = """\
import unittest

from app import add


class Adding(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(add(1, 2), 3)
"""
NODE_TEST = """\
const test = require('node:test');
const assert = require('node:assert');
const { add } = require('../index.js');
test('adds', () => assert.strictEqual(add(1, 2), 3));
"""
NODE_APP = "exports.add = (a, b) => a + b;\n"
BELOW_A_DOT = """\
const test = require('node:test');
const assert = require('node:assert');
test('no dotted folder above', () => assert.ok(!__dirname.split('/').some((part) => part.startsWith('.'))));
"""
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId>
  <artifactId>app</artifactId>
  <version>1</version>
</project>
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(app C)
enable_testing()
add_executable(adds tests/adds.c src/add.c)
add_test(NAME adds COMMAND adds)
"""
C_TEST = "int add(int, int);\nint main(void) { return add(1, 2) == 3 ? 0 : 1; }\n"
C_ADD = "int add(int a, int b) { return a + b; }\n"
UV_LOCK = """\
version = 1
revision = 1
requires-python = ">=3.9"

[[package]]
name = "app"
version = "1"
source = { virtual = "." }
"""
PNPM_LOCK = """\
lockfileVersion: '9.0'

settings:
  autoInstallPeers: true
  excludeLinksFromLockfile: false

importers:

  .: {}

  packages/core: {}

  packages/web: {}
"""
PACKAGE = '{"name": "app", "version": "1.0.0", "scripts": {"test": "node --test"}}\n'
LOCK = """\
{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
 "packages": {"": {"name": "app", "version": "1.0.0"}}}
"""
BUILD_SYSTEM = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'

POETRY = """\
[tool.poetry]
name = "app"
version = "1"
description = ""
authors = []
packages = [{include = "app.py"}]

[tool.poetry.dependencies]
python = ">=3.9"

[build-system]
requires = ["poetry-core"]
build-backend = "poetry.core.masonry.api"
"""
POETRY_LOCK = """\
package = []

[metadata]
lock-version = "2.1"
python-versions = ">=3.9"
content-hash = "db9b4c08b159b17b239e26c67ead7c37b82d9f9eb06550245ae3134c095f98f7"
"""

SKELETONS = (
    Skeleton(
        name="pip",
        files={
            "pyproject.toml": '[project]\nname = "app"\nversion = "1"\ndependencies = ["attrs"]\n'
            '[project.optional-dependencies]\ntest = ["pytest"]\n[tool.setuptools]\npy-modules = ["app"]\n'
            + BUILD_SYSTEM,
            "app.py": f"import attrs\n\n\n{APP}",
            "tests/test_app.py": PYTEST,
            ".eslintrc.js": "module.exports = {};\n",
            ".pre-commit-config.yaml": "repos: []\n",
        },
        checks=(".venv/bin/python -m pytest",),
        registries=("pypi",),
        change=("app.py", f"import attrs\n\n\n{APP}\n\ndef subtract(a, b):\n    return a - b\n"),
        programs=("python3",),
        traits="dotted files, a dependency, an editable install",
    ),
    Skeleton(
        name="pip, red base",
        files={
            "requirements.txt": "attrs\n",
            "requirements-dev.txt": "pytest\n",
            "app.py": APP,
            "test_app.py": f"{PYTEST}\n\ndef test_was_red_before():\n    assert False\n",
        },
        checks=(".venv/bin/python -m pytest",),
        registries=("pypi",),
        change=("app.py", f"{APP}\n\ndef subtract(a, b):\n    return a - b\n"),
        programs=("python3",),
        traits="requirements files, one red test",
        red=True,
    ),
    Skeleton(
        name="uv",
        files={
            "pyproject.toml": '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.9"\n',
            "uv.lock": UV_LOCK,
            "app.py": APP,
            "test_app.py": UNITTEST,
        },
        checks=(".venv/bin/python -m unittest discover",),
        registries=("pypi",),
        change=("app.py", f"{APP}\n\ndef subtract(a, b):\n    return a - b\n"),
        programs=("python3",),
        traits="a lock file; uv is installed by setup where it is missing",
    ),
    Skeleton(
        name="poetry",
        files={
            "pyproject.toml": POETRY,
            "app.py": APP,
            "tests/__init__.py": "",
            "tests/test_app.py": UNITTEST,
        },
        checks=(".venv/bin/python -m unittest discover",),
        registries=("pypi",),
        change=("app.py", f"{APP}\n\ndef subtract(a, b):\n    return a - b\n"),
        programs=("python3",),
        traits="no lock file",
    ),
    Skeleton(
        name="poetry, lock file",
        files={
            "pyproject.toml": POETRY,
            "poetry.lock": POETRY_LOCK,
            "app.py": APP,
            "tests/__init__.py": "",
            "tests/test_app.py": UNITTEST,
        },
        checks=(".venv/bin/python -m unittest discover",),
        registries=("pypi",),
        change=("app.py", f"{APP}\n\ndef subtract(a, b):\n    return a - b\n"),
        programs=("python3",),
        traits="a lock file without packages",
    ),
    Skeleton(
        name="python, slow suite",
        files={
            "app.py": APP,
            "test_app.py": UNITTEST.replace("        self.", "        __import__('time').sleep(20)\n        self."),
        },
        checks=("python3 -m unittest discover",),
        change=("app.py", f"{APP}\n\ndef subtract(a, b):\n    return a - b\n"),
        programs=("python3",),
        traits="the standard library alone; 20 s",
    ),
    Skeleton(
        name="npm",
        files={
            "package.json": PACKAGE,
            "package-lock.json": LOCK,
            "index.js": NODE_APP,
            "test/add.test.js": NODE_TEST,
            "test/path.test.js": BELOW_A_DOT,
            ".eslintrc.js": "module.exports = {};\n",
            ".gitignore": "node_modules\n",
        },
        checks=("npm test",),
        registries=("npm",),
        change=("index.js", f"{NODE_APP}exports.subtract = (a, b) => a - b;\n"),
        programs=("npm", "node"),
        traits="dotted files; a test that fails below a dotted folder",
    ),
    Skeleton(
        name="pnpm workspace",
        files={
            "package.json": '{"name": "all", "private": true}\n',
            "pnpm-workspace.yaml": "packages: [packages/*]\n",
            "pnpm-lock.yaml": PNPM_LOCK,
            "packages/core/package.json": PACKAGE.replace("app", "core"),
            "packages/core/index.js": NODE_APP,
            "packages/core/test/add.test.js": NODE_TEST,
            "packages/web/package.json": PACKAGE.replace("app", "web"),
            "packages/web/index.js": NODE_APP,
            "packages/web/test/add.test.js": NODE_TEST,
            ".gitignore": "node_modules\n",
        },
        checks=("~/.local/bin/pnpm --recursive",),
        registries=("npm",),
        change=("packages/core/index.js", f"{NODE_APP}exports.subtract = (a, b) => a - b;\n"),
        programs=("npm", "node"),
        traits="two packages; pnpm is installed by setup",
    ),
    Skeleton(
        name="yarn",
        files={
            "package.json": PACKAGE.replace('"node --test"', '"yarn run unit", "unit": "node --test"'),
            "yarn.lock": "# yarn lockfile v1\n\n\n",
            "index.js": NODE_APP,
            "test/add.test.js": NODE_TEST,
            ".gitignore": "node_modules\n",
        },
        checks=("~/.local/bin/yarn test",),
        registries=("npm",),
        change=("index.js", f"{NODE_APP}exports.subtract = (a, b) => a - b;\n"),
        programs=("npm", "node"),
        traits="yarn is installed by setup, and a script calls it",
    ),
    Skeleton(
        name="monorepo",
        files={
            "backend/requirements.txt": "attrs\n",
            "backend/app.py": APP,
            "backend/test_app.py": PYTEST,
            "frontend/package.json": PACKAGE,
            "frontend/package-lock.json": LOCK,
            "frontend/index.js": NODE_APP,
            "frontend/test/add.test.js": NODE_TEST,
            ".gitignore": "node_modules\n",
        },
        checks=("cd backend && .venv/bin/python -m pytest", "cd frontend && npm test"),
        registries=("pypi", "npm"),
        change=("frontend/index.js", f"{NODE_APP}exports.subtract = (a, b) => a - b;\n"),
        programs=("npm", "node", "python3"),
        traits="two ecosystems in two folders",
    ),
    Skeleton(
        name="go",
        files={
            "go.mod": "module example.com/app\n\ngo 1.18\n",
            "app.go": "package app\n\nfunc Add(a, b int) int { return a + b }\n",
            "app_test.go": 'package app\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n'
            '\tif Add(1, 2) != 3 {\n\t\tt.Fatal("sum")\n\t}\n}\n',
        },
        checks=("go test ./...",),
        change=("more.go", "package app\n\nfunc Subtract(a, b int) int { return a - b }\n"),
        programs=("go",),
    ),
    Skeleton(
        name="cargo",
        files={
            "Cargo.toml": '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n',
            "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n"
            "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n",
            ".gitignore": "/target\n/Cargo.lock\n",
        },
        checks=("cargo test",),
        change=(
            "src/lib.rs",
            "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\npub fn twice(a: i32) -> i32 {\n    a * 2\n}\n\n"
            "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n",
        ),
        programs=("cargo", "cc"),
    ),
    Skeleton(
        name="maven",
        files={
            "pom.xml": POM,
            "src/main/java/App.java": "public class App {\n}\n",
            "src/test/java/AppTest.java": "public class AppTest {\n}\n",
            ".gitignore": "target\n",
        },
        checks=("mvn -B -o test",),
        registries=("maven",),
        change=("src/main/java/App.java", "public class App {\n    int more;\n}\n"),
        programs=("mvn",),
    ),
    Skeleton(
        name="gradle",
        files={
            "settings.gradle": "rootProject.name = 'app'\n",
            "build.gradle": "plugins { id 'java' }\n",
            "src/main/java/App.java": "public class App {\n}\n",
            ".gitignore": "build\n.gradle\n",
        },
        checks=("gradle --no-daemon --offline test",),
        registries=("maven",),
        change=("src/main/java/App.java", "public class App {\n    int more;\n}\n"),
        programs=("gradle",),
    ),
    Skeleton(
        name="ruby",
        files={
            "Gemfile": 'source "https://rubygems.org"\ngem "rake"\ngem "minitest"\n',
            "Rakefile": 'require "rake/testtask"\nRake::TestTask.new { |t| t.pattern = "test/*_test.rb" }\n',
            "lib/app.rb": "def add(a, b) = a + b\n",
            "test/app_test.rb": 'require "minitest/autorun"\nrequire_relative "../lib/app"\n\n'
            "class AppTest < Minitest::Test\n  def test_adds\n    assert_equal 3, add(1, 2)\n  end\nend\n",
            ".gitignore": "vendor/bundle\n",
        },
        checks=("bundle exec rake test",),
        registries=("rubygems",),
        change=("lib/app.rb", "def add(a, b) = a + b\ndef subtract(a, b) = a - b\n"),
        programs=("bundle", "ruby"),
    ),
    Skeleton(
        name="cmake",
        files={"CMakeLists.txt": CMAKE, "src/add.c": C_ADD, "tests/adds.c": C_TEST},
        checks=("cmake -S . -B /tmp/build",),
        change=("src/add.c", f"{C_ADD}int twice(int a) {{ return a * 2; }}\n"),
        programs=("cmake", "cc"),
        traits="the build folder is not ignored",
    ),
    Skeleton(
        name="make",
        files={
            "Makefile": "test: adds\n\t./adds\n\nadds: add.c adds.c\n\tcc -o adds add.c adds.c\n",
            "add.c": C_ADD,
            "adds.c": C_TEST,
            ".gitignore": "/adds\n",
        },
        checks=("make test",),
        change=("add.c", f"{C_ADD}int twice(int a) {{ return a * 2; }}\n"),
        programs=("make", "cc"),
    ),
)
