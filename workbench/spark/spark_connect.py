"""Sessions of an external Spark server, with Spark Connect: its JVM is already configured, only query settings are ours."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from workbench.errors import SetupError
from workbench.extras import how_to_install
from workbench.humanize import first_line
from workbench.masking import remember, secrets_in_connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"
_PORT, _SECONDS = 15002, 5.0


def connected(url: str, conf: Mapping[str, str], *, variable: str) -> SparkSession:
    """Open a session of the server at `url`.

    Args:
        url: as pyspark takes it, `sc://host:port/;token=...`.
        conf: settings of queries.
        variable: environment variable of the URL, for the hint.

    Raises:
        SetupError: if the server does not answer, or the client is not installed.
    """
    from pyspark.sql import SparkSession

    remember(*secrets_in_connection(url))
    hint = f"Set it in {variable}, for example {SCHEME}host:{_PORT}."
    try:
        address = urlsplit(url)
        server = address.hostname or "", address.port or _PORT
    except ValueError as error:
        raise SetupError(
            f"This is not the address of a Spark Connect server: {first_line(error)}.", hint=hint
        ) from None
    where = f"{server[0]}:{server[1]}"  # the rest may contain a token
    try:
        socket.create_connection(server, _SECONDS).close()
    except OSError as error:  # the client itself would retry for minutes
        raise SetupError(
            f"There is no Spark Connect server at {where}: {error.strerror or error}.", hint=hint
        ) from None
    builder = SparkSession.builder.remote(url)
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except ImportError as error:  # pyspark says which package is missing, or too old
        raise SetupError(
            f"Spark Connect needs packages that are not installed: {first_line(error)}",
            hint=f"Try: {how_to_install('connect')}",
        ) from None
    except Exception as error:  # of grpc and of pyspark
        raise SetupError(f"The Spark Connect server at {where} did not open a session: {first_line(error)}") from None


def is_remote(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return ".connect." in type(spark).__module__
