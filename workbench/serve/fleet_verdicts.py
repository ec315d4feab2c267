"""Every subscription's present verdict, its changes, and how long all of that is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.serve import outbox
from workbench.serve.kept_verdict import Judged, fitted
from workbench.serve.one_bad_item import each_alone
from workbench.serve.server_database import Store
from workbench.triage.verdict_names import State

_REPEAT_SECONDS = 3600.0  # a verdict that stays is kept each hour, unless it is "healthy"
_SENT_KEPT_SECONDS = 14 * 86_400.0
_FORGOTTEN_AFTER = 3  # rounds without a subscription, after which the fleet's page leaves it out
NOT_JUDGED = "not_judged"  # in the history: what held before ends here, and nothing is known until the next row


def record(
    store: Store,
    cluster: str,
    judged: Sequence[Judged],
    *,
    every_seconds: float,
    lead: int | None = None,
    skipped: Callable[[], object] = lambda: None,
) -> None:
    """Keep a triage of a whole cluster; `judged` is worst first.

    Args:
        lead: see `Store.writing`. skipped: called for a subscription that cannot be kept.

    Raises:
        StoreError: if the database does not answer, or the lead is lost.
    """
    gone = store.clock() - stale_seconds(every_seconds)
    with store.writing(lead=lead) as db:  # before they are judged again, or forgotten
        db.execute(
            "INSERT INTO finding (cluster, grp, topic, at, verdict, state, headline) SELECT cluster, grp, topic, at, ?, ?, ? "
            "FROM fleet WHERE cluster = ? AND at < ?",
            (NOT_JUDGED, str(State.CANNOT_TELL), "No triage came.", cluster, gone),
        )
    ranked = list(enumerate(fitted(it) for it in judged))
    origins = frozenset(it.cause for it in judged if it.origin is not None)
    each_alone(
        ranked,
        lambda part: _record(store, cluster, part, origins=origins, gone=gone, lead=lead),
        lambda _one, _error: skipped(),
    )
    with store.writing(lead=lead) as db:
        db.execute("DELETE FROM fleet WHERE cluster = ? AND at < ?", (cluster, gone))
        # A cause on brokers that this round has not found stands for nobody.
        kept = {it.topic for it in judged if it.origin is not None}
        for row in db.execute(
            "SELECT topic FROM fleet WHERE cluster = ? AND origin IS NOT NULL", (cluster,)
        ).fetchall():
            if row["topic"] not in kept:
                db.execute(
                    "DELETE FROM fleet WHERE cluster = ? AND topic = ? AND origin IS NOT NULL", (cluster, row["topic"])
                )


def stale_seconds(every_seconds: float) -> float:
    """Age at which a verdict is no longer the present one: rounds have failed, or the server did not run."""
    return _FORGOTTEN_AFTER * max(every_seconds, 60.0)


def _record(
    store: Store,
    cluster: str,
    ranked: Sequence[tuple[int, Judged]],
    *,
    origins: frozenset[str],
    gone: float,
    lead: int | None,
) -> None:
    now = store.clock()
    known = store.rows("SELECT grp, topic, verdict, at, since FROM fleet WHERE cluster = ?", (cluster,))
    before = {(row["grp"], row["topic"]): row for row in known}
    rows, changes = [], []
    for rank, it in ranked:
        last = before.get((it.group, it.topic))
        same = last is not None and last["verdict"] == it.verdict
        values = (it.verdict, it.state, it.headline, it.time_lag_seconds, it.time_lag_words, it.lag_messages)
        rows.append(
            (
                cluster, it.group, it.topic, rank, *values, now, last["since"] if same and last is not None else now,
                it.detail, None if it.origin is None else it.origin.to_json(), it.cause if it.cause in origins else None,
            )
        )  # fmt: skip
        hour = last is not None and last["at"] // _REPEAT_SECONDS != now // _REPEAT_SECONDS
        if not same or (last is not None and last["at"] < gone) or (hour and it.state != State.HEALTHY):
            changes.append((cluster, it.group, it.topic, now, *values))
    with store.writing(lead=lead) as db:
        db.executemany(
            "INSERT INTO fleet (cluster, grp, topic, rank, verdict, state, headline, time_lag, time_lag_words, lag, at, since, "
            "detail, origin, cause) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (cluster, grp, topic) DO UPDATE SET rank = excluded.rank, "
            "verdict = excluded.verdict, state = excluded.state, headline = excluded.headline, time_lag = excluded.time_lag, "
            "time_lag_words = excluded.time_lag_words, lag = excluded.lag, at = excluded.at, since = excluded.since, "
            "detail = excluded.detail, origin = excluded.origin, cause = excluded.cause",
            rows,
        )
        db.executemany(
            "INSERT INTO finding (cluster, grp, topic, at, verdict, state, headline, time_lag, time_lag_words, lag) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            changes,
        )


def forget(store: Store, *, keep_seconds: float, lead: int | None = None) -> None:
    """Delete what is older than the settings say: findings, closed incidents with their notes, sent messages, ended visits."""
    now = store.clock()
    old = now - keep_seconds
    with store.writing(lead=lead) as db:
        outbox.give_up_old(db, now=now)
        db.execute("DELETE FROM finding WHERE at < ?", (old,))
        ended = "SELECT id FROM incident WHERE closed < ?"
        for table in ("note", "member", "alert", "finding", "outbox", "telling", "had"):
            db.execute(f"DELETE FROM {table} WHERE incident IN ({ended})", (old,))  # noqa: S608 - our own names
        db.execute(
            'UPDATE incident SET "similar" = NULL WHERE "similar" IN (SELECT id FROM incident WHERE closed < ?)', (old,)
        )
        db.execute(
            "UPDATE incident SET folded = NULL WHERE folded IN (SELECT id FROM incident WHERE closed < ?)", (old,)
        )
        db.execute("DELETE FROM incident WHERE closed < ?", (old,))
        # What still holds is repeated, however old it is.
        db.execute(
            "DELETE FROM outbox WHERE state IN ('sent', 'failed') AND made < ? AND NOT EXISTS (SELECT 1 FROM telling "
            "WHERE telling.incident = outbox.incident AND telling.target = outbox.target AND telling.state = 'told')",
            (now - _SENT_KEPT_SECONDS,),
        )
        db.execute("DELETE FROM visit WHERE until < ?", (now,))
