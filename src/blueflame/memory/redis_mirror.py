"""Redis as a mirror: one hash for each project, with a digest and the text of each record.

One hash, so that a server that runs out of memory drops all of it or nothing, and the digests tell. Nothing here waits
long for a server, and no message contains its address, which may hold a password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from blueflame.knowledge.screen import Refusal, screen_lesson, screen_text
from blueflame.lazy_dataclass import dataclass
from blueflame.memory.codec import MAX_RECORD_BYTES, compute_digest, decode_record, dump_record, encode_record
from blueflame.model.errors import MemoryFailed
from blueflame.model.memory import Lesson, MemoryRecord, Source
from blueflame.model.settings.mirrors import ENVIRONMENT, find_address_problem
from blueflame.text.sanitize import shorten_line

if TYPE_CHECKING:
    from redis import Redis
    from redis.typing import EncodableT

PREFIX, PROJECTS = "bf:", "bf:projects"
DIGEST, RECORD = "d:", "r:"
ANSWER_SECONDS = 2.0  # for one answer
TOTAL_SECONDS = 30.0  # for all that is sent or read at once: a server may answer byte by byte
BATCH = 200
MAX_RECORDS = 50_000

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class MirrorAddress:
    """Where a server is: an address, or the environment variable that holds it."""

    text: str = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    place: str  # where it was written, for messages

    def resolve(self) -> str:
        url = self.text
        if url.startswith(ENVIRONMENT):
            name = url.removeprefix(ENVIRONMENT)
            url = self.environ.get(name, "")
            if not url:
                raise MemoryFailed(f"{self.place}: the environment variable {name} is not set")
            if problem := find_address_problem(url, secret=True):
                raise MemoryFailed(f"{self.place}: the address in {name} {problem}")
        return url


class Import(NamedTuple):
    """What was read from a server; nothing of it is trusted."""

    records: tuple[MemoryRecord, ...]
    refused: tuple[str, ...]  # what was left out, and why


class RedisMirror:
    def __init__(self, address: MirrorAddress, project: Callable[[], tuple[str, str]]) -> None:
        """`project`: returns the id and the name of ours."""
        self._address = address
        self._project = project

    @property
    def name(self) -> str:
        return f"Redis ({self._address.place})"

    def prepare(self) -> None:
        self.check()

    def check(self) -> None:
        name = self._get_hash()
        kind = self._ask(lambda server: server.type(name))
        held = _decode(kind) if isinstance(kind, bytes) else kind
        if held not in ("none", "hash"):
            raise MemoryFailed(f"the key {name} is not ours: it holds a {shorten_line(held, 20)}")

    def list_digests(self) -> Mapping[str, str]:
        fields = self._scan(self._get_hash(), DIGEST)
        return {_decode(name)[len(DIGEST) :]: _decode(digest) for name, digest in fields.items()}

    def save(self, records: Sequence[MemoryRecord]) -> None:
        ours, name = self._project()
        began = monotonic()
        for start in range(0, len(records), BATCH):
            if monotonic() - began > TOTAL_SECONDS:
                raise MemoryFailed(f"it took longer than {TOTAL_SECONDS:.0f} seconds; the rest is sent the next time")
            self._ask(partial(_send, project=ours, name=name, records=records[start : start + BATCH]))

    def remove(self, keys: Sequence[str]) -> int:
        if not keys:
            return 0
        fields = [f"{kind}{key}" for key in keys for kind in (DIGEST, RECORD)]
        self._ask(lambda server: server.hdel(self._get_hash(), *fields))
        return len(keys)

    def load(self) -> Sequence[MemoryRecord]:
        """Nothing: what other machines wrote must be imported by a person, and prompts must not depend on a server."""
        return ()

    def list_projects(self) -> Mapping[str, str]:
        """The names of the projects that the server knows, by their ids."""
        found = self._scan(PROJECTS, "")
        return {_clean(project): _clean(name) for project, name in sorted(found.items())}

    def read_records(self, project: str = "") -> Import:
        """Read the records of a project, ours by default; one that is refused costs only itself."""
        hash_name = f"{PREFIX}{project}" if project else self._get_hash()
        return self._ask(lambda server: _read_records(server, hash_name))

    def _get_hash(self) -> str:
        return f"{PREFIX}{self._project()[0]}"

    def _scan(self, name: str, prefix: str) -> dict[bytes, bytes]:
        def read(server: Redis) -> dict[bytes, bytes]:
            _refuse_too_many(server, name)
            return dict(server.hscan_iter(name, match=f"{prefix}*", count=BATCH))

        return self._ask(read)

    def _ask(self, act: Callable[[Redis], _Answer]) -> _Answer:
        with _connect(self._address.resolve()) as server:
            return act(server)


@contextmanager
def _connect(url: str) -> Iterator[Redis]:
    """Give up soon: by default the client tries for seconds, and waits for ever for an answer."""
    try:
        from redis import Redis, RedisError
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise MemoryFailed("its client is not installed: pip install 'blueflame[redis]'") from error
    try:
        server = Redis.from_url(
            url,
            protocol=2,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        timer = Timer(TOTAL_SECONDS, lambda: server.connection_pool.disconnect(inuse_connections=True))
        timer.daemon = True
        timer.start()
        try:
            yield server
        finally:
            timer.cancel()
            server.close()
    except (RedisError, OSError, ValueError) as error:
        raise MemoryFailed(_describe(error)) from None  # its text and its cause have the address


def _describe(error: Exception) -> str:
    import redis

    reasons = (
        (redis.AuthenticationError, "it does not accept the password"),
        (redis.TimeoutError, f"no answer within {ANSWER_SECONDS:g} seconds"),
        (redis.exceptions.OutOfMemoryError, "it is full (maxmemory)"),
        (redis.exceptions.NoPermissionError, "its user may not do this"),
        (redis.exceptions.ReadOnlyError, "it is read-only"),
        (redis.exceptions.BusyLoadingError, "it is still loading its data"),
        (redis.ConnectionError, "it cannot be reached"),
        (redis.ResponseError, f"it refused a command: {shorten_line(str(error), 100)}"),
    )
    return next((words for kind, words in reasons if isinstance(error, kind)), type(error).__name__)


def _send(server: Redis, project: str, name: str, records: Sequence[MemoryRecord]) -> None:
    fields: dict[EncodableT, EncodableT] = {}
    for record in records:
        fields |= {f"{DIGEST}{record.key}": compute_digest(record), f"{RECORD}{record.key}": encode_record(record)}
    with server.pipeline(transaction=True) as pipe:
        pipe.hset(PROJECTS, project, name)
        pipe.hset(f"{PREFIX}{project}", mapping=fields)
        pipe.execute()


def _refuse_too_many(server: Redis, name: str) -> None:
    if server.hlen(name) > 2 * MAX_RECORDS:
        raise MemoryFailed(f"it has more than {MAX_RECORDS:,} records: that is not a memory of ours")


def _read_records(server: Redis, name: str) -> Import:
    _refuse_too_many(server, name)
    prefix = RECORD.encode()
    fields = sorted(each for each in cast("list[bytes]", server.hkeys(name)) if each.startswith(prefix))
    records: list[MemoryRecord] = []
    refused: list[str] = []
    for start in range(0, len(fields), BATCH):
        for where, text in _read_texts(server, name, fields[start : start + BATCH]):
            try:
                records.append(_accept(where, text))
            except MemoryFailed as error:
                refused.append(str(error))
    return Import(tuple(records), tuple(refused))


def _read_texts(server: Redis, name: str, fields: Sequence[bytes]) -> Iterator[tuple[str, bytes | None]]:
    with server.pipeline(transaction=False) as pipe:
        for each in fields:
            pipe.hstrlen(name, cast("str", each))
        sizes = pipe.execute()
    small = [each for each, size in zip(fields, sizes, strict=True) if size <= MAX_RECORD_BYTES]
    texts = dict(zip(small, cast("list[bytes | None]", server.hmget(name, small)), strict=True)) if small else {}
    for each in fields:
        yield _clean(each).removeprefix(RECORD), texts.get(each)


def _accept(key: str, text: bytes | None) -> MemoryRecord:
    """Read a record that anyone may have written: no person of ours has confirmed it, whatever it says of itself."""
    if text is None:
        raise MemoryFailed(f"{key}: larger than {MAX_RECORD_BYTES:,} bytes, or gone")
    record = decode_record(_decode(text), key, foreign=True)
    if record.key != key:
        raise MemoryFailed(f"{key}: it says that its key is {shorten_line(record.key, 80)}")
    origin = replace(record.origin, source=Source.IMPORT, used=0, helped=0)
    if isinstance(record, Lesson):
        passed = screen_lesson(replace(record, origin=origin, confirmed=False))
        if isinstance(passed, Refusal):
            raise MemoryFailed(f"{key}: {passed.reason}")
        return passed
    refusal = screen_text(" ".join(_list_texts(record)))
    if isinstance(refusal, Refusal):
        raise MemoryFailed(f"{key}: {refusal.reason}")
    return replace(record, origin=origin)


def _list_texts(record: MemoryRecord) -> Iterator[str]:
    """What of a record a model may see."""
    for value in dump_record(record).values():
        yield from (each for each in (value if isinstance(value, list | tuple) else (value,)) if isinstance(each, str))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _clean(data: bytes) -> str:
    return shorten_line(_decode(data), 200)
