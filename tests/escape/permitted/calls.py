"""Calls of coding agents that do honest work: every one of these must be allowed."""

# ruff: noqa: E501 (a row is a row, as in any table)
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Project: TypeAlias = Literal["python", "node", "go", "rust", "make"]


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    project: Project
    tool: str
    given: Mapping[str, Any]
    role: str = "worker"


def _bash(project: Project, commands: Mapping[str, str], role: str = "worker") -> tuple[Call, ...]:
    return tuple(
        Call(f"{project}-{name}", project, "Bash", {"command": command, "description": name}, role)
        for name, command in commands.items()
    )


HEREDOC = """git commit -m "$(cat <<'EOF'
feat(task-001): read dates with a time zone

Dates without one were taken for UTC; now they're taken for the
user's zone (see docs/dates.md). "Old" files are read as before.

EOF
)\""""

PYTHON = _bash(
    "python",
    {
        "pytest": "pytest",
        "pytest-quiet": "pytest -q",
        "pytest-one": "pytest tests/test_app.py::test_answer -xvs",
        "pytest-by-name": 'pytest -k "answer and not slow" -v',
        "pytest-marks": "pytest -m 'not slow' --maxfail=3 --tb=short",
        "pytest-tail": "python -m pytest tests/ -x -q 2>&1 | tail -20",
        "pytest-head": "pytest -q 2>&1 | head -50",
        "pytest-last-failed": "pytest --lf -q",
        "pytest-coverage": "pytest --cov=src --cov-report=term-missing",
        "pytest-timeout": "timeout 60 pytest -q",
        "pytest-environment": "PYTHONPATH=src pytest -q",
        "pytest-env": "env DEBUG=1 pytest -q",
        "pytest-variables": "DEBUG=1 LOG_LEVEL=debug pytest tests/test_app.py",
        "pytest-durations": "time pytest --durations=5",
        "pytest-or": "pytest -q || echo failed",
        "pytest-to-file": "pytest -q > /tmp/out.txt 2>&1; tail -5 /tmp/out.txt",
        "pytest-to-file-here": "pytest -q > docs/results.txt",
        "pytest-cd": "cd src && python -m pytest ../tests -q",
        "pytest-cd-absolute": "cd '{tree}' && pytest -q",
        "pytest-cd-subshell": "(cd tests && pytest -q test_app.py)",
        "unittest": "python -m unittest discover -s tests -v",
        "module": "python -m sample --help",
        "compileall": "python -m compileall -q src",
        "ruff": "ruff check . && ruff format --check .",
        "ruff-fix": "ruff check --fix src tests",
        "mypy": "mypy src --strict",
        "mypy-grep": "mypy src 2>&1 | grep -v note | head -20",
        "black": "black --check src tests",
        "coverage": "coverage run -m pytest && coverage report -m",
        "make": "make test",
        "make-jobs": "make -j4 lint test",
        "make-silent": "make -s check 2>&1 | tail -n 30",
        "git-status": "git status",
        "git-status-short": "git status --short --branch",
        "git-diff": "git diff",
        "git-diff-stat": "git diff --stat HEAD~1",
        "git-diff-file": "git diff HEAD -- src/app.py",
        "git-diff-cached": "git diff --cached --name-only",
        "git-log": "git log --oneline -10",
        "git-log-file": "git log -p -3 --follow -- src/app.py",
        "git-log-format": "git log --pretty=format:'%h %an %s' | head -5",
        "git-show": "git show HEAD --stat",
        "git-show-file": "git show HEAD:src/app.py",
        "git-add": "git add src/app.py tests/test_app.py",
        "git-add-all": "git add -A",
        "git-commit": "git commit -m 'feat(task-001): add the answer'",
        "git-commit-body": "git commit -m 'fix(task-001): fix it' -m 'It was broken; see docs/ssh.md for curl and docker.'",
        "git-commit-heredoc": HEREDOC,
        "git-add-commit": "git add -A && git commit -m 'test(task-001): cover the answer'",
        "git-commit-amend": "git commit --amend --no-edit",
        "git-stash": "git stash && pytest -q; git stash pop",
        "git-restore": "git restore src/app.py",
        "git-mv": "git mv src/app.py src/answer.py",
        "git-rm": "git rm src/old.py",
        "git-branch": "git branch --show-current",
        "git-blame": "git blame -L 1,10 src/app.py",
        "git-grep": "git grep -n 'def answer'",
        "git-rev-parse": "git rev-parse --abbrev-ref HEAD",
        "git-ls-files": "git ls-files 'src/*.py' | wc -l",
        "git-no-pager": "git --no-pager log --oneline -3",
        "ls": "ls -la",
        "ls-folders": "ls src tests docs",
        "cat": "cat src/app.py tests/test_app.py",
        "cat-numbers": "cat -n src/app.py | sed -n '1,40p'",
        "head": "head -50 src/app.py",
        "tail": "tail -n +20 src/app.py",
        "sed-lines": "sed -n '10,20p' src/app.py",
        "sed-in-place": "sed -i 's/answer/reply/g' src/app.py",
        "grep": "grep -rn 'TODO' src/",
        "grep-include": "grep -rn --include='*.py' 'import ssh' .",
        "grep-regex": "grep -nE 'def (answer|reply)\\(' src/*.py",
        "grep-context": "grep -B2 -A5 'class Answer' src/app.py",
        "rg": "rg -n 'docker|curl' src --type py",
        "find": "find . -name '*.py' -not -path './.venv/*'",
        "find-type": "find src -type f -name 'test_*.py' | sort",
        "find-wc": "find src -name '*.py' | xargs wc -l",
        "find-exec": "find src -name '*.py' -exec grep -l answer {} +",
        "wc": "wc -l src/app.py",
        "sort-uniq": "cut -d: -f1 docs/list.txt | sort | uniq -c | sort -rn | head",
        "jq": "jq '.scripts | keys' package.json",
        "jq-raw": "cat package.json | jq -r .name",
        "diff": "diff -u src/app.py src/old.py",
        "mkdir": "mkdir -p src/sample/deep",
        "mkdir-several": "mkdir -p src/a src/b && touch src/a/__init__.py src/b/__init__.py",
        "cp": "cp src/app.py src/copy.py",
        "mv": "mv src/copy.py src/other.py",
        "rm": "rm src/other.py",
        "rm-folder": "rm -r src/old_folder",
        "echo": "echo 'done: ssh, docker and curl are only words'",
        "echo-status": 'pytest -q; echo "exit code: $?"',
        "echo-append": "echo '- a line' >> CHANGELOG.md",
        "cat-write": "cat > src/new.py <<'EOF'\nimport os\n\n\ndef run():\n    return os.environ.get(\"HOME\")\nEOF",
        "cat-write-test": "cat > tests/test_new.py << 'PY'\nfrom src.new import run\n\ndef test_run():\n    assert run()\nPY\npytest -q tests/test_new.py",
        "pwd": "pwd && ls",
        "which": "which python pytest",
        "for-loop": 'for f in src/*.py; do echo "$f"; head -3 "$f"; done',
        "if": "if [ -f pyproject.toml ]; then cat pyproject.toml; fi",
        "while-read": 'git ls-files src | while read -r f; do wc -l "$f"; done',
        "test-and": "test -d src && ls src || echo none",
        "true": "pytest -q || true",
        "devnull": "grep -rn answer src 2>/dev/null | head",
        "devnull-all": "which tree > /dev/null 2>&1 && tree -L 2",
        "stderr-first": "python -m pytest 2>&1 >/dev/null | grep -c warning",
        "tee": "pytest -q 2>&1 | tee /tmp/test.log | tail -3",
        "sleep": "sleep 1; pytest -q",
        "site-packages": "ls .venv/lib/python3.11/site-packages | head -20",
        "site-packages-grep": "grep -rn 'def fixture' .venv/lib/python3.11/site-packages/_pytest/fixtures.py | head -5",
        "usr": "ls /usr/share/zoneinfo | head -3",
        "blank": "cat 'docs/a file with blanks.md'",
        "unicode": "cat docs/заметки.md && grep -n 'ü' docs/заметки.md",
        "comment": "# first look at the tests\nls tests\n# then run them\npytest -q",
        "several-lines": "ls src\ncat src/app.py\ngit status",
        "continued": "pytest -q \\\n  --maxfail=1 \\\n  tests",
        "variable": "N=5; echo $N",
        "date": "date +%Y-%m-%d",
        "printf": "printf '%s\\n' one two three | sort -r",
        "nice": "nice -n 10 pytest -q",
        "quoted-words": 'grep -rn "rm -rf" docs/ src/',
        "test-names-with-words": "pytest tests/test_sync.py tests/test_sshkeys.py -k 'docker or curl'",
        "add-names-with-words": "git add src/sshkeys.py docs/docker.md",
    },
)

