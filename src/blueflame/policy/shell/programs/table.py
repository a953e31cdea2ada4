"""Programs that need a rule: what their options run, load, read and write."""

from __future__ import annotations

import re
from dataclasses import replace

from blueflame.policy.shell.marks import is_static
from blueflame.policy.shell.programs.filters import FILTERS, is_harmless_sed
from blueflame.policy.shell.programs.spec import ParsedArguments, ProgramSpec, WordRole, build_spec
from blueflame.policy.shell.programs.variables import PYTEST_FLAGS, is_dangerous_variable

READ, LOOK, WRITE, TEXT, GUESS = WordRole.READ, WordRole.LOOK, WordRole.WRITE, WordRole.TEXT, WordRole.GUESS


def _check_make(parsed: ParsedArguments) -> str | None:
    for name, value in parsed.options:
        if name in ("-f", "--file", "--makefile") and value is not None and not _is_makefile(value):
            return f"{name} with another makefile"
    for word in parsed.operands:
        name, equals, value = re.sub(r"[:+?!]*=", "=", word, count=1).partition("=")
        if equals and (
            is_dangerous_variable(name, value)
            or name in ("SHELL", ".SHELLFLAGS", "MAKE", "MAKEFILES")
            or not is_static(name)
        ):
            return f"the variable {name if is_static(name) else ''}"
        if equals and ("$(" in value or "${" in value or "`" in value):
            return f"a call of make in the variable {name}"
    return None


def _is_makefile(value: str) -> bool:
    """Return whether the file has a usual name: another makefile is another program."""
    name = value.rsplit("/", 1)[-1]
    return name in ("Makefile", "makefile", "GNUmakefile") and not value.startswith(("/", "~")) and is_static(value)


def _check_sed_in_place(parsed: ParsedArguments) -> str | None:
    given = [value or "" for name, value in parsed.options if name in ("-e", "--expression")]
    scripts = given or parsed.operands[:1]
    bad = next((each for each in scripts if not is_static(each) or not is_harmless_sed(each)), None)
    return None if bad is None else "a script that may write files or run commands"


def _check_go(parsed: ParsedArguments) -> str | None:
    if parsed.operands[:1] in (("run",), ("install",), ("tool",), ("generate",)):
        return next((word for word in parsed.operands[1:2] if "@" in word), None)
    flags = [value or "" for name, value in parsed.options if name in ("-ldflags", "--ldflags")]
    if any("-ext" in value for value in flags):
        return "-ldflags with another linker"
    if parsed.operands[:1] == ("env",) and any(name in ("-w", "-u") for name, _ in parsed.options):
        return "env -w"
    return None


def _check_pytest(parsed: ParsedArguments) -> str | None:
    plugins = [value for name, value in parsed.options if name == "-p"]
    bad = next((value for value in plugins if value is None or not value.startswith("no:")), None)
    if bad:
        return f"the plugin {bad}"
    settings = [value for name, value in parsed.options if name in ("-o", "--override-ini")]
    return next((f"the setting {value}" for value in settings if not _PYTEST_SETTING.fullmatch(value or "")), None)


_PYTEST_SETTING = re.compile(
    rf"addopts={PYTEST_FLAGS}|(?:log_cli|log_cli_level|log_level|console_output_style|xfail_strict|junit_family)=\w*"
)


def _check_curl(parsed: ParsedArguments) -> str | None:
    return next(
        (word for word in parsed.operands if word.lower().startswith(("file:", "scp:", "sftp:", "dict:", "gopher:"))),
        None,
    )


_GO = build_spec(
    GUESS,
    text="-run -bench -count -timeout -cpu -parallel -tags -ldflags -gcflags -asmflags -mod -covermode"
    " -coverpkg -skip -shuffle"
    " -fuzz -fuzztime -benchtime -list -p -f -vet -buildmode -installsuffix -buildvcs",
    write="-o -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -outputdir -test.coverprofile",
    tree="-C",
    read="-modfile -overlay -pgo",
    refused="-exec -toolexec -vettool -gccgoflags -compiler --exec --toolexec --vettool -test.exec -fixtool",
    long_dash=True,
    check=_check_go,
)

_MAKE = build_spec(
    TEXT,
    text="-j --jobs -l --load-average --max-load -o --old-file --assume-old -W --what-if --new-file --assume-new -O"
    " --output-sync --debug",
    tree="-C --directory -I --include-dir",
    read="-f --file --makefile",
    flags="-j -l -O -d",
    refused="-E --eval",
    check=_check_make,
)

_NODE_RUNNER = build_spec(
    GUESS,
    text="-w --workspace --filter -F --loglevel --if-present --silent --reporter",
    tree="--prefix -C --dir --cwd",
    refused="--script-shell --shell --node-options --userconfig --globalconfig --registry"
    " --scripts-prepend-node-path -g"
    " --global --location --call -c --package -p --unsafe-perm --git --editor --viewer --shell-emulator"
    " --onload-script --init-module",
)

