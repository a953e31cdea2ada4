from __future__ import annotations

import pytest

from blueflame.checks.weakened_tests import SourceVersions, find_weakened_tests

PY = """\
import pytest


def helper(value):
    assert value


class TestSums:
    def test_adds(self):
        assert add(1, 2) == 3
        assert add(2, 2) == 4

    @pytest.mark.parametrize("n", [1, 2])
    def test_halves(
        self,
        n,
    ) -> None:
        assert half(n) == pytest.approx(n / 2, rel=1e-6)
"""
JS = """\
describe('sums', () => {
  it('adds', () => {
    expect(add(1, 2)).toBe(3);
    expect(add(2, 2)).toBe(4);
  });

  it(
    'halves',
    async () => {
      expect(half(1)).toBeCloseTo(0.5, 5);
    },
  );
});
"""
GO = """\
package sums

func TestAdds(t *testing.T) {
\tif Add(1, 2) != 3 {
\t\tt.Errorf("no")
\t}
\trequire.Equal(t, 4, Add(2, 2))
}

func TestHalves(t *testing.T) {
\tassert.InDelta(t, 0.5, Half(1), 0.001)
}
"""
RUST = """\
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
        assert_eq!(add(2, 2), 4);
    }

    #[tokio::test]
    #[should_panic]
    async fn halves() {
        half(0).await;
    }
}
"""
JAVA = """\
class SumsTest {
    @Test
    void adds() {
        assertEquals(3, add(1, 2));
        assertThat(add(2, 2)).isEqualTo(4);
    }

    @Test
    @Tag("slow")
    public void halves() throws Exception {
        assertEquals(0.5, half(1), 0.001);
    }
}
"""
RUBY = """\
RSpec.describe Sums do
  it "adds" do
    expect(add(1, 2)).to eq(3)
    expect(add(2, 2)).to eq(4)
  end

  it "halves" do
    expect(half(1)).to be_within(0.001).of(0.5)
  end
end
"""
FILES = {
    "tests/test_sums.py": PY,
    "src/sums.test.ts": JS,
    "sums_test.go": GO,
    "src/lib.rs": RUST,
    "src/test/java/SumsTest.java": JAVA,
    "spec/sums_spec.rb": RUBY,
}


def reported(path: str, before: str | None, after: str | None) -> list[tuple[str, int | None, tuple[str, ...]]]:
    found = find_weakened_tests([SourceVersions(path=path, before=before, after=after)])
    assert all(each.path == path for each in found)
    return [(each.kind, each.line, each.lines) for each in found]


@pytest.mark.parametrize("path", FILES)
def test_unchanged_or_stronger_tests_are_not_reported(path: str) -> None:
    assert reported(path, FILES[path], FILES[path]) == []
    assert reported(path, None, FILES[path]) == []
    assert reported(path, FILES[path], f"{FILES[path]}\n") == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("tests/test_sums.py", "        assert add(2, 2) == 4\n"),
        ("src/sums.test.ts", "    expect(add(2, 2)).toBe(4);\n"),
        ("sums_test.go", "\trequire.Equal(t, 4, Add(2, 2))\n"),
        ("src/lib.rs", "        assert_eq!(add(2, 2), 4);\n"),
        ("src/test/java/SumsTest.java", "        assertThat(add(2, 2)).isEqualTo(4);\n"),
        ("spec/sums_spec.rb", "    expect(add(2, 2)).to eq(4)\n"),
    ],
)
def test_a_deleted_assertion_is_reported_with_its_line(path: str, line: str) -> None:
    text = FILES[path]
    ((kind, at, lines),) = reported(path, text, text.replace(line, ""))
    assert (kind, lines) == ("assertions", (f"- {line.strip()}",))
    assert at is not None
    commented = reported(
        path, text, text.replace(line.strip(), f"{'#' if path.endswith(('py', 'rb')) else '//'} {line.strip()}")
    )
    assert [kind for kind, _, _ in commented] == ["assertions"], "a comment asserts nothing"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("tests/test_sums.py", "    def test_adds", '    @pytest.mark.skip(reason="later")\n    def test_adds'),
        ("tests/test_sums.py", "    def test_adds", "    @pytest.mark.xfail\n    def test_adds"),
        ("tests/test_sums.py", "        assert add(1", '        pytest.skip("no")\n        assert add(1'),
        ("src/sums.test.ts", "  it('adds'", "  it.skip('adds'"),
        ("src/sums.test.ts", "  it('adds'", "  xit('adds'"),
        ("src/sums.test.ts", "  it('adds'", "  it.only('adds'"),
        ("src/sums.test.ts", "describe('sums'", "describe.skip('sums'"),
        ("sums_test.go", "\tif Add(1", '\tt.Skip("later")\n\tif Add(1'),
        ("src/lib.rs", "    fn adds", "    #[ignore]\n    fn adds"),
        ("src/test/java/SumsTest.java", "    @Test\n    void adds", "    @Disabled\n    @Test\n    void adds"),
        ("spec/sums_spec.rb", '  it "adds"', '  xit "adds"'),
        ("spec/sums_spec.rb", "    expect(add(1", "    skip\n    expect(add(1"),
    ],
)
def test_a_test_that_is_kept_from_running_is_reported(path: str, old: str, new: str) -> None:
    found = reported(path, FILES[path], FILES[path].replace(old, new))
    assert [kind for kind, _, _ in found] == ["skipped"]
    assert all(line.startswith("+ ") for line in found[0][2])


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("tests/test_sums.py", "rel=1e-6", "rel=1e-2"),
        ("src/sums.test.ts", "0.5, 5", "0.5, 1"),
        ("sums_test.go", "0.001", "0.1"),
        ("src/test/java/SumsTest.java", "0.001", "0.5"),
        ("spec/sums_spec.rb", "0.001", "0.5"),
    ],
)
def test_a_wider_tolerance_is_reported_and_a_narrower_one_is_not(path: str, old: str, new: str) -> None:
    text = FILES[path]
    found = reported(path, text, text.replace(old, new))
    assert [kind for kind, _, _ in found] == ["tolerance"]
    assert old in found[0][2][0] and new in found[0][2][1]
    assert reported(path, text.replace(old, new), text) == []


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("tests/test_sums.py", "assert add(2, 2) == 4", "assert add(2, 2) is not None"),
        ("src/sums.test.ts", "expect(add(2, 2)).toBe(4)", "expect(add(2, 2)).toBeTruthy()"),
        ("sums_test.go", "require.Equal(t, 4, Add(2, 2))", "require.NotNil(t, Add(2, 2))"),
        ("src/lib.rs", "assert_eq!(add(2, 2), 4)", "assert!(add(2, 2) > 0)"),
        ("src/test/java/SumsTest.java", "assertThat(add(2, 2)).isEqualTo(4)", "assertThat(add(2, 2)).isNotNull()"),
        ("spec/sums_spec.rb", "expect(add(2, 2)).to eq(4)", "expect(add(2, 2)).to be_truthy"),
    ],
)
def test_an_exact_assertion_that_became_a_looser_one_is_reported(path: str, old: str, new: str) -> None:
    found = reported(path, FILES[path], FILES[path].replace(old, new))
    assert [kind for kind, _, _ in found] == ["looser"]
    assert old in found[0][2][0] and new in found[0][2][1]


