"""How a task may move, on one page. Everything that is not in the table is a bug."""

from __future__ import annotations

from collections.abc import Mapping

from blueflame.model.errors import InternalError
from blueflame.model.task import Cause, TaskState

_S, _C = TaskState, Cause

MOVES: Mapping[tuple[TaskState, Cause], TaskState] = {  # to PENDING: a task made in part is PARTIAL again
    (_S.PENDING, _C.CLAIM): _S.CLAIMED,
    (_S.PENDING, _C.FAIL): _S.FAILED,  # it may have no further attempt
    (_S.PENDING, _C.BLOCK): _S.BLOCKED,
    (_S.PENDING, _C.DROP): _S.DROPPED,
    (_S.CLAIMED, _C.COMPLETE): _S.DONE,
    (_S.CLAIMED, _C.HAND_OVER): _S.PARTIAL,
    (_S.CLAIMED, _C.FAIL): _S.FAILED,
    (_S.CLAIMED, _C.RELEASE): _S.PENDING,
    (_S.CLAIMED, _C.REQUEUE): _S.REQUEUED,
    (_S.PARTIAL, _C.CLAIM): _S.CLAIMED,
    (_S.PARTIAL, _C.HAND_OVER): _S.PARTIAL,
    (_S.PARTIAL, _C.FAIL): _S.FAILED,
    (_S.PARTIAL, _C.REQUEUE): _S.REQUEUED,
    (_S.PARTIAL, _C.BLOCK): _S.BLOCKED,
    (_S.PARTIAL, _C.DROP): _S.DROPPED,
    (_S.FAILED, _C.RETRY): _S.PENDING,
    (_S.FAILED, _C.RENEW): _S.PENDING,
    (_S.FAILED, _C.DROP): _S.DROPPED,
    (_S.BLOCKED, _C.UNBLOCK): _S.PENDING,
    (_S.BLOCKED, _C.DROP): _S.DROPPED,
    (_S.DONE, _C.HAND_OVER): _S.DONE,
    (_S.DONE, _C.VALIDATE): _S.VALIDATED,
    (_S.DONE, _C.FAIL): _S.FAILED,
    (_S.DONE, _C.REQUEUE): _S.REQUEUED,
    (_S.DONE, _C.DEFER): _S.DEFERRED,
    (_S.DONE, _C.DROP): _S.DROPPED,
    (_S.VALIDATED, _C.LAND): _S.MERGED,
    (_S.VALIDATED, _C.REQUEUE): _S.REQUEUED,
    (_S.VALIDATED, _C.DEFER): _S.DEFERRED,
    (_S.VALIDATED, _C.DROP): _S.DROPPED,
    (_S.DEFERRED, _C.PRESENT): _S.DONE,  # and VALIDATED at once, if it was
    (_S.DEFERRED, _C.FAIL): _S.FAILED,
    (_S.DEFERRED, _C.REQUEUE): _S.REQUEUED,
    (_S.DEFERRED, _C.DROP): _S.DROPPED,
    (_S.REQUEUED, _C.RENEW): _S.PENDING,
    (_S.REQUEUED, _C.BLOCK): _S.BLOCKED,
    (_S.REQUEUED, _C.DROP): _S.DROPPED,
}


def find_next_state(state: TaskState, cause: Cause) -> TaskState:
    try:
        return MOVES[state, cause]
    except KeyError:
        raise InternalError(f"a {state.value} task cannot {cause.value}") from None
