from __future__ import annotations

import json

from blueflame.model.event import ChangesetBuilt
from support.sessions import Stage, task

STRONG = "def test_adds():\n    assert 1 + 1 == 2\n    assert 2 + 2 == 4\n"
WEAK = "import pytest\n\n\n@pytest.mark.skip\ndef test_adds():\n    assert 1 + 1 == 2\n"


def test_a_changeset_has_hints_about_weaker_tests_and_risks(stage: Stage) -> None:
    stage.commit("src/test_sums.py", STRONG)
    stage.commit("src/package.json", json.dumps({"dependencies": {"a": "1"}}))
    stage.play(
        task(1, locks=["src/"]),
        task(2, locks=["docs/2.md"], cohesion_group="ordinary"),
        workers={
            1: [
                {"write": {"path": "src/test_sums.py", "text": WEAK}},
                {
                    "write": {
                        "path": "src/package.json",
                        "text": json.dumps({"dependencies": {"a": "1", "left-pad": "1"}}),
                    }
                },
                {"write": {"path": "src/Makefile", "text": "all:\n"}},
                {"commit": "feat({task}): weaken"},
            ]
        },
    )
    result = stage.run()
    built, ordinary = result.of(ChangesetBuilt)
    assert (ordinary.build.risks, ordinary.build.weakened) == ((), ())
    assert [(each.kind, each.path) for each in built.build.weakened] == [
        ("skipped", "src/test_sums.py"),
        ("assertions", "src/test_sums.py"),
    ]
    assert [risk.kind for risk in built.build.risks] == ["build", "dependency"]
    gate, _ordinary = [gate for gate in result.answers.asked if gate.kind.value == "changeset"]
    assert "left-pad" in gate.evidence["risks"][1]
    assert len(gate.evidence["weakened"]) == 2


SUITE = 'if test -e docs/exits; then exit 0; fi; echo "$(ls src/t | wc -l) passed in 0.01s"'


def test_fewer_tests_than_on_the_base_are_shown_and_are_a_risk(stage: Stage) -> None:
    """A suite that ends without its summary, one that lost a test, and an honest one."""
    stage.reconfigure(validation={"validator_diagnostics": {"enabled": True, "commands": [SUITE]}})
    for n in range(3):
        stage.commit(f"src/t/{n}", "")
    stage.play(
        task(1, locks=["docs/exits"], cohesion_group="exits"),
        task(2, locks=["src/t/0"], cohesion_group="loses"),
        task(3, locks=["src/t/3"], cohesion_group="honest"),
        workers={
            1: [{"write": {"path": "docs/exits", "text": "x"}}, {"commit": "feat({task}): exit"}],
            2: [{"run": "git rm -q src/t/0"}, {"commit": "feat({task}): lose"}],
            3: [{"write": {"path": "src/t/3", "text": "x"}}, {"commit": "feat({task}): add"}],
        },
    )
    result = stage.run({"changeset": ["skip", "skip", "skip"], "session": ["stop"]})
    counted = {
        event.build.files[0].path: (event.build.checks[0].tests, event.build.checks[0].tests_before)
        for event in result.of(ChangesetBuilt)
    }
    assert counted == {"docs/exits": (None, 3), "src/t/0": (2, 3), "src/t/3": (4, 3)}
    risks = {
        event.build.files[0].path: [risk.kind for risk in event.build.risks] for event in result.of(ChangesetBuilt)
    }
    assert risks == {"docs/exits": ["fewer"], "src/t/0": ["fewer"], "src/t/3": []}
