"""Results whose history, objects, names, contents or words hide something: real commits, most of them forged."""

# ruff: noqa: E501 (a row is a row, as in any table)
from __future__ import annotations

from escape.attack import Attack, poison, result
from escape.poisons import COMMITS, FSCK

NAMES = "the number of names in a result"
BRANCH = "git update-ref $(git symbolic-ref HEAD)"
TOKEN = "ghp_9aZk3LmQ7xTn2VbR8cYp4WdS6eUf1GhJ0iKo"
SAVE = "git add -Af; git commit -q -m 'feat(task-001): a'; "
WORK = "echo x > src/b.txt; git add -A; "
THEIRS = 'p=$(git -C "$MAIN" commit-tree -p main -m "feat(task-001): a private plan" "main^{tree}"); '


def step(code: str) -> str:
    """Commit it, and take it away with the next commit."""
    return f"{code}; {SAVE}git reset -q --hard; git rm -rqf .; git checkout -q HEAD~1 -- .; {WORK}"


def say(text: str) -> str:
    """Commit with a message in which printf's escapes stand for bytes."""
    return f"{WORK}git commit -q --cleanup=verbatim -m \"feat(task-001): $(printf '{text}')\""


BOMBS: tuple[Attack, ...] = (
    poison("bomb-ten-million", "resources", "ten million names from seven small objects", NAMES, "$FORGE names 7"),
    poison("bomb-step", "resources", "a million names that the next commit takes away", NAMES, "$FORGE step names 6"),
    poison("bomb-wide", "resources", "one folder of 500,000 names", NAMES, "$FORGE wide 500000"),
    poison("bomb-wide-step", "resources", "the same, taken away by the next commit", NAMES, "$FORGE step wide 500000"),
    poison("bomb-wide-many", "resources", "ten such folders, which are a few kilobytes as differences", NAMES, "$FORGE wide 200000 10"),
    poison("bomb-deep", "resources", "2,500 folders, each within the other", "the length of a path", "$FORGE deep 2500"),
    poison("bomb-files", "resources", "three files of 15 MB that are a few kilobytes when packed", "files are read one after the other", "$FORGE zeros 3 15"),
    poison("bomb-header", "resources", "a header of 17 MB in a commit", "the size of a commit",
           "(printf 'tree %s\\nparent %s\\nauthor A <a@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\nx-note ' $(git rev-parse 'HEAD^{tree}') $(git rev-parse HEAD); "
           "head -c 17000000 /dev/zero | tr '\\0' x; printf '\\n\\nfeat(task-001): a\\n') > c; " + BRANCH + " $(git hash-object -t commit -w --literally c); rm c"),
    poison("bomb-tag", "resources", "the branch names a tag of 17 MB", FSCK,
           "(printf 'object %s\\ntype commit\\ntag t\\ntagger A <a@b> 1 +0000\\n\\n' $(git rev-parse HEAD); head -c 17000000 /dev/zero | tr '\\0' x) > t; "
           'git hash-object -t tag -w --literally t > r; rm t; mv r ".git/$(cut -c6- .git/HEAD)"'),
)  # fmt: skip

