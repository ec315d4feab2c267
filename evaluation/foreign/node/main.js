// Consumers as a team would write them, with prom-client's page.
//
//   node main.js CONFIG.json BEHAVIOUR.json
'use strict'

const { config } = require('./team')

require(`./${config.library}`).main().catch(error => {
  console.error(error)
  process.exit(1)
})
