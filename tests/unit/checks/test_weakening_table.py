"""Ways to make tests green without fixing anything, each reported; and honest edits of tests, none of them reported."""

# ruff: noqa: E501 (a row is a row, as in any table)
from __future__ import annotations

from collections.abc import Mapping

import pytest

from blueflame.checks.runner_files import changes_runner, find_weaker_settings, is_runner_file
from blueflame.checks.weakened_tests import SourceVersions, find_weakened_tests

PY = """\
import os

import pytest
from sums import add, parse


@pytest.fixture
def numbers():
    return [1, 2]


class TestSums:
    def test_adds(self):
        result = add(1, 2)
        assert result == 3
        assert add(2, 2) == 4

    @pytest.mark.parametrize("n", [1, 2])
    def test_halves(self, n):
        assert half(n) == pytest.approx(n / 2, rel=1e-6)


def test_parse():
    with pytest.raises(ValueError, match="bad"):
        parse("x")
    assert sorted(parse("1,2")) == [1, 2]
"""
JS = """\
const { add } = require('./sums');

describe('sums', () => {
  it('adds', () => {
    expect(add(1, 2)).toBe(3);
    expect(add(2, 2)).toEqual(4);
  });

  it('rejects', async () => {
    await expect(add('x')).rejects.toThrow('bad');
  });
});
"""
GO = """\
package sums

func TestMain(m *testing.M) {
\tos.Exit(m.Run())
}

func TestAdds(t *testing.T) {
\tgot := Add(1, 2)
\tif got != 3 {
\t\tt.Errorf("no")
\t}
\trequire.Equal(t, 4, Add(2, 2))
}
"""
RUST = """\
#[test]
fn adds() {
    assert_eq!(add(1, 2), 3);
    assert_eq!(add(2, 2), 4);
}

#[test]
fn parses() {
    assert!(parse("x").is_err());
}
"""
JAVA = """\
class SumsTest {
    @Test
    void adds() {
        assertEquals(3, add(1, 2));
        assertEquals(4, add(2, 2));
    }

    @Test
    void parses() {
        assertThrows(BadNumber.class, () -> parse("x"));
    }
}
"""
RUBY = """\
RSpec.describe Sums do
  it "adds" do
    expect(add(1, 2)).to eq(3)
    expect(add(2, 2)).to eq(4)
  end
end
"""
INI = "[pytest]\naddopts = -q\n"
PYPROJECT = (
    '[project]\nname = "sums"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n\n[tool.coverage.report]\nfail_under = 90\n'
)
PACKAGE = '{"name": "sums", "version": "1", "scripts": {"test": "jest", "build": "tsc"}, "jest": {"verbose": true}}'
MAKE = "build:\n\tcc main.c\n\ntest: build\n\tpytest -q\n"
FILES: Mapping[str, str] = {
    "tests/test_sums.py": PY,
    "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef db():\n    return connect()\n",
    "src/sums.test.ts": JS,
    "sums_test.go": GO,
    "tests/sums.rs": RUST,
    "src/test/java/SumsTest.java": JAVA,
    "spec/sums_spec.rb": RUBY,
    "pytest.ini": INI,
    "pyproject.toml": PYPROJECT,
    "package.json": PACKAGE,
    "Makefile": MAKE,
    "jest.config.js": "module.exports = {\n  verbose: true,\n};\n",
    "pom.xml": "<project>\n  <build/>\n</project>\n",
    "build.gradle": "plugins { id 'java' }\ntest {\n  useJUnitPlatform()\n}\n",
    "Cargo.toml": '[package]\nname = "sums"\n\n[[test]]\nname = "sums"\n',
}
P, C, J, G, R, V, B = (
    "tests/test_sums.py", "tests/conftest.py", "src/sums.test.ts", "sums_test.go", "tests/sums.rs", "src/test/java/SumsTest.java", "spec/sums_spec.rb",
)  # fmt: skip

