"""The reader and the judge answer whatever they are given: a damaged or invented tree is refused, nothing raises."""

from __future__ import annotations

import copy
import os
import random
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.policy.access import PathAccess, prepare_policy
from blueflame.policy.shell.judge import judge_command_line
from support.shells import CONFIGS, ShellJudge, build_shell_judge

laws = settings(max_examples=int(os.environ.get("BLUEFLAME_EXAMPLES", "60")))

REAL = (
    'git commit -m "$(cat <<EOF\n$x ${y:-$(date)} `id`\nEOF\n)"',
    'for f in src/*.py {a,b}; do wc -l "$f" > o 2>&1; done; x=(1 2); [[ $x -eq 1 && -f y ]]; ((i++))',
    "if a; then b; elif c; then d; else e; fi; case $x in a|b) c;; esac; while read l; do :; done < f; (a; b) |"
    " { c; } & f() { g; }",
    "export A=1; declare -a b=(1); let x=1; time ls; echo ${a[0]} ${#a} ${a/b/c} ${a:1:2} $((1+2)) <(ls) $'a'"
    " ~/x; coproc z",
)
TYPES = (
    *(
        "File",
        "CallExpr",
        "Lit",
        "DblQuoted",
        "SglQuoted",
        "ParamExp",
        "CmdSubst",
        "ArithmExp",
        "ProcSubst",
        "ExtGlob",
        "Word",
        "Block",
    ),
    *(
        "Subshell",
        "IfClause",
        "WhileClause",
        "ForClause",
        "CaseClause",
        "BinaryCmd",
        "FuncDecl",
        "DeclClause",
        "TestClause",
        "LetClause",
    ),
    *(
        "TimeClause",
        "CoprocClause",
        "ArithmCmd",
        "BinaryArithm",
        "UnaryTest",
        "BinaryTest",
        "WordIter",
        "CStyleLoop",
        "Nonsense",
    ),
)
FIELDS = (
    *(
        "Stmts",
        "Cmd",
        "Redirs",
        "Args",
        "Assigns",
        "Parts",
        "Value",
        "Name",
        "Op",
        "Word",
        "Hdoc",
        "X",
        "Y",
        "Cond",
        "Then",
        "Else",
    ),
    *(
        "Loop",
        "Do",
        "Items",
        "Patterns",
        "Param",
        "Exp",
        "Index",
        "Slice",
        "Repl",
        "Body",
        "Variant",
        "Exprs",
        "N",
        "Array",
        "Elems",
        "Pos",
    ),
)
leaves = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(("&&", "|", ">", "<<", "cd", "@"))
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5).flatmap(
            lambda fields: st.sampled_from(TYPES).map(lambda kind: {"Type": kind, **fields})
        )
    ),
    max_leaves=30,
)


@pytest.fixture(scope="module")
def shell_judge(tmp_path_factory: pytest.TempPathFactory) -> ShellJudge:
    return build_shell_judge(tmp_path_factory.mktemp("total"))


def _answered(shell_judge: ShellJudge, source: str, tree: object) -> None:
    worktree = shell_judge.policy.worktree
    places = PathAccess(rules=prepare_policy(shell_judge.policy), world=shell_judge.world, cwd=worktree, shell=True)
    for config in ("default", "any"):
        policy = shell_judge.policy.__class__(role="worker", worktree=worktree, allowed_commands=CONFIGS[config])
        decision = judge_command_line(source, cast("dict[str, Any]", tree), policy, places, shell_judge.world.parse)
        assert decision.rule


@laws
@given(tree=trees)
def test_an_invented_tree_gets_a_decision(shell_judge: ShellJudge, tree: object) -> None:
    _answered(shell_judge, "ls", {"Type": "File", "Stmts": tree if isinstance(tree, list) else [tree]})
    _answered(shell_judge, "ls", tree)


@laws
@given(source=st.sampled_from(REAL), seed=st.integers(0, 10**6))
def test_a_damaged_tree_gets_a_decision(shell_judge: ShellJudge, source: str, seed: int) -> None:
    dice = random.Random(seed)
    tree = copy.deepcopy(shell_judge.world.parse(source))
    for _ in range(dice.randint(1, 4)):
        _damage(tree, dice)

    _answered(shell_judge, source, tree)


def _damage(tree: object, dice: random.Random) -> None:
    """One field or element somewhere removed, replaced or doubled."""
    holders = [each for each in _all(tree) if isinstance(each, (dict, list)) and each]
    holder = dice.choice(holders)
    if isinstance(holder, list):
        at = dice.randrange(len(holder))
        dice.choice(
            (lambda: holder.pop(at), lambda: holder.insert(at, holder[at]), lambda: holder.__setitem__(at, None))
        )()
        return
    key = dice.choice(sorted(holder))
    new = dice.choice(
        (
            None,
            "",
            "x",
            7,
            True,
            [],
            {},
            [None],
            {"Type": "Lit", "Value": "$"},
            {"Type": dice.choice(TYPES)},
            dice.choice(holders),
        )
    )
    if dice.random() < 0.3:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(new)


def _all(tree: object) -> list[Any]:
    found, todo = [], [tree]
    while todo:
        each = todo.pop()
        found.append(each)
        todo.extend(each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
    return found


@laws
@given(source=st.text(alphabet="ab $'\"`(){}[]<>|&;\\\n~*?#=!-/.1", max_size=40))
def test_any_command_gets_a_decision(shell_judge: ShellJudge, source: str) -> None:
    assert shell_judge.judge(source).rule
    assert shell_judge.judge(source, "any").rule


@pytest.mark.parametrize("depth", [10, 60, 400, 3000])
def test_a_tree_of_absurd_depth_is_refused_or_read(shell_judge: ShellJudge, depth: int) -> None:
    stmt: dict[str, Any] = {"Cmd": {"Type": "CallExpr", "Args": [{"Parts": [{"Type": "Lit", "Value": "ls"}]}]}}
    for _ in range(depth):
        stmt = {"Cmd": {"Type": "Subshell", "Stmts": [stmt]}}

    _answered(shell_judge, "ls", {"Type": "File", "Stmts": [stmt]})


def test_many_nested_loops_are_judged_quickly(shell_judge: ShellJudge) -> None:
    source = "for a in 1; do x=$x; cd a; " * 12 + "ls; " + "done; " * 12

    assert shell_judge.judge(source).rule in (
        "shell_unreadable",
        "shell_dynamic",
        "outside_worktree",
        "command_not_allowed",
    )


def test_a_slow_pattern_meets_only_a_short_text(shell_judge: ShellJudge, tmp_path: Path) -> None:
    from dataclasses import replace

    slow = ShellJudge(
        replace(shell_judge.policy, blocked_patterns=(r"(a|b)*x", r"make\s+(\w+\s?)*!")), shell_judge.world
    )

    assert slow.judge("git commit -m '" + "ab" * 5000 + "'").allowed
