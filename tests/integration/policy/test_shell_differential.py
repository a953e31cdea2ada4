"""The reader against bash itself: whatever bash runs, the reader has reported, with the same words.

More by hand: BLUEFLAME_EXAMPLES=20000 pytest tests/integration/policy/test_shell_differential.py
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.model.policy import UnparsableCommand
from blueflame.policy.shell.findings import SimpleCommand
from blueflame.policy.shell.judge import refuse_text
from blueflame.policy.shell.marks import LOOSE, MARKS, is_glob, is_static
from blueflame.policy.shell.reader import read_commands
from blueflame.policy.shell.syntax import UnreadableSyntax
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import LocalWorld
from support.shells import run_in_bash

SCRIPTS = int(os.environ.get("BLUEFLAME_EXAMPLES", "250"))
SEED = int(os.environ.get("BLUEFLAME_SEED", "1"))


class ScriptMaker:
    """Scripts with a taste for the odd: quotes, escapes, braces, tildes, substitutions, here-documents, jumps."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.depth = 0
        self.documents: list[str] = []

    def script(self) -> str:
        return self.lines(self.dice.randint(1, 4))

    def lines(self, count: int) -> str:
        return "".join(f"{self.statement()}{self.end()}" for _ in range(count))

    def end(self) -> str:
        if self.documents:
            found = "\n" + "".join(self.documents)
            self.documents = []
            return found
        return self.dice.choice(
            ("\n",) * 12 + ("; \n", "; \n", " # note; rm x\n", " # note; rm x\n", "\n\n", " # note \\\n")
        )

    def statement(self) -> str:
        self.depth += 1
        ways: list[Callable[[], str]] = [self.simple] * 8
        if self.depth < 4:
            ways += [self.pair, self.pair, self.group, self.branch, self.loop, self.case, self.test, self.assignment]
        found = self.dice.choice(ways)()
        self.depth -= 1
        return found

    def simple(self) -> str:
        words = [self.word() for _ in range(self.dice.randint(0, 4))]
        front = self.assignment() + " " if self.dice.random() < 0.1 else ""
        parts = [front + self.name(), *words]
        if self.dice.random() < 0.25:
            parts.insert(self.dice.randint(1, len(parts)), self.redirection())
        return " ".join(parts)

    def name(self) -> str:
        name = self.dice.choice(("git", "make", "curl", "rm", "echo", "printf", "true", "prog", "ls"))
        style = self.dice.random()
        if style < 0.75:
            return name
        cut = self.dice.randint(1, len(name))
        forms = (
            f'"{name}"',
            f"'{name}'",
            f"\\{name}",
            f'{name[:cut]}"{name[cut:]}"',
            f"{name[:cut]}''{name[cut:]}",
            f"$'{name}'",
        )
        return self.dice.choice((*forms, f"{name[:cut]}\\\n{name[cut:]}", f"{{{name},x}}"))

    def word(self) -> str:
        return "".join(self.piece() for _ in range(self.dice.choice((1, 1, 1, 2, 2, 3))))

    def piece(self) -> str:
        plain = (
            *(
                "a",
                "b1",
                "-rf",
                "--x=y",
                "x.y",
                "~",
                "~/z",
                "a=~",
                "=",
                "a:~/b",
                "{a,b}",
                "{1..3}",
                "{a..c}",
                "{}",
                "{a}",
                "{a,b",
            ),
            *(
                "a}",
                "{a,{b,c}}",
                "x{,y}z",
                "{01..03}",
                "{3..1}",
                "{a..e..2}",
                "[x]",
                "*q",
                "?q",
                "\\ ",
                "\\a",
                "\\$x",
                "\\\\",
                "\\'",
                "'a b'",
            ),
            *(
                "'$x'",
                '"a b"',
                '"$x"',
                '"\\$x"',
                '"\\a"',
                '"\\\\"',
                '"`"' if False else '""',
                "''",
                "$'a\\tb'",
                "$'\\x41'",
                "$'\\''",
                "$x",
                "${x}",
            ),
            *(
                '"${x}y"',
                "${x:-d}",
                "$((1+2))",
                '"$((x))"',
                "#a",
                "a#b",
                "!",
                "%1",
                "@",
                "^",
                ",",
                "+",
                "é",
                "\\\n",
                '"\\\n"',
                "{",
                "}",
                "{x,'y z'}",
            ),
            *(
                '{"a",b}',
                "{a,b}{c,d}",
                "$'\\101'",
                "~+",
                "~nobody/x",
                "a~",
                '"~"',
                "\\~",
                "x=~/y",
                "{~,a}",
                "'{a,b}'",
                "\\{a,b}",
                "{a\\,b}",
                "{a,b\\}",
            ),
            *(
                "${x}{a,b}",
                "{$x,b}",
                "$'\\u0041'",
                "$'a\\\\b'",
                "[[",
                "]]",
                "a[1]",
                "=(" if False else "==",
                "a\\ b",
                '"a\\"b"',
                '"\'"',
                "'\"'",
                "{a..3}",
                "{1..x}",
            ),
        )
        if self.depth < 4 and self.dice.random() < 0.15:
            self.depth += 1
            found = self.substitution()
            self.depth -= 1
            return found
        return self.dice.choice(plain)

    def substitution(self) -> str:
        inner = self.inline()
        forms = [
            f"$({inner})",
            f'"$({inner})"',
            f"${{q:-$({inner})}}",
            f"<({inner})",
            f'"${{q:-$({inner})}}"',
            f"$(( $({inner}) + 0 ))",
        ]
        if "`" not in inner:
            forms += [f"`{inner}`", f'"`{inner}`"']
        if not self.documents:
            forms.append(f"$(cat <<'E'\n{inner}\nE\n)")
            forms.append(f"$(cat <<E\n$({inner})\nE\n)")
        return self.dice.choice(forms)

    def inline(self) -> str:
        before = self.documents
        self.documents = []
        found = self.simple()
        if self.documents:
            self.documents = []
            found = "prog inner"
        self.documents = before
        return found

    def redirection(self) -> str:
        if self.dice.random() < 0.4 and self.depth < 3:
            quoted = self.dice.random() < 0.5
            body = self.dice.choice(
                (
                    "text\n",
                    "$(prog h)\n",
                    "`prog h`\n",
                    "a \\$(prog no)\n",
                    "${x}\n",
                    "'$(prog h)'\n",
                    "\\\\$(prog h)\n",
                    "\tx\n",
                )
            )
            dash = self.dice.choice(("", "-"))
            self.documents.append(f"{body}E{len(self.documents)}\n")
            mark = f"E{len(self.documents) - 1}"
            return f"<<{dash}'{mark}'" if quoted else f"<<{dash}{mark}"
        return self.dice.choice(
            (
                "> o",
                ">> o",
                "2> o",
                "2>&1",
                "&> o",
                ">| o",
                "< /dev/null",
                "<<< w",
                "<<< $(prog h)",
                "> /dev/null",
                "1>&2",
            )
        )

    def pair(self) -> str:
        if self.documents:
            return self.simple()
        left = self.statement()
        if self.documents:
            return left
        return f"{left} {self.dice.choice(('&&', '||', '|', '|&', ';', '& '))} {self.statement()}".replace("& ;", "&")

    def group(self) -> str:
        inner = self.closed()
        form = self.dice.choice(("({})", "{{ {}; }}", "! {}", "time {}", "{{ {}\n}}", "( {}\n)"))
        return form.format(inner)

    def closed(self) -> str:
        before = self.documents
        self.documents = []
        found = self.statement()
        if self.documents:
            found, self.documents = "prog closed", []
        self.documents = before
        return found

    def branch(self) -> str:
        extra = f"elif {self.closed()}\nthen {self.closed()}\n" if self.dice.random() < 0.3 else ""
        last = f"else {self.closed()}\n" if self.dice.random() < 0.5 else ""
        return f"if {self.closed()}\nthen {self.closed()}\n{extra}{last}fi"

    def loop(self) -> str:
        kind = self.dice.random()
        if kind < 0.6:
            items = " ".join(self.word() for _ in range(self.dice.randint(0, 3)))
            return f"for x in {items}\ndo {self.closed()}\ndone"
        if kind < 0.8:
            return f"for ((i=0; i<2; i++)); do {self.closed()}\ndone"
        return f"{self.dice.choice(('while', 'until'))} {self.closed()}\ndo {self.closed()}\nbreak; done"

    def case(self) -> str:
        return f"case {self.word()} in a|b*) {self.closed()}\n;; '$x') ;; *) {self.closed()}\n;; esac"

    def test(self) -> str:
        return self.dice.choice(
            (
                f"[[ -n {self.word()} ]]",
                f"[[ a == {self.word()} ]] && {self.closed()}",
                f"(( 1 )) && {self.closed()}",
                "[[ -f x || -d y ]]",
            )
        )

    def assignment(self) -> str:
        return (
            self.dice.choice(("x", "y", "q"))
            + "="
            + self.dice.choice(("", "v", "'a b'", '"c"', "~", "a:~", "$x", "{a,b}", "*", "$(prog v)", "\\*"))
        )


