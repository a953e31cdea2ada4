"""Programs that read files and print: allowed without a rule if the files may be read."""

from __future__ import annotations

import re

from blueflame.policy.shell.marks import is_static, split_names
from blueflame.policy.shell.programs.spec import ParsedArguments, ProgramSpec, WordRole, build_spec

_AWK_EFFECTS = re.compile(r"system|getline|close|fflush|ENVIRON|PROCINFO|ARG[VCI]|extension|@|\|&")
READ, SEARCH, LOOK, WRITE, TEXT = WordRole.READ, WordRole.SEARCH, WordRole.LOOK, WordRole.WRITE, WordRole.TEXT


def _check_uniq(parsed: ParsedArguments) -> str | None:
    return "a second file, which it overwrites" if len(parsed.operands) > 1 else None


def _check_sed(parsed: ParsedArguments) -> str | None:
    scripts = [value for name, value in parsed.options if name in ("-e", "--expression")]
    scripts = scripts or list(parsed.operands[:1])
    for script in scripts:
        if script is None or not is_static(script):
            return "a script that is only known when it runs"
        if not is_harmless_sed(script):
            return "a script that may write files or run commands (w, W, e, r or an unusual form)"
    return None


def is_harmless_sed(script: str) -> bool:
    """Return whether the whole script is understood and writes no file, reads no other file and runs no program."""
    rest = script.strip()
    while rest:
        after = _skip_sed_command(rest)
        if after is None:
            return False
        rest = after.lstrip(" \t\n;")
    return True


_ADDRESS = re.compile(r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]?)")
_PLAIN = re.compile(r"(?:[pPdDgGhHxnNFlz=}]|[qQ]\d*|[btT]\s*\w*|:\s*\w+)(?=[\s;}]|\Z)")


def _skip_sed_command(script: str) -> str | None:
    """Return the script after its first command; None if that is not a plain one."""
    rest = script
    if m := _ADDRESS.match(rest):
        rest = rest[m.end() :].lstrip()
        if rest.startswith(","):
            rest = rest[1:].lstrip()
            second = re.match(r"[+~]\d+", rest) or _ADDRESS.match(rest)
            if second is None:
                return None
            rest = rest[second.end() :]
    rest = rest.lstrip(" \t!")
    if rest.startswith("{"):
        return rest[1:]
    if m := _PLAIN.match(rest):
        return rest[m.end() :]
    if m := re.match(r"[aic](?:\\\n?|\s)[^\n]*", rest):
        return None if m[0].endswith("\\") else rest[m.end() :]
    return _skip_sed_substitution(rest)


def _skip_sed_substitution(rest: str) -> str | None:
    if rest[:1] not in ("s", "y") or len(rest) < 2 or rest[1] in "\\\n" or rest[1].isalnum() or rest[1].isspace():
        return None
    mark = re.escape(rest[1])
    piece = rf"(?:\\.|[^\\{mark}])*"
    m = re.match(rf"[sy]{mark}{piece}{mark}{piece}{mark}(?P<flags>[gpiIm0-9]*)(?=[\s;}}]|\Z)", rest, re.DOTALL)
    return rest[m.end() :] if m else None


def _check_awk(parsed: ParsedArguments) -> str | None:
    if any(name in ("-f", "--file") for name, _ in parsed.options):
        return None  # judged as a file
    program = parsed.operands[:1]
    if not program or not is_static(program[0]):
        return "a program that is only known when it runs"
    if not is_harmless_awk(program[0]):
        return "a program that may run commands or write files (system, getline, | or > after print)"
    return None


def is_harmless_awk(program: str) -> bool:
    """Return whether the program runs nothing, writes no file and reads none that is not named."""
    if _AWK_EFFECTS.search(program):
        return False
    bare = program.replace("\\\n", "")
    if "/" in bare or "#" in bare:  # a quote in a pattern or a comment hides where strings end
        return not re.search(r"print.*[|>]", bare, re.DOTALL)
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', bare)
    return not re.search(r"print[^;}\n]*(?:>|\|)", bare.replace("||", ""))


_LOOKERS = {
    "ls": build_spec(
        LOOK, text="-I --ignore --hide -w --width -T --tabsize --time-style --block-size --format --sort --time"
    ),
    "stat": build_spec(LOOK, text="-c --format --printf -f"),
    "file": build_spec(
        LOOK, text="-F -P -e --separator --exclude", refused="-C --compile -m --magic-file -f --files-from"
    ),
    "du": build_spec(
        LOOK,
        text="-d --max-depth -t --threshold -B --block-size --exclude --time-style",
        read="-X --exclude-from",
        refused="--files0-from",
    ),
    "df": build_spec(LOOK, text="-B --block-size -t --type -x --exclude-type"),
    "tree": build_spec(
        LOOK,
        text="-L -P -I --filelimit --charset --timefmt --sort",
        write="-o",
        refused="--fromfile --infofile --gitfile",
    ),
    "realpath": build_spec(LOOK, look="--relative-to --relative-base"),
    "readlink": build_spec(LOOK),
    "namei": build_spec(LOOK),
    "basename": build_spec(TEXT, text="-s --suffix", anything=True),
}

