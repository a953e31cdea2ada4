"""What is written about Blue Flame is true of Blue Flame."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from blueflame.cli.command_table import COMMANDS
from blueflame.config.load import load_config

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "blueflame"
PACKAGES = sorted(init.parent.name for init in SOURCE.glob("*/__init__.py"))
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/blueflame/*/README.md"))
    if "sample" not in page.parts
)
FRAGMENTS = sorted(page for page in ROOT.glob("changes/*.md") if page.name != "README.md")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def references(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return import_module("references")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def headings(page: Path) -> set[str]:
    """As anchors, the way that git hosts make them."""
    lines = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in lines}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    folder = ROOT if page in FRAGMENTS else page.parent  # fragments become a part of CHANGELOG.md
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield (folder / path if path else page), anchor


def test_links_lead_somewhere() -> None:
    broken = [
        f"{named(page)}: {path}#{anchor}"
        for page in (*PAGES, *FRAGMENTS)
        for path, anchor in links(page)
        if not path.exists() or (anchor and anchor not in headings(path))
    ]
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, frontier = set[Path](), [ROOT / "README.md"]
    while frontier:
        here = frontier.pop().resolve()
        if here not in seen and here.suffix == ".md" and here.exists():
            seen.add(here)
            frontier += [path for path, _ in links(here)]
    assert [named(page) for page in sorted(ROOT.glob("docs/**/*.md")) if page.resolve() not in seen] == []


def test_commands_that_a_page_names_exist() -> None:
    known = {command.name for command in COMMANDS}
    unknown = [
        f"{named(page)}: {command}"
        for page in PAGES
        for command in re.findall(r"(?:`|^\$ |^)blueflame ([a-z]+)\b", page.read_text(encoding="utf-8"), re.MULTILINE)
        if command not in known
    ]
    assert unknown == []


def glossary() -> list[tuple[str, str]]:
    text = (ROOT / "docs/explanation/glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^`]+)` \|$", text, re.MULTILINE)


def test_the_glossary_is_read() -> None:
    assert len(glossary()) > 30


def test_words_of_the_glossary_are_words_of_the_code() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))]
    for word, place in glossary():
        if place.endswith(".py"):
            assert (SOURCE / place).is_file(), f"{word}: {place}"
            continue
        owner, _, member = place.partition(".")
        homes = [text for text in texts if re.search(rf"^class {owner}\b", text, re.MULTILINE)]
        assert homes, f"{word}: there is no class {owner}"
        found = not member or any(re.search(rf"^    {member}: ", text, re.MULTILINE) for text in homes)
        assert found, f"{word}: {owner} has no {member}"


def test_the_references_are_what_the_code_says(references: ModuleType) -> None:
    assert "\n".join(references.find_differences()) == ""


def test_a_stale_reference_is_reported_and_then_written(references: ModuleType, tmp_path: Path) -> None:
    references.write_pages(tmp_path)
    (tmp_path / "gates.md").write_text("# Gates\n\nThere are none.\n", encoding="utf-8")
    assert "-There are none." in list(references.find_differences(tmp_path))
    assert references.write_pages(tmp_path) == ("gates.md",)
    assert list(references.find_differences(tmp_path)) == []


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    text = (ROOT / "docs/explanation/dependencies.md").read_text(encoding="utf-8")
    assert [name for name in (re.split(r"[<>=\[ ]", entry)[0] for entry in wanted) if name not in text] == []


def named_sources(page: Path) -> Iterator[str]:
    """The modules and packages that a page names in code spans: `session/replay`, `git/landing.py`, `watcher/`."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for span in re.findall(r"`([a-z_]+(?:/[a-z_.]*)+)`", text):
        if span.split("/")[0] in PACKAGES and not span.endswith(".yml"):  # a file of a person
            yield span


def test_modules_that_a_page_names_exist() -> None:
    def exists(span: str) -> bool:
        path, _, member = span.removesuffix(".py").partition(".")
        places = (SOURCE / path, SOURCE / f"{path}.py", ROOT / span)
        found = next((place for place in places if place.exists()), None)
        return found is not None and (not member or member in (SOURCE / f"{path}.py").read_text(encoding="utf-8"))

    pages = [page for page in PAGES if "decisions" not in page.parts and page.name != "CHANGELOG.md"]
    missing = [f"{named(page)}: {span}" for page in pages for span in named_sources(page) if not exists(span)]
    assert missing == [], "decisions and the changelog say what was true at their date, other pages what is true now"


def test_every_package_is_in_the_architecture_page() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    assert [name for name in PACKAGES if not re.search(rf"^\| `{name}/` \|", page, re.MULTILINE)] == []


def test_every_package_says_what_it_is() -> None:
    trees = {name: ast.parse((SOURCE / name / "__init__.py").read_text(encoding="utf-8")) for name in PACKAGES}
    assert [name for name, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_every_decision_is_in_the_index_and_has_its_four_parts() -> None:
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for page in sorted(folder.glob("0*.md")):
        assert f"({page.name})" in index
        parts = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences", "Considered"], page.name


def test_the_example_configuration_passes_its_own_check(tmp_path: Path) -> None:
    path = tmp_path / "blueflame.yaml"
    path.write_text((ROOT / "blueflame.yaml.example").read_text(encoding="utf-8"), encoding="utf-8")
    assert load_config(path).warnings == ()