WEAKER = {
    "python: os._exit in a test": (P, "        result = add", "        os._exit(0)\n        result = add"),
    "python: os._exit at the top": (P, "import os\n", "import os\nos._exit(0)\n"),
    "python: sys.exit in a fixture": (P, "    return [1, 2]", "    sys.exit(0)"),
    "python: os._exit in conftest": (C, "    return connect()", "    os._exit(0)"),
    "python: atexit that exits": (C, "import pytest\n", "import atexit, os, pytest\natexit.register(lambda: os._exit(0))\n"),
    "python: a hook that rewrites results": (C, "import pytest\n", "import pytest\n\ndef pytest_runtest_makereport(item, call):\n    return None\n"),
    "python: a hook that drops tests": (C, "import pytest\n", "import pytest\n\ndef pytest_collection_modifyitems(items):\n    items.clear()\n"),
    "python: a hook that sets the exit status": (C, "import pytest\n", "import pytest\n\ndef pytest_sessionfinish(session):\n    session.exitstatus = 0\n"),
    "python: pytest.exit": (C, "    return connect()", "    pytest.exit('done', returncode=0)"),
    "python: collect_ignore": (C, "import pytest\n", "import pytest\n\ncollect_ignore = ['test_sums.py']\n"),
    "python: AssertionError replaced": (C, "import pytest\n", "import builtins, pytest\n\nbuiltins.AssertionError = Warning\n"),
    "python: or True": (P, "assert result == 3", "assert result == 3 or True"),
    "python: assert True": (P, "assert result == 3", "assert True"),
    "python: a tuple is always true": (P, "assert result == 3", 'assert (result == 3, "no")'),
    "python: compared with itself": (P, "assert result == 3", "assert result == result"),
    "python: assertion removed": (P, "        assert add(2, 2) == 4\n", ""),
    "python: assertion commented out": (P, "        assert add(2, 2) == 4\n", "        # assert add(2, 2) == 4\n"),
    "python: == became in": (P, "assert result == 3", "assert result in (3, 4)"),
    "python: == became >": (P, "assert result == 3", "assert result > 0"),
    "python: == became isinstance": (P, "assert result == 3", "assert isinstance(result, int)"),
    "python: a wider tolerance": (P, "rel=1e-6", "rel=0.5"),
    "python: raises of anything": (P, 'raises(ValueError, match="bad")', "raises(Exception)"),
    "python: pytest.skip": (P, "        result = add", '        pytest.skip("later")\n        result = add'),
    "python: xfail": (P, "    def test_adds", "    @pytest.mark.xfail\n    def test_adds"),
    "python: skipif(True)": (P, "    def test_adds", '    @pytest.mark.skipif(True, reason="")\n    def test_adds'),
    "python: importorskip": (P, "import pytest\n", 'import pytest\n\npytest.importorskip("nothing")\n'),
    "python: pytestmark": (P, "import pytest\n", "import pytest\n\npytestmark = pytest.mark.skip\n"),
    "python: __test__": (P, "class TestSums:\n", "class TestSums:\n    __test__ = False\n"),
    "python: try and except around it": (P, "        assert result == 3\n", "        try:\n            assert result == 3\n        except AssertionError:\n            pass\n"),
    "python: a bare except": (P, "        assert result == 3\n", "        try:\n            assert result == 3\n        except:\n            pass\n"),
    "python: suppress": (P, "        assert result == 3\n", "        with suppress(AssertionError):\n            assert result == 3\n"),
    "python: return before it": (P, "        assert result == 3\n", "        return\n        assert result == 3\n"),
    "python: if False": (P, "        assert result == 3\n", "        if False:\n            assert result == 3\n"),
    "python: no parameters": (P, '"n", [1, 2])', '"n", [])'),
    "python: renamed out of reach": (P, "def test_parse", "def check_parse"),
    "python: a class renamed out of reach": (P, "class TestSums", "class Sums"),
    "python: a test deleted": (P, PY[PY.index("def test_parse") :], ""),
    "python: the subject mocked": (P, "        result = add(1, 2)\n        assert result == 3\n", "        monkeypatch.setattr('sums.add', lambda a, b: a + b)\n        assert add(1, 2) == 3\n"),
    "python: reruns": (P, "    def test_adds", "    @pytest.mark.flaky(reruns=5)\n    def test_adds"),
    "js: process.exit": (J, "describe('sums'", "process.exit(0);\ndescribe('sums'"),
    "js: exit code set": (J, "describe('sums'", "process.on('exit', () => { process.exitCode = 0; });\ndescribe('sums'"),
    "js: it.skip": (J, "  it('adds'", "  it.skip('adds'"),
    "js: it.only": (J, "  it('adds'", "  it.only('adds'"),
    "js: xdescribe": (J, "describe('sums'", "xdescribe('sums'"),
    "js: test.todo": (J, "  it('adds'", "  test.todo('more');\n  it('adds'"),
    "js: test.failing": (J, "  it('adds'", "  it.failing('adds'"),
    "js: skipIf": (J, "  it('adds'", "  it.skipIf(true)('adds'"),
    "js: an option that skips": (J, "it('adds', () =>", "it('adds', { skip: true }, () =>"),
    "js: || true": (J, "expect(add(1, 2)).toBe(3)", "expect(add(1, 2) === 3 || true).toBe(true)"),
    "js: expect(true)": (J, "expect(add(1, 2)).toBe(3)", "expect(true).toBe(true)"),
    "js: toBe became toBeDefined": (J, "expect(add(1, 2)).toBe(3)", "expect(add(1, 2)).toBeDefined()"),
    "js: catch around it": (J, "    expect(add(1, 2)).toBe(3);\n", "    try { expect(add(1, 2)).toBe(3); } catch (e) {}\n"),
    "js: return before it": (J, "    expect(add(1, 2)).toBe(3);\n", "    return;\n    expect(add(1, 2)).toBe(3);\n"),
    "js: expect replaced": (J, "describe('sums'", "global.expect = () => new Proxy({}, {});\ndescribe('sums'"),
    "js: retries": (J, "describe('sums'", "jest.retryTimes(5);\ndescribe('sums'"),
    "js: the subject mocked": (J, "    expect(add(1, 2)).toBe(3);\n", "    jest.spyOn(sums, 'add').mockReturnValue(3);\n    expect(add(1, 2)).toBe(3);\n"),
    "go: t.Skip": (G, "\tgot := Add", '\tt.Skip("later")\n\tgot := Add'),
    "go: os.Exit(0) in TestMain": (G, "\tos.Exit(m.Run())", "\tm.Run()\n\tos.Exit(0)"),
    "go: Errorf became Logf": (G, "t.Errorf", "t.Logf"),
    "go: a build tag": (G, "package sums", "//go:build integration\n\npackage sums"),
    "go: Equal became NotNil": (G, "require.Equal(t, 4, Add(2, 2))", "require.NotNil(t, Add(2, 2))"),
    "go: return before it": (G, "\tif got != 3 {", "\treturn\n\tif got != 3 {"),
    "go: if false": (G, "\tif got != 3 {", "\tif false && got != 3 {"),
    "go: recover": (G, "\tgot := Add", "\tdefer func() { recover() }()\n\tgot := Add"),
    "rust: ignore": (R, "fn adds", "#[ignore]\nfn adds"),
    "rust: should_panic": (R, "fn adds", "#[should_panic]\nfn adds"),
    "rust: assert!(true)": (R, "assert_eq!(add(1, 2), 3)", "assert!(true)"),
    "rust: no test any more": (R, "#[test]\nfn adds", "fn adds"),
    "rust: process::exit": (R, "    assert_eq!(add(1, 2), 3);\n", "    std::process::exit(0);\n"),
    "rust: catch_unwind": (R, "    assert_eq!(add(1, 2), 3);\n", "    let _ = std::panic::catch_unwind(|| assert_eq!(add(1, 2), 3));\n"),
    "java: Disabled": (V, "    @Test\n    void adds", "    @Disabled\n    @Test\n    void adds"),
    "java: an assumption": (V, "        assertEquals(3", "        assumeTrue(false);\n        assertEquals(3"),
    "java: assertTrue(true)": (V, "assertEquals(3, add(1, 2))", "assertTrue(true)"),
    "java: catch around it": (V, "        assertEquals(3, add(1, 2));\n", "        try { assertEquals(3, add(1, 2)); } catch (AssertionError e) { }\n"),
    "java: System.exit": (V, "        assertEquals(3", "        System.exit(0);\n        assertEquals(3"),
    "java: enabled = false": (V, "    @Test\n    void adds", "    @Test(enabled = false)\n    void adds"),
    "java: no test any more": (V, "    @Test\n    void adds", "    void adds"),
    "ruby: xit": (B, '  it "adds"', '  xit "adds"'),
    "ruby: skip": (B, "    expect(add(1", "    skip\n    expect(add(1"),
    "ruby: exit!": (B, "    expect(add(1", "    exit!\n    expect(add(1"),
    "ruby: rescue around it": (B, "    expect(add(1, 2)).to eq(3)\n", "    expect(add(1, 2)).to eq(3)\n  rescue Exception\n    nil\n"),
    "ruby: eq became be_truthy": (B, "to eq(3)", "to be_truthy"),
    "pytest.ini: deselect": ("pytest.ini", "addopts = -q", "addopts = -q --deselect tests/test_sums.py::test_parse"),
    "pytest.ini: -k": ("pytest.ini", "addopts = -q", "addopts = -q -k 'not parse'"),
    "pytest.ini: testpaths": ("pytest.ini", "addopts = -q\n", "addopts = -q\ntestpaths = tests/unit\n"),
    "pytest.ini: norecursedirs": ("pytest.ini", "addopts = -q\n", "addopts = -q\nnorecursedirs = tests\n"),
    "pytest.ini: python_files": ("pytest.ini", "addopts = -q\n", "addopts = -q\npython_files = check_*.py\n"),
    "pyproject: ignore": ("pyproject.toml", '"-q"', '"-q --ignore=tests/test_sums.py"'),
    "pyproject: fail_under": ("pyproject.toml", "fail_under = 90", "fail_under = 10"),
    "package.json: || true": ("package.json", '"test": "jest"', '"test": "jest || true"'),
    "package.json: passWithNoTests": ("package.json", '"test": "jest"', '"test": "jest --passWithNoTests nothing"'),
    "package.json: jest ignores": ("package.json", '"verbose": true', '"testPathIgnorePatterns": ["sums"]'),
    "jest.config: testMatch": ("jest.config.js", "  verbose: true,\n", "  verbose: true,\n  testMatch: ['**/none.js'],\n"),
    "Makefile: || true": ("Makefile", "\tpytest -q", "\tpytest -q || true"),
    "Makefile: ignored result": ("Makefile", "\tpytest -q", "\t-pytest -q"),
    "pom.xml: skipTests": ("pom.xml", "<build/>", "<properties><skipTests>true</skipTests></properties>"),
    "build.gradle: ignoreFailures": ("build.gradle", "useJUnitPlatform()", "useJUnitPlatform()\n  ignoreFailures = true"),
    "Cargo.toml: test = false": ("Cargo.toml", 'name = "sums"\n\n[[test]]\nname = "sums"\n', 'name = "sums"\n\n[[test]]\nname = "sums"\ntest = false\n'),
}  # fmt: skip