END = "\x01"
ANYTHING, WITHIN = "any words", "some text"
"""What a mark may have become: any number of words, or some text of one word."""


def _covers(simple: SimpleCommand, argv: tuple[str, ...]) -> bool:
    """Static words to the letter; what is marked as loose or as a pattern may have become any number of words."""
    if simple.argv and all(is_static(word) for word in simple.argv):
        return simple.argv == argv
    expected = [each for word in simple.argv for each in _expected(word)]
    return _matches(expected, "".join(f"{word}{END}" for word in argv))


def _expected(word: str) -> list[str]:
    if is_glob(word) or set(word) == {LOOSE}:
        return [ANYTHING]
    several = ANYTHING if LOOSE in word else WITHIN
    return [several if each in MARKS else each for each in word] + [END]


def _matches(expected: list[str], line: str) -> bool:
    """All states at once: a regular expression with as many stars would never come back."""
    reached = _skipped({0}, expected)
    for char in line:
        after = {at + 1 for at in reached if at < len(expected) and expected[at] == char}
        after |= {at for at in reached if at < len(expected) and _swallows(expected[at], char)}
        reached = _skipped(after, expected)
    return len(expected) in reached


def _swallows(each: str, char: str) -> bool:
    return each == ANYTHING or (each == WITHIN and char != END)