_PYTEST = build_spec(
    GUESS,
    text="-o --override-ini"
    " -p -k -m -n --maxfail --tb --durations --cov-report --cov-fail-under --timeout -r --dist --color --capture"
    " --verbosity --durations-min --import-mode --seed --randomly-seed --hypothesis-seed --hypothesis-profile --count"
    " --reruns -W --pythonwarnings --log-level --log-cli-level --show-capture --junit-prefix --code-highlight"
    " --numprocesses",
    guess="--cov --deselect --ignore --ignore-glob",
    tree="--rootdir --confcutdir",
    read="-c --config-file --cov-config",
    write="--basetemp --junitxml --junit-xml --cache-dir --log-file --report-log --html --result-log --cov-report-dir",
    check=_check_pytest,
    refused="--pdbcls --pdb --trace --pastebin --debug",
)

_CP = build_spec(
    READ,
    last=WRITE,
    text="-S --suffix --backup --sparse --reflink --preserve --no-preserve --context --mode -m",
    write="-t --target-directory",
    refused="--strip-program",
)
_TAR = build_spec(
    GUESS,
    text="-b --blocking-factor --exclude --strip-components --transform --xform --format -H --owner --group"
    " --mode --mtime --sort",
    write="-C --directory -f --file -g --listed-incremental",
    read="-T --files-from -X --exclude-from",
    refused="-I --use-compress-program --to-command --checkpoint-action -F --info-script --new-volume-script"
    " --rsh-command"
    " --rmt-command -P --absolute-names",
)
_CHMOD = build_spec(WRITE, first=TEXT, read="--reference")

