"""Codex's patches: which files they touch, and what is not read at all."""

from __future__ import annotations

import pytest

from blueflame.policy.dialects.codex_patch import BadPatch, PatchAction, PatchedFile, parse_patch

WHOLE = """\
*** Begin Patch
*** Add File: src/new.py
+import os
+*** Add File: not/a/heading.py
*** Update File: src/old.py
*** Move to: src/moved.py
@@ def f():
 context
-gone
+come

*** End of File
*** Delete File: src/dead.py
*** End Patch
"""


def test_every_file_of_a_patch_is_named_in_its_order() -> None:
    assert parse_patch(WHOLE) == (
        PatchedFile(PatchAction.ADD, "src/new.py"),
        PatchedFile(PatchAction.UPDATE, "src/old.py"),
        PatchedFile(PatchAction.MOVED_HERE, "src/moved.py"),
        PatchedFile(PatchAction.DELETE, "src/dead.py"),
    )


UNREADABLE = {
    "nothing": "",
    "no files": "*** Begin Patch\n*** End Patch\n",
    "no end": "*** Begin Patch\n*** Add File: a\n+x\n",
    "something before": "x\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n",
    "wrapped": "<<'EOF'\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF\n",
    "content before a file": "*** Begin Patch\n+x\n*** Add File: a\n*** End Patch",
    "a heading that is set in": "*** Begin Patch\n*** Add File: a\n+x\n *** Add File: .env\n+x\n*** End Patch",
    "a heading within a context": "*** Begin Patch\n*** Update File: a\n@@\n *** Delete File: b\n*** End Patch",
    "an unknown heading": "*** Begin Patch\n*** Environment ID: x\n*** Add File: a\n+x\n*** End Patch",
    "a move of nothing": "*** Begin Patch\n*** Add File: a\n*** Move to: b\n*** End Patch",
    "a file without a name": "*** Begin Patch\n*** Add File: \n+x\n*** End Patch",
    "a name with blanks around": "*** Begin Patch\n*** Add File:  a \n+x\n*** End Patch",
    "a carriage return": "*** Begin Patch\n*** Add File: a\r\n+x\n*** End Patch",
    "two patches": WHOLE + WHOLE,
    "content of a deleted file": "*** Begin Patch\n*** Delete File: a\n+x\n*** End Patch",
    "context in a new file": "*** Begin Patch\n*** Add File: a\n x\n*** End Patch",
}


@pytest.mark.parametrize("patch", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_ambiguous_patch_is_refused(patch: str) -> None:
    with pytest.raises(BadPatch):
        parse_patch(patch)
