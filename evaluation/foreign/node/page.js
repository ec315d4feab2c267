// What the team shows of its handlers; each library adds what it tells.
'use strict'

const client = require('prom-client')

const RECENT_MS = 10000

class Page {
  constructor(config) {
    this.client = client
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
  }

  begin(kind) {
    const end = this.took.startTimer({ topic: this.topic, event_type: kind })
    return outcome => {
      end()
      this.counted.inc({ topic: this.topic, event_type: kind, outcome })
    }
  }

  counter(name, help) {
    return new client.Counter({ name, help, registers: [this.register] })
  }

  gauge(name, help, value) {
    return new client.Gauge({
      name, help, registers: [this.register],
      collect() {
        this.set(value())
      },
    })
  }

  // Means of the last 10 s, by broker; none without a request lately.
  means(name, help) {
    const moments = new Map()
    new client.Gauge({
      name, help, labelNames: ['broker'], registers: [this.register],
      collect() {
        this.reset()
        for (const [broker, found] of moments) {
          const recent = found.filter(it => Date.now() - it.at < RECENT_MS)
          moments.set(broker, recent)
          if (recent.length) this.set({ broker }, recent.reduce((sum, it) => sum + it.seconds, 0) / recent.length)
        }
      },
    })
    return (broker, seconds) => moments.set(broker, [...(moments.get(broker) || []), { at: Date.now(), seconds }])
  }
}

module.exports = { Page }