PROGRAMS: dict[str, ProgramSpec] = {
    "make": _MAKE,
    "gmake": _MAKE,
    "go": _GO,
    "gofmt": build_spec(READ, text="-r", refused="-cpuprofile", long_dash=True),
    "npm": _NODE_RUNNER,
    "pnpm": _NODE_RUNNER,
    "yarn": _NODE_RUNNER,
    "bun": _NODE_RUNNER,
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "cargo": build_spec(
        GUESS,
        text="-p --package --features -F --bin --test --example --bench -j --jobs --target --profile --color"
        " --message-format --exclude -Z",
        read="--manifest-path",
        write="--target-dir --out-dir --artifact-dir",
        tree="-C",
        refused="--config",
        check=lambda parsed: next((word for word in parsed.operands[:1] if word.startswith("+")), None),
    ),
    "mkdir": build_spec(WRITE, text="-m --mode --context"),
    "rmdir": build_spec(WRITE),
    "touch": build_spec(WRITE, text="-d -t --date --time", look="-r --reference"),
    "cp": _CP,
    "install": _CP,
    "mv": build_spec(WRITE, text="-S --suffix --backup", write="-t --target-directory"),
    "rm": build_spec(WRITE, text="--interactive"),
    "unlink": build_spec(WRITE),
    "shred": build_spec(WRITE, text="-n -s --iterations --size"),
    "truncate": build_spec(WRITE, text="-s --size", look="-r --reference"),
    "ln": build_spec(WRITE, text="-S --suffix", write="-t --target-directory"),
    "link": build_spec(WRITE),
    "chmod": _CHMOD,
    "chown": _CHMOD,
    "chgrp": _CHMOD,
    "setfacl": build_spec(WRITE, text="-m -x"),
    "patch": build_spec(
        WRITE,
        text="-p --strip -F --fuzz -V",
        write="-o --output -d --directory -r --reject-file -B --prefix",
        read="-i --input",
    ),
    "sed": build_spec(
        WRITE,
        first=TEXT,
        text="-e --expression -l --line-length",
        flags="-i",
        refused="-f --file",
        check=_check_sed_in_place,
    ),
    "perl": build_spec(READ, text="-e -E -M -I -i", flags="-i -0 -l"),
    "ruby": build_spec(READ, text="-e", read="-r -I"),
    "node": build_spec(
        READ,
        text="-e -p --eval --print --test-name-pattern --test-reporter --conditions -C",
        read="-r --require --import --loader --experimental-loader --env-file",
    ),
    "tar": _TAR,
    "bsdtar": _TAR,
    "zip": build_spec(WRITE, text="-x -i -P -n", refused="-T --unzip-command -TT -b"),
    "unzip": build_spec(READ, write="-d", text="-x -P"),
    "gzip": build_spec(WRITE),
    "gunzip": build_spec(WRITE),
    "bzip2": build_spec(WRITE),
    "xz": build_spec(WRITE),
    "zstd": build_spec(WRITE, write="-o"),
    "rsync": build_spec(
        WRITE,
        text="--exclude --include --filter -f --max-size",
        read="--exclude-from --include-from --files-from",
        refused="-e --rsh --rsync-path --daemon --config -M --remote-option --copy-as",
    ),
    "curl": build_spec(
        GUESS,
        text="-X -H -d --data --request --header -A -u --max-time -m --retry --connect-timeout -e -F --form -w"
        " --write-out --data-raw --data-binary --data-urlencode --json --user --user-agent --referer --range -r"
        " --retry-delay --max-redirs",
        write="-o --output -D --dump-header -c --cookie-jar --output-dir --trace --trace-ascii --stderr",
        read="-T --upload-file -b --cookie --cacert --cert --key",
        refused="-K --config --unix-socket --abstract-unix-socket --proxy -x --preproxy --socks5 --resolve"
        " --connect-to",
        check=_check_curl,
    ),
    "wget": build_spec(
        GUESS,
        text="-t --tries --timeout -T --header -U",
        write="-O --output-document -o --output-file -a -P --directory-prefix",
        read="-i --input-file --post-file --body-file",
        refused="-e --execute --config --use-askpass",
    ),
    "dd": build_spec(GUESS, read="--if", write="--of"),
    "split": build_spec(READ, last=WRITE, text="-n -l -b -a", refused="--filter"),
    "csplit": build_spec(READ),
    "cmake": build_spec(
        GUESS,
        text="-D -G -T -A -j --parallel --target --config --preset",
        write="-B --install-prefix --install --prefix",
        look="-S --build",
        refused="-P -E -C --toolchain --debugger --open",
    ),
    "ninja": build_spec(TEXT, text="-j -k -l -d -t -w", tree="-C", read="-f"),
    "mvn": build_spec(
        TEXT,
        text="-P -pl -T -D --projects --threads",
        read="-f --file",
        refused="-s --settings -gs -t --global-settings -gt",
        long_dash=True,
    ),
    "gradle": build_spec(
        TEXT,
        text="-x --tests -P --max-workers",
        tree="-p --project-dir",
        read="-b --build-file -c --settings-file",
        refused="-I --init-script -g --gradle-user-home",
    ),
    "mypy": build_spec(
        READ,
        text="--python-version -m -p -c --platform --follow-imports --exclude",
        read="--config-file",
        write="--cache-dir --junit-xml --html-report --txt-report",
        refused="--python-executable --install-types",
    ),
    "ruff": build_spec(
        GUESS,
        text="--select --ignore --fixable --line-length --target-version --output-format --extend-select --exclude",
        read="--config",
        write="--cache-dir -o --output-file",
    ),
    "tsc": build_spec(
        GUESS,
        text="--target --module --lib --jsx",
        look="-p --project -b --build --rootDir",
        write="--outDir --outFile --declarationDir --tsBuildInfoFile",
        refused="--plugins --watch -w",
    ),
    "jest": build_spec(
        GUESS,
        text="-t --testNamePattern --testPathPattern --maxWorkers -w",
        look="--rootDir --roots",
        read="-c --config",
        write="--coverageDirectory --outputFile --cacheDirectory",
        refused="--runner --testRunner --transform --globalSetup --globalTeardown --setupFiles"
        " --setupFilesAfterEnv --resolver --preset --reporters --testEnvironment --filter --haste",
    ),
    "eslint": build_spec(
        GUESS,
        text="--ext --max-warnings --rule",
        read="-c --config --ignore-path",
        write="-o --output-file --cache-location --cache-file",
        refused="--rulesdir --resolve-plugins-relative-to --plugin --parser -f --format",
    ),
    "tox": build_spec(
        GUESS, text="-e -p -m", look="--workdir --root", read="-c --conf", refused="-x --override --runner --discover"
    ),
    "jq": FILTERS["jq"],
}
_UNTAR = replace(_TAR, options={**_TAR.options, "-f": READ, "--file": READ})
_SYMLINK = build_spec(READ, last=WRITE, text="-S --suffix", write="-t --target-directory")
_IN_PLACE = build_spec(WRITE, text="-e -E -M", flags="-i -0 -l")
_PYTHON = build_spec(READ, text="-W -X -c", refused="-i")
PYTHON = re.compile(r"(?:python|pypy)(?:3(?:\.\d+)?|2)?\Z")


def find_spec(name: str, words: tuple[str, ...]) -> ProgramSpec | None:
    """Return the spec of a program that a rule allows; None if it is unknown."""
    if PYTHON.match(name):
        return _PYTHON
    if name == "ln" and any(re.match(r"-\w*s|--symbolic", word) for word in words):
        return _SYMLINK
    if name in ("perl", "ruby") and any(re.match(r"-[^\WI]*i", word) for word in words):
        return _IN_PLACE
    if name in ("tar", "bsdtar") and any(re.match(r"-\w*[xt]|--(?:extract|get|list)", word) for word in words):
        return _UNTAR
    if name == "sed" and not any(re.match(r"-[nErsuz]*i|--i", word) for word in words):
        return FILTERS["sed"]
    return PROGRAMS.get(name) or FILTERS.get(name)
