"""Objects of a storage that speaks S3, by pyarrow: read, written and removed whole, with repetitions up to a deadline.

Credentials come from the environment, as for AWS's own tools; an address holds none, so it can be shown and sent to Spark's workers.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, NoReturn, TypeVar, cast
from urllib.parse import parse_qsl, urlencode

import pyarrow as pa
from pyarrow import fs
from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from workbench.background import in_background
from workbench.collect.parquet_footer import ParquetFooter, read_footer
from workbench.errors import SourceUnreachableError, UsageError
from workbench.masking import remember
from workbench.sweep.storage_port import OBJECTS

DEADLINE_SECONDS = 120.0  # of one file, with all repetitions
_REQUEST_SECONDS = 15.0  # without a byte of an answer
_ATTEMPTS = 5  # of a request: many belong to a large file, and to a long list
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
# Characters that S3 calls safe; others mean something else to a shell, to a URL, or to Spark.
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9!_.*'()=-]+")
_PARAMETERS = ("endpoint_override", "region", "scheme")
_ENDPOINT = re.compile(r"(?:(https?)://)?((?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)/?")
_REFUSED = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "INVALID_CLIENT_TOKEN_ID",
    "INVALID_SIGNATURE",
    "MISSING_AUTHENTICATION_TOKEN",
    "UNRECOGNIZED_CLIENT",
    "EXPIRED_TOKEN",
    "ExpiredToken",
    "InvalidToken",
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket and how to reach it; nothing of it is secret."""

    name: str
    endpoint: str | None = None
    scheme: str = "https"
    region: str | None = None

    def parameters(self) -> str:
        """As part of an address."""
        given = {"endpoint_override": self.endpoint, "scheme": self.scheme, "region": self.region}
        return urlencode({name: value for name, value in given.items() if value})


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """An object, or what begins with its key and a slash."""

    bucket: Bucket
    key: str

    @classmethod
    def at(cls, address: str) -> ObjectFile:
        """Of `s3://bucket/key?endpoint_override=host:port&region=…&scheme=http`; what it lacks is taken from the environment.

        Raises:
            UsageError: if it is not of this form, or holds credentials.
        """
        return cls(*_parsed(address))

    def __truediv__(self, name: str) -> ObjectFile:
        return ObjectFile(self.bucket, "/".join(filter(None, (self.key, name))))

    def __str__(self) -> str:
        return f"{OBJECTS}{self.bucket.name}/{self.key}"

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def address(self) -> str:
        """With what reaches it from another machine, apart from credentials."""
        return f"{self}?{self.bucket.parameters()}"

    @property
    def _place(self) -> str:
        return f"{self.bucket.name}/{self.key}"

    def read_bytes(self, *, at_most: int | None = None) -> bytes:
        """The whole object.

        Args:
            at_most: bytes; of a larger object one byte more is read.

        Raises:
            FileNotFoundError: if there is none.
            SourceUnreachableError: if the storage refuses, or does not answer in time.
        """

        def read(storage: fs.S3FileSystem) -> bytes:
            with storage.open_input_file(self._place) as file:
                return bytes(file.read(None if at_most is None else at_most + 1))

        return _asked(self, read)

    def write(self, data: bytes) -> None:
        """Write the whole object; a reader sees the old one or the new one.

        Raises:
            SourceUnreachableError: as `read_bytes`.
        """

        def write(storage: fs.S3FileSystem) -> None:
            with storage.open_output_stream(self._place) as file:
                file.write(data)

        _asked(self, write)

    def exists(self) -> bool:
        """Whether it is there."""
        found = _asked(self, lambda storage: storage.get_file_info(self._place))
        return bool(found.type == fs.FileType.File)

    def remove(self) -> None:
        """Remove it, if it is there."""
        with suppress(FileNotFoundError):
            _asked(self, lambda storage: storage.delete_file(self._place))

    def has_bucket(self) -> bool:
        """Whether its bucket is there."""
        found = _asked(self, lambda storage: storage.get_file_info(self.bucket.name))
        return bool(found.type != fs.FileType.NotFound)

    def remove_all(self) -> None:
        """Remove all objects below it."""
        with suppress(FileNotFoundError):
            _asked(self, lambda storage: storage.delete_dir(self._place))

    def below(self, *, deep: bool, folders: bool = False) -> list[tuple[str, int]]:
        """Path below it, and bytes, of each object (or of each folder), in order."""
        selector = fs.FileSelector(self._place, allow_not_found=True, recursive=deep)
        wanted = fs.FileType.Directory if folders else fs.FileType.File
        found = _asked(self, lambda storage: storage.get_file_info(selector))
        cut = len(self._place.rstrip("/")) + 1
        return sorted((it.path[cut:], it.size or 0) for it in found if it.type == wanted)

    def footer(self) -> ParquetFooter:
        """Parquet footer; a ValueError where it has none."""

        def read(storage: fs.S3FileSystem) -> ParquetFooter:
            with storage.open_input_file(self._place) as file:
                return read_footer(cast(BinaryIO, file))

        return _asked(self, read)


