// What the team shows: its handlers, and what kafkajs tells by its instrumentation events. It tells nothing of throttling.
'use strict'

const client = require('prom-client')

const RECENT_MS = 10000

class Metrics {
  constructor(config) {
    this.topic = config.topic
    this.register = new client.Registry()
    this.register.setDefaultLabels({ group: config.group, client_id: config.client_id })
    client.collectDefaultMetrics({ register: this.register })
    const registers = [this.register]
    this.took = new client.Histogram({
      name: 'handler_duration_seconds', help: 'Duration of a handler.', labelNames: ['topic', 'event_type'], registers,
      buckets: client.exponentialBuckets(0.002, 2, 14),
    })
    this.counted = new client.Counter({
      name: 'handler_attempts_total', help: 'Attempts that have ended.', labelNames: ['topic', 'event_type', 'outcome'], registers,
    })
    this.joins = new client.Counter({ name: 'kafkajs_group_joins_total', help: 'Joins of the group.', registers })
    this.crashes = new client.Counter({ name: 'kafkajs_crashes_total', help: 'Crashes of the consumer.', registers })
    const gauge = (name, help, collect, labelNames = []) => new client.Gauge({ name, help, collect, labelNames, registers })
    const metrics = this
    this.movedAt = this.heardAt = Date.now()
    this.fetches = new Map()
    this.partitions = 0
    gauge('kafkajs_progress_age_seconds', 'Time since the last fetch or message was taken up.', function () {
      this.set((Date.now() - metrics.movedAt) / 1000)
    })
    gauge('kafkajs_heartbeat_age_seconds', 'Time since the last heartbeat that was answered.', function () {
      this.set((Date.now() - metrics.heardAt) / 1000)
    })
    gauge('kafkajs_assigned_partitions', 'Partitions of this member.', function () {
      this.set(metrics.partitions)
    })
    gauge('kafkajs_paused_partitions', 'Partitions that are paused.', function () {
      this.set(metrics.paused())
    })
    gauge('kafkajs_fetch_latency_seconds', 'Mean duration of the fetches of the last 10 s.', function () {
      this.reset()
      for (const [node, found] of metrics.fetches) {
        const recent = found.filter(it => Date.now() - it.at < RECENT_MS)
        metrics.fetches.set(node, recent)
        if (recent.length) this.set({ broker: node }, recent.reduce((sum, it) => sum + it.seconds, 0) / recent.length)
      }
    }, ['broker'])
  }

  progress() {
    this.movedAt = Date.now()
  }

  begin(kind) {
    const end = this.took.startTimer({ topic: this.topic, event_type: kind })
    return outcome => {
      end()
      this.counted.inc({ topic: this.topic, event_type: kind, outcome })
    }
  }

  follow(consumer) {
    const { events } = consumer
    this.paused = () => consumer.paused().reduce((sum, it) => sum + it.partitions.length, 0)
    consumer.on(events.FETCH_START, () => this.progress())
    consumer.on(events.HEARTBEAT, () => {
      this.heardAt = Date.now()
    })
    consumer.on(events.CRASH, () => this.crashes.inc())
    consumer.on(events.GROUP_JOIN, ({ payload }) => {
      this.joins.inc()
      this.partitions = Object.values(payload.memberAssignment).flat().length
    })
    consumer.on(events.FETCH, ({ payload }) => {
      const found = this.fetches.get(payload.nodeId) || []
      this.fetches.set(payload.nodeId, [...found, { at: Date.now(), seconds: payload.duration / 1000 }])
    })
  }
}

module.exports = { Metrics }
