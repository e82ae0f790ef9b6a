// Drives a server with one release of the SDK: every transport it has, every revision it speaks, every feature.
//
//   node main.mjs '{"modules": DIR, "sdk": "1.32.2", "http": URL, "sse": URL, "mortal": URL, "command": PATH}'
//
// It writes one JSON object a line: {"way", "feature", "ms", "error"} for each outcome, {"restart": how} when it wants
// the server at "mortal" to "kill" or to "end" and to be started again, after which it waits for a line of input, and {"done": true}.
import { createInterface } from 'node:readline'

import { equal, later, patience } from './expect.mjs'
import asking from './features/asking.mjs'
import calls from './features/calls.mjs'
import catalogue from './features/catalogue.mjs'
import extTasks from './features/exttasks.mjs'
import handshake from './features/handshake.mjs'
import http from './features/http.mjs'
import modernOnly from './features/modern.mjs'
import notifications, { changes } from './features/notifications.mjs'
import interruptions from './features/restarts.mjs'
import tasks from './features/tasks.mjs'
import tools from './features/tools.mjs'
import { load, modern } from './sdk.mjs'
import { open } from './session.mjs'

const features = [...handshake, ...tools, ...calls, ...catalogue, ...asking, ...notifications, ...tasks, ...extTasks, ...http, ...modernOnly]
const only = process.argv[3] && new RegExp(process.argv[3]) // to try something by hand

const server = JSON.parse(process.argv[2])
const sdk = await load(server.modules, server.sdk)
const ways = Object.entries(sdk.transports).filter(([t, Transport]) => Transport && server[t === 'stdio' ? 'command' : t])
  .flatMap(([transport]) => sdk.revisions.filter((r) => transport !== 'sse' || !modern(r)).map((revision) => ({
    name: `${transport} ${revision}`, sdk, server, transport, revision, since: (r) => revision >= r, modern: modern(revision),
  })))

// What is marked modern is for revisions without sessions, too; "only" is for those alone.
const fits = (feature, way) => (way.modern ? feature.modern : feature.modern !== 'only') && (!feature.needs || feature.needs(way))

const say = (object) => process.stdout.write(JSON.stringify(object) + '\n')
const shown = (error) => String(error?.stack ?? error) + (error?.cause ? `\ncaused by ${error.cause.stack ?? error.cause}` : '')
const tell = (way, feature, began, error) => say({ way: way.name, feature, ms: Date.now() - began, ...(error && { error: shown(error) }) })

async function attempt(way, name, run) {
  if (only && !only.test(`${way.name} ${name}`)) return
  const began = Date.now()
  const hangs = later(2 * patience).then(() => { throw new Error('it hangs') })
  await Promise.race([run(), hangs]).then(() => tell(way, name, began), (error) => tell(way, name, began, error))
}

// An error that nobody waits for is one of the SDK's or of this program's, and must not pass unseen.
process.on('unhandledRejection', (error) => say({ way: 'any', feature: 'no error is left alone', error: shown(error) }))

// all runs the features on one session of the way, all at once.
async function all(way, features) {
  let session
  const began = Date.now()
  try {
    session = await open(way)
  } catch (error) {
    return tell(way, 'connect', began, error)
  }
  await Promise.all(features.map((f) => attempt(way, f.name, () => f.run(session, way))))
  await attempt(way, 'nothing else goes wrong', () => session.close())
}

// Some ways at a time are enough to keep the processors busy.
const queue = [...ways]
const busy = features.filter((f) => !f.calm)
await Promise.all(Array.from({ length: 3 }, async () => {
  for (let way; (way = queue.shift());) await all(way, busy.filter((f) => fits(f, way)))
}))

// What depends on time comes when there is little else to do.
const calm = Promise.all(ways.map((way) => [way, features.filter((f) => f.calm && fits(f, way))])
  .filter(([, features]) => features.length > 0).map(([way, features]) => all(way, features)))

// What concerns all sessions of a server comes after that.
const together = async (feature, ways, run) => {
  const began = Date.now()
  ways = ways.filter((w) => !only || only.test(`${w.name} ${feature}`))
  if (ways.length === 0) return
  const outcomes = await run(ways).catch((error) => ways.map(() => error))
  ways.forEach((way, i) => tell(way, feature, began, outcomes[i]))
}
await together(changes.name, ways.filter((w) => w.transport !== 'stdio'), async (ways) => {
  const sessions = await Promise.all(ways.map((way) => open(way)))
  const outcomes = await changes.run(sessions)
  await Promise.all(sessions.map((s) => s.close()))
  return outcomes
})
for (const way of ways.filter((w) => w.transport === 'stdio')) {
  await together(changes.name, [way], async () => {
    const session = await open(way)
    const outcomes = await changes.run([session])
    await session.close()
    return outcomes
  })
}
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
for (const { name, run } of server.mortal ? interruptions : []) {
  await together(name, ways.filter((w) => w.transport === 'http'), (ways) => run(ways, async (how) => {
    say({ restart: how })
    equal((await input.next()).value, 'restarted', 'the answer to a wish for a restart')
  }))
}
await calm
say({ done: true })
process.exit(0)
