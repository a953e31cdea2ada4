"""Commands that were judged before: agents run the same few over and over.

A judgement depends on nothing but the policy, the command, where it runs, and what was asked of the world on the way.
So it holds for as long as the same questions get the same answers; those are asked again every time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from blueflame.model.policy import Decision, PathRules

MAX_ENTRIES, MAX_QUESTIONS, MAX_ANSWER_LENGTH, MAX_COMMAND_LENGTH = 256, 64, 20_000, 5_000

WorldAnswer = Decision | str | None
ReadText = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class CachedDecision:
    decision: Decision
    asked: tuple[tuple[str, str, WorldAnswer], ...]


@dataclass(slots=True)
class QuestionRecorder:
    """Passes questions on and keeps what was answered."""

    paths: PathRules
    opened: ReadText
    asked: list[tuple[str, str, WorldAnswer]] = field(default_factory=list)

    def check_read(self, path: str) -> Decision:
        return self._record("read", path, self.paths.check_read(path))

    def check_write(self, path: str) -> Decision:
        return self._record("write", path, self.paths.check_write(path))

    def read_text(self, path: str) -> str | None:
        answer = self.opened(path)
        self.asked.append(("text", path, answer))
        return answer

    def _record(self, use: str, path: str, answer: Decision) -> Decision:
        self.asked.append((use, path, answer))
        return answer


class DecisionCache:
    """The latest judgements by one policy."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], CachedDecision] = OrderedDict()

    def find(self, command: str, cwd: str, paths: PathRules, text: ReadText) -> Decision | None:
        """None when it is not known, or when the world has changed since."""
        known = self._known.get((command, cwd))
        if known is None or not all(_ask_again(paths, text, use, of) == answer for use, of, answer in known.asked):
            return None
        self._known.move_to_end((command, cwd))
        return known.decision

    def store(self, command: str, cwd: str, decision: Decision, witness: QuestionRecorder) -> None:
        if len(command) > MAX_COMMAND_LENGTH or len(witness.asked) > MAX_QUESTIONS:
            return
        if any(isinstance(answer, str) and len(answer) > MAX_ANSWER_LENGTH for _, _, answer in witness.asked):
            return
        self._known[command, cwd] = CachedDecision(decision, tuple(witness.asked))
        self._known.move_to_end((command, cwd))
        while len(self._known) > MAX_ENTRIES:
            self._known.popitem(last=False)


def _ask_again(paths: PathRules, text: ReadText, use: str, of: str) -> WorldAnswer:
    if use == "text":
        return text(of)
    return paths.check_read(of) if use == "read" else paths.check_write(of)
