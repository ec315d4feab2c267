// A consumer on kafkajs: eachMessage or eachBatch.
'use strict'

const { Kafka, logLevel } = require('kafkajs')
const { config, page, sleep, handle, behaviour, RETRY_SECONDS } = require('./team')

const kafka = new Kafka({ brokers: [config.bootstrap], clientId: config.client_id, logLevel: logLevel.WARN })
const session = config.session_seconds * 1000
const consumer = kafka.consumer({
  groupId: config.group,
  sessionTimeout: session,
  heartbeatInterval: session / 6,
  rebalanceTimeout: 15000,
})

// What the library tells by its instrumentation events. It tells nothing of throttling.
let movedAt = Date.now()
let heardAt = Date.now()
let partitions = 0
const age = at => (Date.now() - at) / 1000
const { events } = consumer
const joins = page.counter('kafkajs_group_joins_total', 'Joins of the group.')
const crashes = page.counter('kafkajs_crashes_total', 'Crashes of the consumer.')
const fetched = page.means('kafkajs_fetch_latency_seconds', 'Mean duration of the fetches of the last 10 s.')
page.gauge('kafkajs_progress_age_seconds', 'Time since the last fetch or message was taken up.', () => age(movedAt))
page.gauge('kafkajs_heartbeat_age_seconds', 'Time since the last heartbeat that was answered.', () => age(heardAt))
page.gauge('kafkajs_assigned_partitions', 'Partitions of this member.', () => partitions)
page.gauge('kafkajs_paused_partitions', 'Partitions that are paused.', () =>
  consumer.paused().reduce((sum, it) => sum + it.partitions.length, 0))
consumer.on(events.FETCH_START, () => {
  movedAt = Date.now()
})
consumer.on(events.HEARTBEAT, () => {
  heardAt = Date.now()
})
consumer.on(events.CRASH, () => crashes.inc())
consumer.on(events.GROUP_JOIN, ({ payload }) => {
  joins.inc()
  partitions = Object.values(payload.memberAssignment).flat().length
})
consumer.on(events.FETCH, ({ payload }) => fetched(payload.nodeId, payload.duration / 1000))

const text = value => (value === undefined ? '' : value.toString())

async function one(message, heartbeat) {
  movedAt = Date.now()
  const { event_type: kind, poison } = message.headers
  await handle(text(kind), poison !== undefined, Number(message.timestamp), () => {
    setInterval(() => heartbeat().catch(() => {}), session / 6) // long work, so the team sends heartbeats beside it
  })
}

// Offsets that the team commits itself, where it does not leave that to the library.
const done = new Map()

function finished(partition, message) {
  done.set(partition, (BigInt(message.offset) + 1n).toString())
}

async function commit() {
  const { commits } = behaviour()
  if (done.size === 0 || commits === 'none') return
  const metadata = commits === 'refused' ? 'trace '.repeat(900) : null // the broker refuses metadata that is longer than 4096 bytes
  const due = [...done].map(([partition, offset]) => ({ topic: config.topic, partition, offset, metadata }))
  done.clear()
  try {
    await consumer.commitOffsets(due)
  } catch (error) {
    console.error(error.message)
  }
}

async function eachMessage({ partition, message, heartbeat, pause }) {
  try {
    await one(message, heartbeat)
  } catch (error) {
    const resume = pause() // as the library's documentation advises
    setTimeout(resume, RETRY_SECONDS * 1000)
    throw error
  }
  if (!config.auto_commit) finished(partition, message)
}

async function eachBatch({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) {
  for (const message of batch.messages) {
    if (!isRunning() || isStale()) break
    await one(message, heartbeat)
    if (!config.auto_commit) finished(batch.partition, message)
    resolveOffset(message.offset)
    await heartbeat()
    if (config.auto_commit) await commitOffsetsIfNecessary()
  }
}

async function breaker() {
  for (;;) {
    await sleep(1)
    const { paused } = behaviour()
    if (paused.length) consumer.pause([{ topic: config.topic, partitions: paused }]) // and nobody resumes them
  }
}

async function main() {
  await consumer.connect()
  await consumer.subscribe({ topic: config.topic, fromBeginning: true })
  const every = config.commit_seconds * 1000
  if (!config.auto_commit) setInterval(commit, every).unref()
  await consumer.run({
    autoCommit: config.auto_commit,
    autoCommitInterval: config.auto_commit && config.commit_seconds ? every : null,
    partitionsConsumedConcurrently: config.concurrency,
    ...(config.style === 'batch' ? { eachBatch } : { eachMessage }),
  })
  breaker()
}

process.on('SIGTERM', async () => {
  if (!config.auto_commit) await commit()
  await consumer.disconnect()
  process.exit(0)
})

module.exports = { main }