HONEST = {
    "python: an expected value corrected": (P, "assert result == 3", "assert result == 4"),
    "python: an assertion added": (P, "        assert result == 3\n", "        assert result == 3\n        assert result != 4\n"),
    "python: a test added": (P, "def test_parse", "def test_more():\n    assert add(0, 0) == 0\n\n\ndef test_parse"),
    "python: a test renamed": (P, "def test_parse", "def test_parse_reads_numbers"),
    "python: a message added": (P, "assert result == 3", 'assert result == 3, "sum"'),
    "python: split over lines": (P, "assert sorted(parse(\"1,2\")) == [1, 2]", "found = parse(\"1,2\")\n    assert sorted(found) == [1, 2]"),
    "python: a fixture added": (P, "@pytest.fixture\ndef numbers", "@pytest.fixture\ndef letters():\n    return 'ab'\n\n\n@pytest.fixture\ndef numbers"),
    "python: a fixture in conftest": (C, "@pytest.fixture\ndef db", "@pytest.fixture\ndef user():\n    return User()\n\n\n@pytest.fixture\ndef db"),
    "python: a cleanup in conftest": (C, "    return connect()", "    with connect() as found:\n        yield found"),
    "python: a parameter more": (P, '"n", [1, 2])', '"n", [1, 2, 3])'),
    "python: a narrower tolerance": (P, "rel=1e-6", "rel=1e-9"),
    "python: a narrower error": (P, "raises(ValueError", "raises(BadNumber"),
    "python: an import": (P, "import os\n", "import os\nimport sys\n"),
    "python: a dependency mocked": (P, "        result = add(1, 2)\n", "        monkeypatch.setattr('sums.clock', lambda: 0)\n        result = add(1, 2)\n"),
    "python: a context manager": (P, "        result = add(1, 2)\n", "        with frozen_time():\n            result = add(1, 2)\n"),
    "python: a loop around it": (P, "        assert result == 3\n", "        for _ in range(3):\n            assert result == 3\n"),
    "python: an except of another error": (P, "        result = add(1, 2)\n", "        try:\n            result = add(1, 2)\n        except OSError:\n            result = 3\n"),
    "python: a helper that returns": (P, "@pytest.fixture\ndef numbers", "def build(n):\n    if n:\n        return n\n    return 0\n\n\n@pytest.fixture\ndef numbers"),
    "python: a guard that returns": (P, "        assert result == 3\n", "        assert result == 3\n        if not result:\n            return\n"),
    "python: the name of a class": (P, "class TestSums", "class TestAddition"),
    "python: a skip removed": (P, "import pytest\n", "import pytest\n\nHERE = 1\n"),
    "python: a comment about or True": (P, "        assert result == 3\n", "        # not `or True`\n        assert result == 3\n"),
    "python: a docstring": (P, "    def test_adds(self):\n", '    def test_adds(self):\n        """Add two numbers."""\n'),
    "python: a type": (P, "def test_adds(self):", "def test_adds(self) -> None:"),
    "python: a string in an assertion": (P, "assert result == 3", 'assert result == 3 and str(result) == "3"'),
    "js: an expected value": (J, "toBe(3)", "toBe(4)"),
    "js: an assertion more": (J, "    expect(add(1, 2)).toBe(3);\n", "    expect(add(1, 2)).toBe(3);\n    expect(add(0, 0)).toBe(0);\n"),
    "js: a test more": (J, "  it('rejects'", "  it('is zero', () => {\n    expect(add(0, 0)).toBe(0);\n  });\n\n  it('rejects'"),
    "js: toEqual became toBe": (J, "toEqual(4)", "toBe(4)"),
    "js: beforeEach": (J, "  it('adds'", "  beforeEach(() => {\n    reset();\n  });\n\n  it('adds'"),
    "js: an import": (J, "const { add } = require('./sums');\n", "import { add } from './sums';\n"),
    "js: a timeout": (J, "describe('sums'", "jest.setTimeout(10000);\ndescribe('sums'"),
    "js: a dependency mocked": (J, "describe('sums'", "jest.mock('./clock');\ndescribe('sums'"),
    "js: an awaited promise": (J, "it('adds', () =>", "it('adds', async () =>"),
    "go: an expected value": (G, "got != 3", "got != 4"),
    "go: a helper": (G, "\tgot := Add", "\tt.Helper()\n\tgot := Add"),
    "go: parallel": (G, "\tgot := Add", "\tt.Parallel()\n\tgot := Add"),
    "go: setup in TestMain": (G, "\tos.Exit(m.Run())", "\tsetup()\n\tos.Exit(m.Run())"),
    "go: a better message": (G, 't.Errorf("no")', 't.Errorf("got %d", got)'),
    "go: exit with a code": (G, "\tos.Exit(m.Run())", "\tcode := m.Run()\n\tos.Exit(code)"),
    "rust: an expected value": (R, "assert_eq!(add(1, 2), 3)", "assert_eq!(add(1, 2), 4)"),
    "rust: a new test that panics": (R, "#[test]\nfn parses", "#[test]\n#[should_panic]\nfn overflows() {\n    add(i32::MAX, 1);\n}\n\n#[test]\nfn parses"),
    "rust: a message": (R, "assert_eq!(add(1, 2), 3)", 'assert_eq!(add(1, 2), 3, "sum")'),
    "java: an expected value": (V, "assertEquals(3, add(1, 2))", "assertEquals(4, add(1, 2))"),
    "java: a name to show": (V, "    @Test\n    void adds", '    @Test\n    @DisplayName("adds")\n    void adds'),
    "java: a test more": (V, "    @Test\n    void parses", "    @Test\n    void zero() {\n        assertEquals(0, add(0, 0));\n    }\n\n    @Test\n    void parses"),
    "ruby: an expected value": (B, "to eq(3)", "to eq(4)"),
    "ruby: a let": (B, '  it "adds"', '  let(:one) { 1 }\n\n  it "adds"'),
    "ruby: a context": (B, '  it "adds" do', '  it "adds numbers" do'),
    "pytest.ini: verbose": ("pytest.ini", "addopts = -q", "addopts = -q --strict-markers"),
    "pytest.ini: a marker": ("pytest.ini", "addopts = -q\n", "addopts = -q\nmarkers =\n    slow: takes long\n"),
    "pyproject: a higher threshold": ("pyproject.toml", "fail_under = 90", "fail_under = 95"),
    "pyproject: a version": ("pyproject.toml", 'name = "sums"', 'name = "sums"\nversion = "2"'),
    "package.json: coverage": ("package.json", '"test": "jest"', '"test": "jest --coverage"'),
    "package.json: another script": ("package.json", '"build": "tsc"', '"build": "tsc -p ."'),
    "Makefile: another target": ("Makefile", "\tcc main.c", "\tcc -O2 main.c || true"),
    "Makefile: verbose": ("Makefile", "\tpytest -q", "\tpytest -q -ra"),
    "build.gradle: more output": ("build.gradle", "useJUnitPlatform()", "useJUnitPlatform()\n  testLogging { events 'passed' }"),
    "Cargo.toml: a dependency": ("Cargo.toml", "\n\n[[test]]", '\n\n[dependencies]\nserde = "1"\n\n[[test]]'),
}  # fmt: skip


