// What the team's consumers have in common, whatever the library: settings, handlers, and the page.
'use strict'

const fs = require('fs')
const http = require('http')
const { Page } = require('./page')

const config = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))
let told = JSON.parse(fs.readFileSync(process.argv[3], 'utf8'))
setInterval(() => {
  try {
    told = JSON.parse(fs.readFileSync(process.argv[3], 'utf8'))
  } catch (error) {
    console.error(error.message)
  }
}, 300).unref()

const page = new Page(config)
http
  .createServer(async (_request, response) => {
    response.setHeader('Content-Type', page.register.contentType)
    response.end(await page.register.metrics())
  })
  .listen(Number(config.metrics_port), '127.0.0.1')

const sleep = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))

// Handle a record of an event type; throws if it cannot be handled. `hung` is called before a call that is never answered.
async function handle(kind, poisoned, sentMs, hung = () => {}) {
  const early = sentMs / 1000 + told.delay_seconds - Date.now() / 1000
  if (early > 0) await sleep(early) // not before its time
  const ended = page.begin(config.by_type ? kind : 'all')
  if (told.stalled.includes(config.client_id)) {
    hung()
    await new Promise(() => {}) // a call without a timeout
  }
  if (poisoned && told.poison === 'crash') {
    process.nextTick(() => {
      throw new TypeError('a property of undefined in the handler of a record')
    })
    await new Promise(() => {})
  }
  if (told.fails || (poisoned && told.poison)) {
    ended('retry')
    throw new Error('this record cannot be handled')
  }
  const usual = (told.process_seconds[kind] || 0) * (told.slower[config.client_id] || 1)
  await sleep(usual * (1 + told.jitter * (2 * Math.random() - 1)))
  ended('ok')
}

module.exports = { config, page, sleep, handle, behaviour: () => told, RETRY_SECONDS: 1 }
