// A consumer on @platformatic/kafka: its stream in one loop, or a queue for each partition.
'use strict'

const diagnostics = require('diagnostics_channel')
const { config, page, sleep, handle, behaviour, RETRY_SECONDS } = require('./team')

const ROOM = 256 // records that wait in all queues; then the stream is paused
const session = config.session_seconds * 1000

let consumer, stream
let over = false
let heardAt = Date.now()
let askedAt = Date.now()
let asking = false
const age = at => (Date.now() - at) / 1000

// What the library tells by its events and its diagnostics channels.
function follow() {
  const joins = page.counter('platformatic_group_joins_total', 'Joins of the group.')
  const failed = page.counter('platformatic_failed_fetches_total', 'Fetches that failed.')
  const fetched = page.means('platformatic_fetch_latency_seconds', 'Mean duration of the fetches of the last 10 s.')
  const throttled = page.means('platformatic_throttle_seconds', 'Mean throttle time of the fetches of the last 10 s.')
  page.gauge('platformatic_heartbeat_age_seconds', 'Time since the last heartbeat that was answered.', () => age(heardAt))
  page.gauge('platformatic_buffered_records', 'Records of all partitions that were fetched and not taken yet.', () =>
    (stream ? stream.readableLength : 0) + waiting)
  page.gauge('platformatic_assigned_partitions', 'Partitions of this member.', () => owned().length)
  if (config.style === 'loop') {
    page.gauge('platformatic_loop_age_seconds', 'Time since the loop last asked for a record; 0 while it waits for one.', () =>
      asking ? 0 : age(askedAt))
  }
  consumer.on('consumer:group:join', () => {
    joins.inc()
    done.clear() // others may have gone on meanwhile
  })
  consumer.on('consumer:heartbeat:end', () => {
    heardAt = Date.now()
  })
  diagnostics.tracingChannel('plt:kafka:consumer:fetches').subscribe({
    start(context) {
      context.beganMs = Date.now()
    },
    asyncStart(context) {
      if (context.error || !context.result) {
        failed.inc()
        return
      }
      fetched(context.options.node, (Date.now() - context.beganMs) / 1000)
      throttled(context.options.node, context.result.throttleTimeMs / 1000)
    },
  })
}

const owned = () => (consumer.assignments || []).filter(it => it.topic === config.topic).flatMap(it => it.partitions)

// The stream goes on with what it has fetched when partitions move, and fetches it again, so the team looks whether a record is of now.
const done = new Map()

const stale = ({ partition, metadata }) =>
  metadata.consumer.generationId !== consumer.generationId || !owned().includes(partition)

async function one(message) {
  if (stale(message)) return
  const { headers, partition, offset, timestamp } = message
  while (!over) {
    try {
      await handle(headers.get('event_type') || '', headers.has('poison'), Number(timestamp))
      break
    } catch (error) {
      await sleep(RETRY_SECONDS) // nothing behind it may be handled before it
    }
  }
  if (over || stale(message)) return
  done.set(partition, offset + 1n)
  if (config.commit_seconds === 0) await commit()
}

async function commit() {
  const { commits } = behaviour()
  if (done.size === 0 || commits === 'none') return
  const offsets = [...done].map(([partition, offset]) => ({ topic: config.topic, partition, offset, leaderEpoch: -1 }))
  done.clear()
  try {
    await consumer.commit({ offsets })
  } catch (error) {
    console.error(error.message)
  }
}

async function loop() {
  const records = stream[Symbol.asyncIterator]()
  for (;;) {
    asking = true
    const found = await records.next()
    asking = false
    askedAt = Date.now()
    if (found.done) return
    await one(found.value)
  }
}

// A chain of promises for each partition. The stream is paused while too many wait in them.
let waiting = 0

function queues() {
  const chains = new Map()
  stream.on('data', message => {
    waiting += 1
    if (waiting >= ROOM) stream.pause()
    const before = chains.get(message.partition) || Promise.resolve()
    chains.set(message.partition, before.then(() => one(message)).finally(() => {
      waiting -= 1
      if (waiting <= ROOM / 2 && stream.isPaused()) stream.resume()
    }))
  })
  return new Promise((resolve, reject) => stream.on('close', resolve).on('error', reject))
}

async function main() {
  const { Consumer, stringDeserializers } = await import('@platformatic/kafka')
  consumer = new Consumer({
    groupId: config.group,
    clientId: config.client_id,
    bootstrapBrokers: [config.bootstrap],
    deserializers: stringDeserializers,
    sessionTimeout: session,
    heartbeatInterval: session / 6,
    rebalanceTimeout: Math.max(15000, session), // it takes no less
    metrics: { registry: page.register, client: page.client },
  })
  follow()
  stream = await consumer.consume({
    topics: [config.topic],
    mode: 'committed',
    fallbackMode: 'earliest',
    autocommit: false, // the library's own commits what was fetched, handled or not
    maxWaitTime: 500,
    ...(config.max_poll ? { highWaterMark: config.max_poll } : {}),
  })
  if (config.commit_seconds) setInterval(commit, config.commit_seconds * 1000).unref()
  await (config.style === 'loop' ? loop() : queues())
  if (!over) throw new Error('the stream has ended')
}

process.on('SIGTERM', async () => {
  over = true
  await commit()
  await consumer.close(true)
  process.exit(0)
})

module.exports = { main }