NODE = _bash(
    "node",
    {
        "test": "npm test",
        "test-silent": "npm test --silent 2>&1 | tail -30",
        "run-test": "npm run test",
        "run-build": "npm run build",
        "run-lint": "npm run lint -- --max-warnings 0",
        "run-test-arguments": "npm run test -- --grep 'answers'",
        "node-test": "node --test test/",
        "node-test-one": "node --test test/answer.test.js",
        "ls-depth": "npm ls --depth=0",
        "eslint": "npx eslint src --ext .js,.ts",
        "eslint-fix": "npx eslint --fix src/index.js",
        "tsc": "npx tsc --noEmit -p tsconfig.json",
        "prettier": "npx prettier --check 'src/**/*.{js,ts}'",
        "jest": "npx jest --runInBand test/answer.test.js",
        "jest-environment": "NODE_ENV=test CI=true npx jest",
        "vitest": "npx vitest run --reporter=verbose",
        "yarn": "yarn test",
        "package": "cat package.json | jq .scripts",
        "node-modules": "cat node_modules/left-pad/package.json",
        "node-modules-grep": "grep -rn 'exports' node_modules/left-pad/index.js | head -3",
        "node-modules-ls": "ls node_modules/.bin | head",
        "find": "find . -name '*.test.js' -not -path '*/node_modules/*'",
        "status": "git status && git diff --stat",
        "commit": "git add -A && git commit -m 'feat(task-002): answer in TypeScript'",
        "version": "node --version",
        "mkdir": "mkdir -p src/components/answer && touch src/components/answer/index.ts",
        "write": "cat > src/answer.js <<'EOF'\nexport const answer = () => `${40 + 2}`;\nEOF",
        "script": "node scripts/generate.js --out src/generated.js",
    },
)