MALFORMED: tuple[Attack, ...] = (
    *(
        poison(f"tree-{name}", "git", says, FSCK, f"$FORGE entries {entries}")
        for name, says, entries in (
            ("zero-padded", "a mode that begins with a zero", "040000:a"),
            ("twice", "two files of the same name", "100644:a 100644:a"),
            ("twice-apart", "a file and a folder of the same name, with another between them", "100644:a 100644:a.b 40000:a"),
            ("unsorted", "names that are not sorted", "100644:b 100644:a"),
            ("git-space", "a folder '.git ', which is .git on Windows", "'40000:.git '"),
            ("git-dot", "a folder '.git.', which is .git on Windows", "40000:.git."),
            ("git-mark", "a folder .git behind a byte order mark, which is .git on a Mac", "\"40000:$(printf '\\357\\273\\277').git\""),
            ("null-file", "a file whose id is all zeros", "100644:a:0"),
            ("null-module", "a submodule whose id is all zeros", "160000:a:0"),
            ("dots", "a folder called .. deeper down", "40000:.."),
        )
    ),
    *(
        poison(f"commit-{name}", "git", says, FSCK, f"$FORGE commit '{text}'")
        for name, says, text in (
            ("parent-missing", "a parent that is not there", f"tree {{tree}}\\nparent {'1' * 40}\\nparent {{parent}}\\nauthor A <a@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\n\\nfeat(task-001): a\\n"),
            ("parent-file", "a parent that is a file", "tree {tree}\\nparent {parent}\\nparent {blob}\\nauthor A <a@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\n\\nfeat(task-001): a\\n"),
            ("tree-file", "a file in place of the tree", "tree {blob}\\nparent {parent}\\nauthor A <a@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\n\\nfeat(task-001): a\\n"),
            ("authors", "two authors", "tree {tree}\\nparent {parent}\\nauthor A <a@b> 1 +0000\\nauthor B <b@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\n\\nfeat(task-001): a\\n"),
            ("no-committer", "no committer", "tree {tree}\\nparent {parent}\\nauthor A <a@b> 1 +0000\\n\\nfeat(task-001): a\\n"),
            ("nul", "a zero byte in the message, behind which git shows nothing", "tree {tree}\\nparent {parent}\\nauthor A <a@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\n\\nfeat(task-001): a\\x00b\\n"),
        )
    ),
    *(
        poison(f"modules-{name}", "git", f"a .gitmodules with {says}", FSCK, f"$FORGE modules '[submodule \"{module}\"]\\n\\tpath = {path}\\n\\turl = {url}\\n'")
        for name, says, module, path, url in (
            ("url", "an option in place of its address", "x", "x", "-u./payload"),
            ("name", "a name that leads elsewhere", "../../x", "x", "https://example.org/x"),
            ("path", "an option in place of its path", "x", "--x", "https://example.org/x"),
        )
    ),
)  # fmt: skip

HISTORIES: tuple[Attack, ...] = (
    *(
        poison(f"history-{name}", "secrets", f"a commit of the person's as the agent's: on {says}", COMMITS, f'{THEIRS}git -C "$MAIN" update-ref {ref} $p; {code}{WORK}{SAVE}')
        for name, says, ref, code in (
            ("branch", "a private branch, below its own", "refs/heads/private", "git reset -q --hard $p; "),
            ("merged", "a private branch, merged", "refs/heads/private", 'git merge -q --no-ff -m "feat(task-001): m" $p; '),
            ("tag", "a tag", "refs/tags/private", "git reset -q --hard $p; "),
            ("stash", "the stash", "refs/stash", "git reset -q --hard $p; "),
            ("remote", "a branch of another repository", "refs/remotes/other/private", "git reset -q --hard $p; "),
        )
    ),
    poison("history-octopus", "git", "a merge of three, one of them a history that begins elsewhere", COMMITS,
           'r=$(git commit-tree -m "feat(task-001): r" "HEAD^{tree}"); s=$(git commit-tree -p HEAD -m "feat(task-001): s" "HEAD^{tree}"); '
           + BRANCH + ' $(git commit-tree -p HEAD -p $s -p $r -m "feat(task-001): o" "HEAD^{tree}")'),
    result("step-workflow", "tampering", "a workflow, removed by the next commit", "path_not_allowed", step("mkdir -p .github/workflows; echo x > .github/workflows/a.yml")),
    result("step-big-binary", "tampering", "a binary of 20 MB, removed by the next commit", "unexpected_binary", step("(printf '\\0'; head -c 20000000 /dev/zero) > src/tool")),
    result("step-secret-name", "secrets", "a secret in the name of a file, removed by the next commit", "sensitive_content", step(f"echo x > src/{TOKEN}.txt")),
    result("step-device", "paths", "a device of Windows, removed by the next commit", "unsafe_name", step("echo x > src/con.txt")),
)  # fmt: skip

