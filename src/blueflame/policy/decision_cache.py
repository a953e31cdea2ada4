"""Cache of judged commands: agents run the same few again and again.

A judgement depends on the policy, the command, its folder, and the paths that were checked on the way. It holds as
long as those checks give the same answers, so they are repeated every time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import field

from blueflame.lazy_dataclass import dataclass
from blueflame.model.policy import Decision, PathRules

MAX_ENTRIES, MAX_QUESTIONS, MAX_COMMAND_LENGTH = 256, 64, 5_000


@dataclass(frozen=True, slots=True)
class CachedDecision:
    decision: Decision
    asked: tuple[tuple[bool, str, Decision], ...]


@dataclass(slots=True)
class QuestionRecorder:
    """Passes checks of paths on and records them: whether it is a write, the path, the answer."""

    paths: PathRules
    asked: list[tuple[bool, str, Decision]] = field(default_factory=list)

    def check_read(self, path: str) -> Decision:
        self.asked.append((False, path, self.paths.check_read(path)))
        return self.asked[-1][2]

    def check_write(self, path: str) -> Decision:
        self.asked.append((True, path, self.paths.check_write(path)))
        return self.asked[-1][2]


class DecisionCache:
    """The latest judgements by one policy."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], CachedDecision] = OrderedDict()

    def find(self, command: str, cwd: str, paths: PathRules) -> Decision | None:
        """Return the decision if the command is known and every check still gives the same answer."""
        known = self._known.get((command, cwd))
        if known is None:
            return None
        for writes, path, answer in known.asked:
            if (paths.check_write(path) if writes else paths.check_read(path)) != answer:
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