GO = _bash(
    "go",
    {
        "test": "go test ./...",
        "test-run": "go test ./internal/answer -run 'TestAnswer$' -v -count=1",
        "test-race": "go test -race -timeout 120s ./...",
        "test-cover": "go test -cover ./... 2>&1 | tail -20",
        "test-short": "go test -short -failfast ./internal/async",
        "test-coverprofile": "go test -coverprofile=/tmp/cover.out ./...",
        "bench": "go test -bench=. -benchmem ./pkg/answer",
        "build": "go build ./...",
        "build-output": "go build -o /tmp/app ./cmd/app",
        "vet": "go vet ./...",
        "fmt": "go fmt ./...",
        "gofmt": "gofmt -l . | head",
        "gofmt-write": "gofmt -w internal/answer/answer.go",
        "list": "go list ./... | wc -l",
        "doc": "go doc fmt.Println",
        "lint": "golangci-lint run --timeout 5m",
        "environment": "CGO_ENABLED=0 GOOS=linux go build ./...",
        "grep": "grep -rn 'func Answer' --include=*.go .",
        "commit": "git add internal && git commit -m 'fix(task-003): close the body'",
        "make": "make build test",
        "mkdir": "mkdir -p internal/answer",
    },
)

RUST = _bash(
    "rust",
    {
        "test": "cargo test",
        "test-one": "cargo test answer::tests -- --nocapture --test-threads=1",
        "test-tail": "cargo test --all-features 2>&1 | tail -40",
        "check": "cargo check --all-targets",
        "clippy": "cargo clippy --all-targets -- -D warnings",
        "fmt": "cargo fmt --all -- --check",
        "build": "cargo build --release",
        "doc": "cargo doc --no-deps",
        "tree": "cargo tree --depth 1",
        "backtrace": "RUST_BACKTRACE=1 cargo test",
        "offline": "cargo test --offline --quiet",
        "run": "cargo run -- --help",
        "version": "rustc --version && cargo tree",
        "grep": "grep -rn 'unwrap()' src | wc -l",
        "commit": "git add src && git commit -m 'refactor(task-004): no unwrap'",
    },
)

MAKE = _bash(
    "make",
    {
        "make": "make",
        "jobs": "make -j4 all",
        "test": "make test 2>&1 | tail -20",
        "variables": "make CFLAGS='-O2 -Wall' all",
        "clean": "make clean && make",
        "dry": "make -n install",
        "directory": "make -C tests",
        "cc": "cc -Wall -Iinclude -o /tmp/check src/main.c && echo built",
        "gcc": "gcc -fsyntax-only -Iinclude src/main.c",
        "built": "./build/app --version",
        "tests": "./run_tests.sh --fast",
        "ctest": "ctest --output-on-failure",
        "nm": "nm build/app.o | grep main",
        "diff": "make test > /tmp/a.txt; diff /tmp/a.txt tests/expected.txt",
        "rm": "rm -f src/main.o",
        "commit": "git add src Makefile && git commit -m 'chore(task-005): tidy the build'",
    },
)


