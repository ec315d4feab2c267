"""Registers our data sources in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source under its name, as often as wanted; the last one wins.

    Spark looks for the name in the session that is active in the JVM, not in this one (pyspark 4.3.0). So a session of `newSession` is
    refused a source that its parent has, and does not get it either.
    """
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
        active = sessions.getActiveSession()
        sessions.setActiveSession(spark._jsparkSession)
        try:
            spark.dataSource.register(source)
        finally:
            if active.isDefined():
                sessions.setActiveSession(active.get())
            else:
                sessions.clearActiveSession()