_SEARCHERS = {
    "wc": build_spec(SEARCH, text="--total", refused="--files0-from"),
    "grep": build_spec(
        SEARCH,
        first=TEXT,
        text="-e --regexp -m --max-count -A -B -C --after-context --before-context --context"
        " --exclude --exclude-dir --color --colour --label --binary-files -d -D --directories --devices",
        pattern="--include",
        read="-f --file --exclude-from",
    ),
    "rg": build_spec(
        SEARCH,
        first=TEXT,
        text="-e --regexp -m --max-count -A -B -C --after-context --before-context --context"
        "  -t --type -T --type-not --type-add -j --threads -M --max-columns -r --replace --color"
        " --colors --sort --sortr -d --max-depth --maxdepth --max-filesize -E --encoding --engine --path-separator"
        " --context-separator --field-match-separator --dfa-size-limit --regex-size-limit",
        pattern="-g --glob --iglob",
        read="-f --file --ignore-file",
        refused="--pre --pre-glob --hostname-bin --search-zip -z",
    ),
    "md5sum": build_spec(SEARCH),
    "sha1sum": build_spec(SEARCH),
    "sha256sum": build_spec(SEARCH),
    "sha512sum": build_spec(SEARCH),
    "cksum": build_spec(SEARCH, text="-a --algorithm"),
    "sum": build_spec(SEARCH),
    "cmp": build_spec(SEARCH, text="-n --bytes -i --ignore-initial"),
}

_PRINTERS = {
    "cat": build_spec(READ),
    "tac": build_spec(READ, text="-s --separator"),
    "head": build_spec(READ, text="-n -c --lines --bytes"),
    "tail": build_spec(READ, text="-n -c --lines --bytes -s --sleep-interval --pid"),
    "nl": build_spec(READ, text="-b -d -f -h -i -l -n -s -v -w"),
    "cut": build_spec(READ, text="-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter"),
    "fold": build_spec(READ, text="-w --width"),
    "fmt": build_spec(READ, text="-w --width -p --prefix -g --goal"),
    "rev": build_spec(READ),
    "paste": build_spec(READ, text="-d --delimiters"),
    "join": build_spec(READ, text="-1 -2 -a -e -j -o -t -v"),
    "comm": build_spec(READ, text="--output-delimiter"),
    "column": build_spec(READ, text="-s -o -N -c -H -R -T -W -E -O -n --separator --output-separator --table-columns"),
    "expand": build_spec(READ, text="-t --tabs"),
    "unexpand": build_spec(READ, text="-t --tabs"),
    "diff": build_spec(
        READ,
        text="-U -C -W -I -F -L --label --width --unified --context --ignore-matching-lines -x --exclude"
        " --color --horizon-lines --tabsize --show-function-line --palette",
        read="-X --exclude-from --from-file --to-file",
    ),
    "sort": build_spec(
        READ,
        text="-k -t -S --key --field-separator --buffer-size --parallel --batch-size --sort --random-source",
        write="-o --output -T --temporary-directory",
        refused="--compress-program --files0-from",
    ),
    "uniq": build_spec(
        READ,
        last=WRITE,
        text="-f -s -w --skip-fields --skip-chars --check-chars --group --all-repeated",
        check=_check_uniq,
    ),
    "od": build_spec(READ, text="-A -t -N -j -w -S"),
    "hexdump": build_spec(READ, text="-n -s -e", read="-f"),
    "xxd": build_spec(READ, text="-l -s -c -g -o", last=WRITE, refused="-r -revert"),
    "strings": build_spec(READ, text="-n -t -e --bytes"),
    "base64": build_spec(READ, text="-w --wrap"),
    "zcat": build_spec(READ),
    "tsort": build_spec(READ),
    "shuf": build_spec(READ, text="-n -i", write="-o --output", read="--random-source"),
    "seq": build_spec(TEXT, text="-f -s", anything=True),
    "jq": build_spec(
        READ,
        first=TEXT,
        text="--arg --argjson --indent --tab",
        read="-f --from-file -L --slurpfile --rawfile --argfile",
    ),
    "yq": build_spec(
        READ, first=TEXT, text="-I --indent -p -o --input-format --output-format", refused="-i --inplace -s --split-exp"
    ),
    "sed": build_spec(
        READ, first=TEXT, text="-e --expression -l --line-length", refused="-i --in-place -f --file", check=_check_sed
    ),
    "awk": build_spec(
        READ,
        first=TEXT,
        text="-F -v --field-separator --assign --re-interval",
        refused="-f --file -i --include -l --load -E --exec -e --source -o --pretty-print -p --profile -d"
        " --dump-variables -D --debug",
        check=_check_awk,
    ),
    "bat": build_spec(
        READ, text="-l -r --language --line-range --style --theme --color", refused="--pager --map-syntax"
    ),
}

_HARMLESS = split_names(
    "dirname tr nproc uname whoami id arch groups tty locale uptime free ps"
    " pgrep expr sleep which whereis clear yes getconf numfmt factor"
)

_ALONE = {
    **dict.fromkeys(_HARMLESS, build_spec(TEXT, anything=True)),
    "date": build_spec(
        TEXT, text="-d --date -I --iso-8601 --rfc-3339 +", look="-r --reference", refused="-f --file -s --set"
    ),
    "hostname": build_spec(TEXT, refused="-F --file -b", check=_check_uniq),
    "tee": build_spec(WRITE, text="--output-error"),
}

FILTERS: dict[str, ProgramSpec] = {**_LOOKERS, **_SEARCHERS, **_PRINTERS, **_ALONE}
FILTERS |= {"egrep": FILTERS["grep"], "fgrep": FILTERS["grep"], "zgrep": FILTERS["grep"]}
FILTERS |= {"gawk": FILTERS["awk"], "mawk": FILTERS["awk"], "b2sum": FILTERS["md5sum"]}