def test_a_deleted_and_an_emptied_test_are_reported() -> None:
    start = PY.index("    def test_adds")
    deleted = PY[:start] + PY[PY.index("    @pytest.mark.param") :]
    ((kind, line, lines),) = reported("tests/test_sums.py", PY, deleted)
    assert (kind, line) == ("deleted", 9)
    assert lines == ("- def test_adds(self):", "- assert add(1, 2) == 3", "- assert add(2, 2) == 4")
    emptied = PY.replace("        assert add(1, 2) == 3\n        assert add(2, 2) == 4\n", "        pass\n")
    ((kind, _, lines),) = reported("tests/test_sums.py", PY, emptied)
    assert (kind, len(lines)) == ("emptied", 2)


@pytest.mark.parametrize("path", FILES)
def test_a_deleted_file_of_tests_is_reported_with_what_it_held(path: str) -> None:
    (found,) = find_weakened_tests([SourceVersions(path=path, before=FILES[path], after=None)])
    assert found.kind == "file"
    assert "2 tests" in found.words


def test_a_test_that_moved_or_was_renamed_is_known_by_its_name_or_its_lines() -> None:
    renamed = PY.replace("test_adds", "test_sums_are_right")
    assert reported("tests/test_sums.py", PY, renamed) == []
    files = [
        SourceVersions(path="tests/test_sums.py", before=PY, after=None),
        SourceVersions(path="tests/sums/test_all.py", before=None, after=PY),
    ]
    assert find_weakened_tests(files) == ()
    half_moved = [
        SourceVersions(path="tests/test_sums.py", before=PY, after=PY[: PY.index("    @pytest.mark.param")]),
        SourceVersions(path="tests/test_halves.py", before=None, after="def test_halves(n):\n    pass\n"),
    ]
    assert [(found.kind, found.path) for found in find_weakened_tests(half_moved)] == [
        ("emptied", "tests/test_halves.py")
    ]


def test_assertions_of_helpers_count() -> None:
    ((kind, line, lines),) = reported("tests/test_sums.py", PY, PY.replace("    assert value\n", "    return value\n"))
    assert (kind, line, lines) == ("assertions", 5, ("- assert value",))


def test_files_of_other_languages_and_broken_ones_say_nothing() -> None:
    assert find_weakened_tests([SourceVersions(path="tests/data.bin", before="\0", after=None)]) == ()
    assert reported("tests/test_sums.py", PY, "def test_adds(self:\n\0\0 ==== \n" + PY) == []
    long = "def test_a():\n    assert " + "(" * 100_000 + "\n"
    assert reported("tests/test_a.py", long, long) == []


def test_of_thousands_that_are_new_and_gone_only_the_names_are_compared() -> None:
    before = "".join(f"def test_{n}():\n    assert f({n}) == {n}\n" for n in range(400))
    after = "".join(f"def test_other_{n}():\n    assert f({n}) == {n}\n" for n in range(400))
    moved = before.replace("assert", "assert ")
    files = [
        SourceVersions(path="tests/test_a.py", before=before, after=None),
        SourceVersions(path="tests/test_b.py", before=None, after=after),
    ]
    assert [found.kind for found in find_weakened_tests(files)] == ["file"]
    files[1] = SourceVersions(path="tests/test_b.py", before=None, after=moved)
    assert find_weakened_tests(files) == ()