def report(path: str, old: str, new: str) -> list[str]:
    before = FILES[path]
    assert old in before, "the row names what is not there"
    after = before.replace(old, new, 1)
    found = [*find_weakened_tests([SourceVersions(path=path, before=before, after=after)])]
    if is_runner_file(path):
        found += find_weaker_settings(path, before, after)
    return [f"{each.kind}: {each.words} {each.lines}" for each in found]


def test_a_way_to_be_green_without_checking_is_reported() -> None:
    assert [way for way, row in WEAKER.items() if not report(*row)] == []


def test_an_honest_edit_is_not_reported() -> None:
    reported = {edit: report(*row) for edit, row in HONEST.items()}
    assert {edit: lines for edit, lines in reported.items() if lines != []} == {}


def test_the_tables_are_large() -> None:
    assert len(WEAKER) >= 80
    assert len(HONEST) >= 55


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tests/test_sums.py", "tests/sums_checks.py"),
        ("src/sums.test.ts", "src/tests/sums.ts"),
        ("src/test/java/SumsTest.java", "src/test/java/SumsCases.java"),
        ("spec/sums_spec.rb", "spec/sums.rb"),
    ],
)
def test_a_file_of_tests_that_runners_no_longer_find_is_reported(old: str, new: str) -> None:
    text = FILES[old]
    (found,) = find_weakened_tests([SourceVersions(path=new, old_path=old, before=text, after=text)])
    assert "no longer found" in found.words
    assert find_weakened_tests([SourceVersions(path=old, old_path=new, before=text, after=text)]) == ()


