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