def _parsed(address: str) -> tuple[Bucket, str]:
    place, _, query = address.removeprefix(OBJECTS).partition("?")
    form = f"The form is {OBJECTS}BUCKET/PREFIX?endpoint_override=HOST:PORT&region=REGION&scheme=http, without what is not needed."
    if "@" in address:
        raise UsageError(
            "The address of a store holds no credentials.",
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, as for AWS's own tools.",
        )
    bucket, _, prefix = place.partition("/")
    prefix = prefix.removesuffix("/")
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(f"{bucket!r} is no name of a bucket.", hint=form)
    if prefix and not all(_SEGMENT.fullmatch(part) for part in prefix.split("/")):
        raise UsageError(
            f"{prefix!r} is no prefix for a store: letters, digits and !-_.*'()= between slashes.", hint=form
        )
    given = parse_qsl(query, keep_blank_values=True)
    names = [name for name, _ in given]
    if len(set(names)) < len(names) or not set(names) <= set(_PARAMETERS):
        raise UsageError(f"An address of a store has the parameters {', '.join(_PARAMETERS)}, once each.", hint=form)
    return _bucket(bucket, dict(given), form), prefix


def _bucket(name: str, given: dict[str, str], form: str) -> Bucket:
    asked = (
        given.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    )
    region = given.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    scheme, endpoint = given.get("scheme"), None
    if asked:
        found = _ENDPOINT.fullmatch(asked)
        if found is None:
            raise UsageError("The endpoint of object storage is not of the form http://HOST:PORT.", hint=form)
        endpoint, scheme = found[2], scheme or found[1]
    if (scheme or "https") not in ("http", "https"):
        raise UsageError("The scheme of object storage is http or https.", hint=form)
    if region is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", region):
        raise UsageError("The region of object storage is a word, such as eu-central-1.", hint=form)
    return Bucket(name, endpoint, scheme or "https", region)


@lru_cache(maxsize=16)
def _storage(bucket: Bucket) -> fs.S3FileSystem:
    remember(os.environ.get("AWS_SECRET_ACCESS_KEY"), os.environ.get("AWS_SESSION_TOKEN"))
    region = bucket.region
    if region is None:
        region = "us-east-1" if bucket.endpoint else fs.resolve_s3_region(bucket.name)
    return fs.S3FileSystem(
        region=region,
        endpoint_override=bucket.endpoint,
        scheme=bucket.scheme,
        connect_timeout=_REQUEST_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        background_writes=True,  # without it, a part that fails is left out, and the rest becomes the object
        retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


def _asked(path: ObjectFile, call: Callable[[fs.S3FileSystem], T]) -> T:
    """An answer of the storage; every call may be repeated, since it reads, or writes or removes whole objects.

    Raises:
        FileNotFoundError: if there is no such object.
        UsageError: if there is no such bucket.
        SourceUnreachableError: if the storage refuses, or does not answer before the deadline.
    """
    attempts = Retrying(
        retry=retry_if_exception(_may_pass),
        stop=stop_before_delay(DEADLINE_SECONDS),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    end = time.monotonic() + DEADLINE_SECONDS
    try:
        found: T = attempts(_in_time, lambda: call(_storage(path.bucket)), end)
        return found
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        _tell(path, error)


def _in_time(call: Callable[[], T], end: float) -> T:
    """In a thread of its own, which a storage that never ends its answer keeps; the process does not wait for it."""
    asked = in_background(call, "object-storage")
    try:
        return asked.result(max(0.0, end - time.monotonic()))
    except TimeoutError:
        _left.append(asked)
        raise


_left: list[Future[Any]] = []  # calls that nobody waits for any more


def _finalize() -> None:
    if all(it.done() for it in _left):
        fs.ensure_s3_finalized()


atexit.unregister(fs.ensure_s3_finalized)  # at the end of the process, it would wait for calls that do not end
atexit.register(_finalize)


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, FileNotFoundError | TimeoutError) or not isinstance(error, OSError | pa.ArrowException):
        return False
    return not any(word in str(error) for word in (*_REFUSED, "NO_SUCH_BUCKET"))


def _tell(path: ObjectFile, error: BaseException) -> NoReturn:
    text = str(error)
    if "NO_SUCH_BUCKET" in text:
        raise no_bucket(path.bucket) from None
    if any(word in text for word in _REFUSED):
        raise SourceUnreachableError(
            f"The object storage refuses {path}: {_said(text)}.",
            hint="Credentials are read as by AWS's own tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE. They need "
            "permission to list the bucket, and to get, put and delete objects.",
        ) from None
    why = _said(text) if text else "its answer does not end"
    at = path.bucket.endpoint or "AWS"
    raise SourceUnreachableError(
        f"The object storage at {at} neither gives nor takes {path} within {DEADLINE_SECONDS:g} s: {why}.",
        hint="Check its address: AWS_ENDPOINT_URL and AWS_REGION, or endpoint_override and region in the store's address. Then repeat.",
    ) from None


def _said(text: str) -> str:
    """What the storage said, without the part that only its own logs know."""
    said = re.sub(r"\s*\(Request ID: .*?\)", "", text).rpartition("AWS Error ")[2]
    return " ".join(said.split()).rstrip(". ")


def no_bucket(bucket: Bucket) -> UsageError:
    """What a bucket that is not there is."""
    return UsageError(
        f"There is no bucket {bucket.name} at {bucket.endpoint or 'AWS'}.",
        hint="Make it first, with the permissions that it shall have; the store makes none.",
    )
