"""Agents that share the pool of a served house: real sessions, real processes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from blueflame.journal.journal import Journal
from blueflame.journal.pool import PoolJournal
from blueflame.model.event import AttemptIntended, GateOpened, SlotAwaited
from blueflame.model.house.event import OpenGate, RequestState
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.sessions import find_running_pid
from blueflame.views.house import list_pool_roles, read_pool
from support.houses import HouseStage, make_house
from support.repositories import run_git

STUCK = {"schema_version": 1, "defaults": {"lead": "stuck"}}


def find_assignments(stage: HouseStage) -> list[OpenGate]:
    return [each for each in stage.list_gates() if each.gate.kind.value == "assignment"]


def count_leads(stage: HouseStage) -> int:
    with PoolJournal.open_read_only(stage.paths.journal) as pool:
        return len(pool.read_state("", 0).leases)


def test_the_question_of_a_session_survives_kills_and_spawn_starts_an_ad_hoc_agent(tmp_path: Path) -> None:
    with make_house(tmp_path, "shop", "blog") as stage:
        stage.write("pool: {roles: {lead: 1}, max_queue_length: 0}\n")
        (tmp_path / "shop" / "play.json").write_text(json.dumps(STUCK))
        run_git(tmp_path / "shop", "commit", "-qam", "Get stuck")
        stage.ask("Think for ever", repository="shop")
        with stage.serve() as house:
            stage.until(lambda: count_leads(stage) == 1, "the agent that has the only slot")
            asked = stage.ask("Add a note", repository="blog")
            (gate,) = stage.until(lambda: find_assignments(stage), "the question")
            assert gate.gate.evidence["occupants"] == ["shop task-001"]
            (row,) = list_pool_roles(read_pool(stage.paths.journal, gate.opened_at))
            assert (row.role, row.core, row.at_work, row.waiting) == ("lead", 1, ("shop task-001",), 1)
            pid = find_running_pid(open_project(tmp_path / "blog" / "blueflame.yaml"))
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            os.kill(house.pid, signal.SIGKILL)
            house.wait()
        with stage.serve():
            stage.hand_in(stage.build_answer(gate, "spawn"))
            stage.answered.add((gate.repository, gate.session, gate.gate.id))
            stage.until(lambda: approve_until_end(stage, asked), "the end of the session")
            assert count_leads(stage) == 1, "the agent that is stuck keeps its slot"
        with Journal.open_read_only(tmp_path / "blog" / ".blueflame" / "journal.db") as journal:
            own = [entry.event for entry in journal.read_events(gate.session)]
        assert [each.attempt.ad_hoc for each in own if isinstance(each, AttemptIntended)] == [True]
        assert sum(isinstance(each, SlotAwaited) for each in own) == 1
        assert sum(isinstance(each, GateOpened) and each.gate.kind.value == "assignment" for each in own) == 1


def approve_until_end(stage: HouseStage, asked: object) -> bool:
    stage.approve_all()
    record = stage.find_request(asked)  # type: ignore[arg-type] # an arrival of the test
    return record is not None and record.state is RequestState.ENDED
