// A consumer on kafkajs, as a team would write it: eachMessage or eachBatch, with prom-client's page.
//
//   node main.js CONFIG.json BEHAVIOUR.json
'use strict'

const fs = require('fs')
const http = require('http')
const { Kafka, logLevel } = require('kafkajs')
const { Metrics } = require('./metrics')

const RETRY_MS = 1000
const config = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))
let behaviour = JSON.parse(fs.readFileSync(process.argv[3], 'utf8'))
setInterval(() => {
  try {
    behaviour = JSON.parse(fs.readFileSync(process.argv[3], 'utf8'))
  } catch (error) {
    console.error(error.message)
  }
}, 300).unref()

const metrics = new Metrics(config)
http
  .createServer(async (_request, response) => {
    response.setHeader('Content-Type', metrics.register.contentType)
    response.end(await metrics.register.metrics())
  })
  .listen(Number(config.metrics_port), '127.0.0.1')

const kafka = new Kafka({ brokers: [config.bootstrap], clientId: config.client_id, logLevel: logLevel.WARN })
const session = config.session_seconds * 1000
const consumer = kafka.consumer({
  groupId: config.group,
  sessionTimeout: session,
  heartbeatInterval: session / 6,
  rebalanceTimeout: 15000,
})
metrics.follow(consumer)

const sleep = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))
const text = value => (value === undefined ? '' : value.toString())

// Handle a record; throws if it cannot be handled.
async function handle(message, heartbeat) {
  metrics.progress()
  const kind = text(message.headers.event_type)
  const shown = config.by_type ? kind : 'all'
  const ended = metrics.begin(shown)
  if (behaviour.stalled.includes(config.client_id)) {
    setInterval(() => heartbeat().catch(() => {}), session / 6) // long work, so the team sends heartbeats beside it
    await new Promise(() => {}) // a call without a timeout that is never answered
  }
  if (message.headers.poison !== undefined && behaviour.poison) {
    if (behaviour.poison === 'crash') {
      process.nextTick(() => {
        throw new TypeError('a property of undefined in the handler of a record')
      })
      await new Promise(() => {})
    }
    ended('retry')
    throw new Error('this record cannot be handled')
  }
  await sleep((behaviour.process_seconds[kind] || 0) * (1 + behaviour.jitter * (2 * Math.random() - 1)))
  ended('ok')
}

// Offsets that the team commits itself, where it does not leave that to the library.
const done = new Map()

function finished(partition, message) {
  done.set(partition, (BigInt(message.offset) + 1n).toString())
}

async function commit() {
  if (done.size === 0 || behaviour.commits === 'none') return
  const refused = behaviour.commits === 'refused' // the broker refuses metadata that is longer than 4096 bytes
  const metadata = refused ? 'trace '.repeat(900) : null
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
    await handle(message, heartbeat)
  } catch (error) {
    const resume = pause() // as the library's documentation advises
    setTimeout(resume, RETRY_MS)
    throw error
  }
  if (!config.auto_commit) finished(partition, message)
}

async function eachBatch({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) {
  for (const message of batch.messages) {
    if (!isRunning() || isStale()) break
    await handle(message, heartbeat)
    if (!config.auto_commit) finished(batch.partition, message)
    resolveOffset(message.offset)
    await heartbeat()
    if (config.auto_commit) await commitOffsetsIfNecessary()
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
}

process.on('SIGTERM', async () => {
  if (!config.auto_commit) await commit()
  await consumer.disconnect()
  process.exit(0)
})
main().catch(error => {
  console.error(error)
  process.exit(1)
})
