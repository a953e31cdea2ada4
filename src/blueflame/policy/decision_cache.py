"""Cache of judged commands: agents run the same few again and again.

A judgement depends on the policy, the command, its folder, and the paths that were checked on the way. It holds as
long as those checks give the same answers, so they are repeated every time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from blueflame.model.policy import Decision, PathRules

MAX_ENTRIES, MAX_QUESTIONS, MAX_COMMAND_LENGTH = 256, 64, 5_000


@dataclass(frozen=True, slots=True)
class CachedDecision:
    decision: Decision
    asked: tuple[tuple[str, str, Decision], ...]


@dataclass(slots=True)
class QuestionRecorder:
    """Passes checks of paths on and records their answers."""

    paths: PathRules
    asked: list[tuple[str, str, Decision]] = field(default_factory=list)

    def check_read(self, path: str) -> Decision:
        return self._record("read", path, self.paths.check_read(path))

    def check_write(self, path: str) -> Decision:
        return self._record("write", path, self.paths.check_write(path))

    def _record(self, use: str, path: str, answer: Decision) -> Decision:
        self.asked.append((use, path, answer))
        return answer


class DecisionCache:
    """The latest judgements by one policy."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], CachedDecision] = OrderedDict()

    def find(self, command: str, cwd: str, paths: PathRules) -> Decision | None:
        """Return the decision if the command is known and every check still gives the same answer."""
        known = self._known.get((command, cwd))
        if known is None or not all(_ask_again(paths, use, path) == answer for use, path, answer in known.asked):
            return None
        self._known.move_to_end((command, cwd))
        return known.decision

    def store(self, command: str, cwd: str, decision: Decision, recorder: QuestionRecorder) -> None:
        if len(command) > MAX_COMMAND_LENGTH or len(recorder.asked) > MAX_QUESTIONS:
            return
        self._known[command, cwd] = CachedDecision(decision, tuple(recorder.asked))
        self._known.move_to_end((command, cwd))
        while len(self._known) > MAX_ENTRIES:
            self._known.popitem(last=False)


def _ask_again(paths: PathRules, use: str, path: str) -> Decision:
    return paths.check_read(path) if use == "read" else paths.check_write(path)