@pytest.mark.parametrize(
    "path",
    [
        *("conftest.py", "a/pytest.ini", "tox.ini", "sitecustomize.py", "lib/usercustomize.py", "x.pth", "build.rs"),
        *("jest.config.js", "vitest.config.ts", ".mocharc.yml", ".cargo/config.toml", ".rspec", ".coveragerc"),
        *("spec/spec_helper.rb", "phpunit.xml.dist", "playwright.config.ts", "jest.setup.js"),
    ],
)
def test_files_of_runners_are_known_by_name(path: str) -> None:
    assert changes_runner(path, None, "x = 1\n")


@pytest.mark.parametrize(
    ("row", "about_tests"),
    [
        (HONEST["pyproject: a version"], False),
        (WEAKER["pyproject: ignore"], True),
        (HONEST["package.json: another script"], False),
        (HONEST["package.json: coverage"], True),
        (HONEST["Makefile: another target"], False),
        (HONEST["Makefile: verbose"], True),
        (HONEST["Cargo.toml: a dependency"], False),
        (WEAKER["build.gradle: ignoreFailures"], True),
    ],
)
def test_files_that_are_about_tests_in_part_count_where_they_are(row: tuple[str, str, str], about_tests: bool) -> None:
    path, old, new = row
    assert changes_runner(path, FILES[path], FILES[path].replace(old, new, 1)) is about_tests