def _tool(project: Project, name: str, tool: str, **given: object) -> Call:
    return Call(f"{project}-{name}", project, tool, given)


TOOLS = (
    _tool("python", "read", "Read", file_path="{tree}/src/app.py"),
    _tool("python", "read-part", "Read", file_path="{tree}/src/app.py", offset=10, limit=50),
    _tool("python", "read-config", "Read", file_path="{tree}/pyproject.toml"),
    _tool("python", "read-unwritable", "Read", file_path="{tree}/LICENSE"),
    _tool("python", "read-blank", "Read", file_path="{tree}/docs/a file with blanks.md"),
    _tool("python", "read-unicode", "Read", file_path="{tree}/docs/заметки.md"),
    _tool("python", "read-library", "Read", file_path="{tree}/.venv/lib/python3.11/site-packages/_pytest/fixtures.py"),
    _tool("python", "read-usr", "Read", file_path="/usr/lib/python3/dist-packages/README"),
    _tool("python", "read-not-there", "Read", file_path="{tree}/src/not_there.py"),
    _tool("python", "write", "Write", file_path="{tree}/src/new_module.py", content="x = 1\n"),
    _tool("python", "write-relative", "Write", file_path="src/new_module.py", content="x = 1\n"),
    _tool("python", "write-deep", "Write", file_path="{tree}/src/a/b/c/new.py", content=""),
    _tool("python", "write-unicode", "Write", file_path="{tree}/docs/über.md", content="ü\n"),
    _tool("python", "write-words", "Write", file_path="{tree}/docs/docker.md", content="ssh, curl and sudo rm -rf\n"),
    _tool("python", "write-tmp", "Write", file_path="/tmp/notes.txt", content="x\n"),
    _tool("python", "edit", "Edit", file_path="{tree}/src/app.py", old_string="42", new_string="43"),
    _tool("python", "edit-all", "Edit", file_path="{tree}/README.md", old_string="a", new_string="b", replace_all=True),
    _tool("python", "glob", "Glob", pattern="**/*.py"),
    _tool("python", "glob-path", "Glob", pattern="test_*.py", path="{tree}/tests"),
    _tool("python", "grep-tool", "Grep", pattern="def answer", path="{tree}/src"),
    _tool("python", "grep-everywhere", "Grep", pattern="TODO|FIXME", output_mode="files_with_matches"),
    _tool("python", "grep-glob", "Grep", pattern="import", glob="*.py", output_mode="content"),
    _tool("node", "read-node-modules", "Read", file_path="{tree}/node_modules/left-pad/index.js"),
    _tool("node", "edit-package", "Edit", file_path="{tree}/package.json", old_string="1.0.0", new_string="1.1.0"),
    _tool("node", "glob-braces", "Glob", pattern="src/**/*.{js,ts,tsx}"),
    _tool("go", "write", "Write", file_path="{tree}/internal/answer/answer.go", content="package answer\n"),
    _tool("go", "read", "Read", file_path="{tree}/README.md"),
    _tool("rust", "write", "Write", file_path="{tree}/src/answer.rs", content="pub fn answer() {}\n"),
    _tool("make", "edit-makefile", "Edit", file_path="{tree}/Makefile", old_string="a", new_string="b"),
)

VALIDATOR = (
    *_bash("python", {"validator-pytest": "pytest -q", "validator-diff": "git diff HEAD~1 --stat"}, "validator"),
    *_bash("python", {"validator-log": "git log --oneline -5"}, "validator"),
    Call("python-validator-read", "python", "Read", {"file_path": "{tree}/src/app.py"}, "validator"),
    Call("python-validator-grep", "python", "Grep", {"pattern": "answer"}, "validator"),
    Call("python-validator-verdict", "python", "StructuredOutput", {"passed": True, "notes": ""}, "validator"),
    Call("python-planner-glob", "python", "Glob", {"pattern": "**/*"}, "planner"),
    Call("python-planner-plan", "python", "StructuredOutput", {"tasks": []}, "planner"),
)

CALLS: tuple[Call, ...] = (*PYTHON, *NODE, *GO, *RUST, *MAKE, *TOOLS, *VALIDATOR)


def line(call: Call, tree: str) -> str:
    body = {
        "session_id": "s-1",
        "hook_event_name": "PreToolUse",
        "tool_name": call.tool,
        "tool_input": call.given,
        "cwd": "{tree}",
        "tool_use_id": f"toolu_{call.id}",
    }
    return json.dumps(body).replace("{tree}", json.dumps(tree)[1:-1])
