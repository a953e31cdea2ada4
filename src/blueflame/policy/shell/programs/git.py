"""git: its subcommands, and the options that run programs, load configuration or write files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blueflame.lazy_dataclass import dataclass
from blueflame.policy.shell.marks import is_static, split_names
from blueflame.policy.shell.programs.spec import ParsedArguments, ProgramSpec, WordRole, build_spec

TEXT, LOOK, READ, WRITE, GUESS = WordRole.TEXT, WordRole.LOOK, WordRole.READ, WordRole.WRITE, WordRole.GUESS

_SAFE_OPTIONS = split_names(
    "--no-pager -P --no-optional-locks --literal-pathspecs --glob-pathspecs --icase-pathspecs --no-replace-objects"
    " --no-lazy-fetch --no-advice --version --help -h -v --html-path --man-path --info-path"
)
_REFUSED_OPTIONS = split_names(
    "--git-dir --work-tree --exec-path --config-env --namespace --super-prefix --attr-source -p --paginate --bare"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCall:
    """`folders` are the values of -C, `settings` of -c; `refused` is a global option that may not be used, or empty."""

    subcommand: str
    words: tuple[str, ...]
    folders: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    refused: str = ""


def parse_git_call(words: tuple[str, ...]) -> GitCall:
    """Split the words after git into global options, subcommand and the rest."""
    folders: list[str] = []
    settings: list[str] = []
    rest = list(words)
    refused = ""
    while rest and (rest[0].startswith("-") or not is_static(rest[0])):
        word = rest.pop(0)
        if word == "-C":
            folders.append(rest.pop(0) if rest else "\x00")
        elif word == "-c":
            settings.append(rest.pop(0) if rest else "\x00")
        elif word not in _SAFE_OPTIONS:
            refused = refused or word.split("=", 1)[0]
            if word in _REFUSED_OPTIONS and rest and word not in ("-p", "--paginate", "--bare"):
                rest.pop(0)
        elif word in ("--version", "--help", "-h", "-v", "--html-path", "--man-path", "--info-path"):
            rest = ["version"]
            break
    return GitCall(
        subcommand=rest[0] if rest else "help",
        words=tuple(rest[1:]),
        folders=tuple(folders),
        settings=tuple(settings),
        refused=refused or ("-c" if settings else ""),
    )


_DIFF_TEXT = (
    "-S -G -U --unified --diff-filter --stat-width --word-diff-regex --inter-hunk-context --format --pretty --since"
    " --until --after --before --author --committer --grep -n --max-count --skip -L --date --decorate-refs"
    " --encoding --stat"
    " --color --abbrev --submodule --relative --src-prefix --dst-prefix --line-prefix --anchored"
    " --ws-error-highlight -l"
    " --find-object --glob --branches --tags --remotes --exclude --min-parents --max-parents --diff-algorithm"
)
_DIFF = build_spec(
    GUESS,
    text=_DIFF_TEXT,
    read="-O --orderfile",
    write="--output",
    flags="-M -C -B -U -X",
    refused="--ext-diff --textconv",
)
_ANY = build_spec(GUESS)

_PLAIN = split_names(
    "ls-files ls-tree rev-list merge-base describe name-rev for-each-ref show-ref symbolic-ref"
    " update-ref cherry count-objects show-branch check-ignore check-attr var reset remote range-diff"
    " diff-pairs patch-id interpret-trailers stripspace verify-commit verify-tag commit-tree"
    " write-tree mktree merge-tree sparse-checkout maintenance prune repack pack-refs pack-objects"
    " index-pack unpack-objects rerere bugreport diagnose fast-export fast-import get-tar-commit-id"
    " column credential daemon shell upload-pack receive-pack http-backend instaweb citool gui gitk"
    " cvsserver svn p4 lfs annex check-mailmap check-ref-format fmt-merge-msg mailinfo mailsplit"
    " request-pull quiltimport scalar subtree flow absorb crypt"
)

SUBCOMMANDS: dict[str, ProgramSpec] = {
    "diff": _DIFF,
    "log": _DIFF,
    "show": _DIFF,
    "whatchanged": _DIFF,
    "shortlog": _DIFF,
    "reflog": _DIFF,
    "diff-tree": _DIFF,
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "format-patch": build_spec(
        GUESS,
        text=f"{_DIFF_TEXT} --start-number -v --reroll-count --subject-prefix --cover-from-description",
        write="-o --output-directory --output",
        read="--signature-file --description-file",
        refused="--ext-diff --textconv",
    ),
    "status": build_spec(GUESS, text="-u --untracked-files --ignored --column --ignore-submodules", flags="-u -M"),
    "add": build_spec(
        GUESS, text="--chmod", read="--pathspec-from-file", refused="-i --interactive -p --patch -e --edit"
    ),
    "commit": build_spec(
        GUESS,
        text="-m --message --author --date --cleanup --fixup --squash -C --reuse-message --trailer -c"
        " --reedit-message -u -S --gpg-sign",
        read="-F --file -t --template --pathspec-from-file",
        flags="-u -S",
        refused="-e --edit -p --patch --interactive -t --template -c --reedit-message",
    ),
    "grep": build_spec(
        WordRole.SEARCH,
        first=TEXT,
        text="-e -A -B -C -m --max-count --max-depth --threads",
        read="-f --file",
        refused="-O --open-files-in-pager --no-index --ext-grep --textconv",
    ),
    "archive": build_spec(GUESS, text="--format --prefix", write="-o --output", refused="--remote --exec --add-file"),
    "fetch": build_spec(GUESS, text="--depth --deepen -j --jobs", refused="--upload-pack -c --server-option"),
    "pull": build_spec(GUESS, text="--depth -s --strategy -X --strategy-option", refused="--upload-pack"),
    "clone": build_spec(
        WRITE,
        first=GUESS,
        text="-b --branch --depth -o --origin",
        refused="-c --config -u --upload-pack"
        " --template --reference --separate-git-dir --recurse-submodules --recursive",
    ),
    "push": build_spec(GUESS, refused="--receive-pack --exec"),
    "rebase": build_spec(GUESS, text="-s --strategy -X --onto", refused="-x --exec -i --interactive --edit-todo"),
    "apply": build_spec(
        READ, text="-p --directory --include --exclude --whitespace -C", refused="--unsafe-paths --build-fake-ancestor"
    ),
    "am": build_spec(READ, text="-p --directory", refused="-i --interactive"),
    "bisect": build_spec(GUESS),
    "submodule": build_spec(GUESS),
    "ls-remote": build_spec(GUESS, refused="--upload-pack --exec"),
    "blame": build_spec(
        GUESS,
        text="-L -M -C --date --since",
        read="-S --contents --ignore-revs-file",
        flags="-M -C",
        refused="--textconv",
    ),
    "cat-file": build_spec(GUESS, refused="--textconv --filters"),
    "hash-object": build_spec(READ, text="-t --path"),
    "checkout": build_spec(
        GUESS,
        after=WRITE,
        restores=True,
        text="-b -B --orphan --conflict",
        read="--pathspec-from-file",
        refused="-p --patch",
    ),
    "restore": build_spec(
        WRITE,
        restores=True,
        text="-s --source --conflict",
        read="--pathspec-from-file",
        refused="-p --patch",
    ),
    "switch": build_spec(GUESS, text="-c -C --create --force-create --orphan --conflict"),
    "stash": build_spec(GUESS, text="-m --message"),
    "worktree": build_spec(WRITE, first=TEXT, text="-b -B --reason --expire"),
    "merge": build_spec(GUESS, text="-m -s -X --strategy --strategy-option", read="-F --file", refused="-e --edit"),
    "merge-file": build_spec(WRITE),
    "init": build_spec(
        WRITE, text="-b --initial-branch --object-format", refused="--template --separate-git-dir --shared"
    ),
    "tag": build_spec(
        TEXT, text="-m --message -u --sort --format --contains --points-at", read="-F --file", refused="-e --edit"
    ),
    "notes": build_spec(TEXT, text="-m --ref -C -c", read="-F --file"),
    "revert": build_spec(TEXT, text="-m -s -X", refused="-e --edit"),
    "cherry-pick": build_spec(TEXT, text="-m -s -X", refused="-e --edit"),
    "branch": build_spec(TEXT, refused="--edit-description"),
    "rev-parse": build_spec(GUESS),
    "config": build_spec(TEXT, text="-t --type --default", read="-f --file --blob", refused="-e --edit"),
    "bundle": build_spec(WRITE, first=TEXT),
    "clean": build_spec(GUESS, text="-e --exclude", refused="-i --interactive"),
    "rm": build_spec(WRITE, read="--pathspec-from-file"),
    "mv": build_spec(WRITE),
    "difftool": build_spec(GUESS, refused="-x --extcmd -t --tool -g --gui"),
    "mergetool": build_spec(GUESS, refused="-t --tool -g --gui"),
    "send-email": build_spec(GUESS),
    "filter-branch": build_spec(GUESS),
    "replace": build_spec(TEXT, refused="-e --edit"),
    "update-index": build_spec(GUESS),
    "read-tree": build_spec(GUESS, write="--index-output"),
    "checkout-index": build_spec(GUESS, text="--stage", write="--prefix"),
    "help": build_spec(TEXT, refused="-w --web -i --info -m --man"),
    "version": build_spec(TEXT),
    "gc": build_spec(TEXT),
    "fsck": build_spec(TEXT),
    **dict.fromkeys(sorted(_PLAIN), _ANY),
}
"""Subcommands of git and common extensions. Another word may be an alias, which may run anything."""

_RUNNERS = {
    "bisect": ("run", "visualize", "view"),
    "submodule": ("foreach",),
}
REFUSED_SUBCOMMANDS = split_names(
    "filter-branch send-email instaweb citool gui gitk daemon shell http-backend cvsserver bugreport credential"
)
"""They run given commands, serve, or are interactive."""

_CONFIG_READ = split_names(
    "--get --get-all --get-regexp --get-urlmatch --list -l --show-origin --show-scope --name-only -z"
    " --get-color --get-colorbool"
)
_CONFIG_SCOPE = split_names("--local --global --system --worktree --type -t --bool --int --includes")
_RISKY_SETTINGS = re.compile(
    r"(?i)alias\.|core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|askpass|gitproxy|attributesfile|excludesfile|worktree"
    r"|alternaterefscommand|alternaterefsprefixes|repositoryformatversion|bare)|.*\.(?:textconv|external|command|cmd|driver|clean"
    r"|smudge|process|program|helper|path|proxy|uploadpack|receivepack|vcs|insteadof|pushinsteadof|update|url|pushurl)|pager\."
    r"|sequence\.|include|diff\.external|interactive\.|credential|gpg|url\.|http|init\.templatedir|safe\.|protocol|uploadpack|trailer\."
    r"|sendemail|browser|web\.|man\.|difftool|mergetool|merge\.tool|filter\.|remote\.|submodule\.|extensions\.|hook|gc\."
)


def check_git(call: GitCall, parsed: ParsedArguments) -> str | None:
    """Return what in the call runs a program or changes where git finds one, or None."""
    runner = _RUNNERS.get(call.subcommand, ())
    if found := next((word for word in parsed.operands if word in runner), None):
        return f"{call.subcommand} {found}"
    if call.subcommand in REFUSED_SUBCOMMANDS:
        return call.subcommand
    if call.subcommand == "config":
        return _check_config(parsed)
    if call.subcommand == "stash" and parsed.operands[:1] != ("show",):
        return next((name for name, _ in parsed.options if name in ("-p", "--patch")), None)
    if call.subcommand in ("fetch", "pull", "clone", "push", "ls-remote", "remote"):
        return next((word for word in parsed.operands if "ext::" in word or word.startswith("-")), None)
    return None


def _check_config(parsed: ParsedArguments) -> str | None:
    if is_reading_config(parsed):
        return None
    if any(name in ("--global", "--system") for name, _ in parsed.options):
        return "--global and --system"
    if any(value is not None and name in ("-f", "--file") for name, value in parsed.options):
        return "--file"
    keys = [word for word in parsed.operands if word not in ("set", "unset", "rename-section", "remove-section")]
    if not keys or not is_static(keys[0]) or _RISKY_SETTINGS.match(keys[0]):
        return f"writing {keys[0] if keys and is_static(keys[0]) else 'that setting'}"
    return None


def is_harmless_setting(setting: str) -> bool:
    """Return whether a setting such as `color.ui=never` or `core.pager=cat` starts no other program."""
    name, _, value = setting.partition("=")
    plain = name.lower() in ("core.pager", "core.editor") and value in ("", "cat", "true", ":")
    return is_static(name) and (plain or not _RISKY_SETTINGS.match(name))


def is_reading_config(parsed: ParsedArguments) -> bool:
    names = {name for name, _ in parsed.options}
    if names & _CONFIG_READ or parsed.operands[:1] in (("get",), ("list",)):
        return True
    return len(parsed.operands) == 1 and names <= _CONFIG_SCOPE


def list_revision_paths(word: str) -> Iterator[str]:
    """Yield the files that a revision such as HEAD:path or a path such as :(top)path names."""
    if word.startswith(":(") and "exclude" not in word:
        yield word.partition(")")[2]
        return
    head, colon, path = word.partition(":")
    if colon and path and not head.startswith(("/", "(")):
        yield path.removeprefix("./")