IDENTITIES: tuple[Attack, ...] = (
    result("identity-author", "tampering", "another author", "foreign_identity", f"{WORK}GIT_AUTHOR_NAME=Linus git commit -q -m 'feat(task-001): a'", commit=False),
    result("identity-option", "tampering", "another author, by --author", "foreign_identity", f"{WORK}git commit -q --author 'Linus <l@example.org>' -m 'feat(task-001): a'", commit=False),
    result("identity-committer", "tampering", "another committer", "foreign_identity", f"{WORK}GIT_COMMITTER_EMAIL=l@example.org git commit -q -m 'feat(task-001): a'", commit=False),
    result("identity-step", "tampering", "another author in the first of two commits", "foreign_identity", f"{WORK}GIT_AUTHOR_NAME=Linus git commit -q -m 'feat(task-001): a'; echo y > src/c.txt"),
    result("identity-committers", "tampering", "two committers", "foreign_identity", "$FORGE headers 'committer Linus <l@example.org> 1 +0000\\n'", commit=False),
    *(
        result(f"identity-{name}", "tampering", f"a line that speaks for another: {line}", "foreign_identity", f"{WORK}git commit -q -m 'feat(task-001): a' -m '{line}'", commit=False)
        for name, line in (
            ("sign-off", "Signed-off-by: Linus <l@example.org>"),
            ("sign-off-case", "signed-OFF-by :  Linus <l@example.org>"),
            ("co-author", "Co-authored-by: Linus <l@example.org>"),
            ("co-author-two", "Co-authored-by: Linus <l@example.org> <noreply@example.org>"),
            ("reviewed", "Reviewed-by: Linus <l@example.org>"),
        )
    ),
)  # fmt: skip

NAMED: tuple[Attack, ...] = (
    *(
        result(f"name-{name}", "paths", says, "unsafe_name", f"mkdir -p \"src/$(dirname \"{path}\")\"; echo x > \"src/{path}\"")
        for name, says, path in (
            ("space", "a name that ends in a space", "a "),
            ("dot", "a name that ends in a dot", "a."),
            ("dot-folder", "a folder that ends in a dot", "a./b.txt"),
            ("device", "a device of Windows", "aux"),
            ("device-folder", "a device of Windows as a folder", "COM1/b.txt"),
            ("device-digit", "a device of Windows with a raised digit", "lpt².log"),
            ("not-utf8", "a name that is not UTF-8", "$(printf 'a\\377').txt"),
            ("zero-width", "a name with a character of no width", "$(printf 'a\\342\\200\\213b').txt"),
            ("joiner", "a name with a joiner", "$(printf 'a\\342\\200\\215b').txt"),
        )
    ),
    result("name-path", "paths", "a path of 5,000 bytes", "unsafe_name", "$FORGE deep 2500", commit=False),
)  # fmt: skip