def _skipped(reached: set[int], expected: list[str]) -> set[int]:
    todo = list(reached)
    while todo:
        at = todo.pop()
        if at < len(expected) and expected[at] in (ANYTHING, WITHIN) and at + 1 not in reached:
            reached.add(at + 1)
            todo.append(at + 1)
    return reached


def is_reported(found: list[SimpleCommand], argv: tuple[str, ...]) -> bool:
    if argv[:1] == ("time",):  # after a pipe it is a command, which the reader sees through
        return True
    return any(_covers(each, argv) for each in found if each.argv)


@pytest.mark.slow
def test_the_reader_reports_every_command_that_bash_runs(tmp_path: Path) -> None:
    world = LocalWorld(str(tmp_path), shfmt=find_shfmt())
    count: Counter[str] = Counter()
    missed: list[str] = []
    for number in range(SCRIPTS):
        script = ScriptMaker(SEED * 1_000_003 + number).script()
        try:
            found = [each for each in read_commands(world.parse(script), script) if isinstance(each, SimpleCommand)]
        except (UnparsableCommand, UnreadableSyntax):
            count["refused"] += 1
            continue
        if refuse_text(script):
            count["refused"] += 1
            continue
        ran = run_in_bash(script, tmp_path)
        if ran is None:
            count["unfinished"] += 1
            continue
        count["compared"] += 1
        count["commands"] += len(ran)
        missed += [f"{argv!r} of {script!r}" for argv in ran if not is_reported(found, argv)]

    assert missed == [], f"{len(missed)} of {count}: {missed[0]}"
    assert count["compared"] > SCRIPTS / 2, count
    assert count["commands"] > SCRIPTS / 2, count