CONTENTS: tuple[Attack, ...] = (
    result("binary-attributes", "tampering", "a binary that attributes declare text", "unexpected_binary", "echo '* text diff' > src/.gitattributes; printf '\\177ELF\\0\\0\\0\\1' > src/tool"),
    result("binary-late", "tampering", "a binary behind 9,000 bytes of text", "unexpected_binary", "(head -c 9000 /dev/zero | tr '\\0' x; printf '\\177ELF\\0\\0\\1') > src/tool"),
    result("binary-utf32", "tampering", "text in UTF-32", "unexpected_binary", "printf 'text, nothing but text\\n' | iconv -t UTF-32 > src/b.txt"),
    *(
        result(f"secret-{name}", "secrets", f"a secret {says}", "sensitive_content", code.format(f"'t = \"{TOKEN}\"\\n'"))
        for name, says, code in (
            ("mark", "behind the byte order mark of UTF-8", "(printf '\\357\\273\\277'; printf {}) > src/b.py"),
            ("mark-big", "behind the mark of big-endian UTF-16", "(printf '\\376\\377'; printf {}) > src/b.py"),
            ("utf16-big", "in big-endian UTF-16", "printf {} | iconv -t UTF-16BE > src/b.py"),
            ("utf16-odd", "in UTF-16 behind one byte", "(printf x; printf {} | iconv -t UTF-16LE) > src/b.py"),
            ("utf16-late", "in UTF-16 behind 9,000 bytes of text", "(head -c 9000 /dev/zero | tr '\\0' x; echo; printf {} | iconv -t UTF-16LE) > src/b.py"),
            ("utf32", "in UTF-32", "printf {} | iconv -t UTF-32LE > src/b.py"),
            ("large", "in a file above the limit", "(head -c 70000000 /dev/zero | tr '\\0' x; printf {}) > src/b.py"),
        )
    ),
    result("secret-zero-width", "secrets", "a secret that a character of no width splits", "sensitive_content", f"printf 't = \"{TOKEN[:12]}\\342\\200\\213{TOKEN[12:]}\"\\n' > src/b.py"),
    result("secret-joiner", "secrets", "a secret that a joiner splits, in a message", "sensitive_content", say(f"{TOKEN[:12]}\\342\\200\\215{TOKEN[12:]}"), commit=False),
    result("secret-link", "secrets", "a secret as the target of a link", "sensitive_content", f"ln -s {TOKEN} src/link"),
    result("secret-folder", "secrets", "a secret as the name of a folder", "sensitive_content", f"mkdir src/{TOKEN}; echo x > src/{TOKEN}/a.txt"),
    result("secret-committer", "secrets", "a secret as the address of the committer", "sensitive_content", f"{WORK}GIT_COMMITTER_EMAIL={TOKEN} git commit -q -m 'feat(task-001): a'", commit=False),
    *(
        result(f"secret-header-{name}", "secrets", f"a secret in {says}", "sensitive_content", f"$FORGE headers '{lines}'", commit=False)
        for name, says, lines in (
            ("encoding", "the header that names the encoding", f"encoding {TOKEN}\\n"),
            ("encoding-known", "the same behind an encoding that git removes when it shows the commit", f"encoding ISO-8859-1//{TOKEN}\\n"),
            ("signature", "a signature", f"gpgsig -----BEGIN PGP SIGNATURE-----\\n {TOKEN}\\n -----END PGP SIGNATURE-----\\n"),
            ("tag", "a merged tag", f"mergetag object {{tree}}\\n type commit\\n tag x\\n tagger A <a@b> 1 +0000\\n \\n {TOKEN}\\n"),
            ("unknown", "a header that git does not know", f"x-note {TOKEN}\\n"),
        )
    ),
)  # fmt: skip

WORDS: tuple[Attack, ...] = (
    *(
        result(f"message-{name}", "tampering", f"a message with {says}", "unsafe_message", say(text), commit=False)
        for name, says, text in (
            ("c1", "an escape sequence of one character", "a\\302\\2332Jb"),
            ("return", "a carriage return, behind which another message begins", "a\\rfeat: other"),
            ("isolate", "an isolate, which changes the direction of what follows", "a\\342\\201\\246b"),
            ("body", "a mark of direction in its body", "a\\n\\n\\342\\200\\256b"),
            ("tags", "letters from the block of tags, which are not shown", "a\\363\\240\\201\\201b"),
            ("selectors", "variation selectors in a row, which hide text", "a\\363\\240\\204\\200\\363\\240\\204\\201b"),
            ("filler", "a filler that is not shown", "a\\343\\205\\244b"),
            ("hyphen", "a soft hyphen", "a\\302\\255b"),
            ("separator", "a line separator of Unicode", "a\\342\\200\\250b"),
        )
    ),
    result("message-encoding", "tampering", "a message in an encoding that hides an escape sequence", "unsafe_message", "$FORGE headers 'encoding UTF-7\\n' 'a+ABs-[2Jb'", commit=False),
    result("message-long", "resources", "a message of 17 MB", "unsafe_message",
           f"{WORK}(printf 'feat(task-001): a\\n\\n'; head -c 17000000 /dev/zero | tr '\\0' x) | git commit -q -F -", commit=False),
    result("message-author", "resources", "an author of 60,000 letters", "unsafe_message", f"{WORK}GIT_AUTHOR_NAME=$(head -c 60000 /dev/zero | tr '\\0' z) git commit -q -m 'feat(task-001): a'", commit=False),
    result("message-committer", "tampering", "a committer with a mark of direction", "unsafe_message", f"{WORK}GIT_COMMITTER_NAME=\"$(printf 'Ad\\342\\200\\256a')\" git commit -q -m 'feat(task-001): a'", commit=False),
)  # fmt: skip
