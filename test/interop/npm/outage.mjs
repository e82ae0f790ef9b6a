// Sessions of one release of the SDK, with nothing set, under which the server goes away for a while.
//
//   node outage.mjs '{"modules": DIR, "sdk": "1.32.2", "http": URL, "pastimes": [{"name", "tool", "args", "result"}]}'
//
// When all sessions are open it writes {"connected": true} and waits for a line of input. Then each begins a call of its tool, if
// it has one, and {"busy": true} is written: the server may go away now. Another line says that it is back. For each session
// comes {"feature", "error", "resolved", "returned"}, the last two being when the call had its result and when streams were opened, in
// milliseconds since 1970; and {"done": true} in the end.
import { createInterface } from 'node:readline'

import { equal, until } from './expect.mjs'
import { load } from './sdk.mjs'
import { open } from './session.mjs'

const { modules, sdk: release, http, pastimes } = JSON.parse(process.argv[2])
const sdk = await load(modules, release)
const way = { name: 'http 2025-11-25', sdk, server: { http }, transport: 'http', revision: '2025-11-25' }

const say = (object) => process.stdout.write(JSON.stringify(object) + '\n')
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const line = async (want) => equal((await input.next()).value, want, 'a line of input')

process.on('unhandledRejection', (error) => say({ feature: 'no error is left alone', error: String(error?.stack ?? error) }))

// ticked calls a tool whose messages belong to no call, and waits for the last.
async function ticked(session, n) {
  await until(async () => !(await session.call('tick', { n })).isError, 'a message that belongs to no call can be sent')
  await until(() => session.told('notifications/message').some((m) => m.data === `${n} of ${n}` && m.logger === 'tick'), 'a message that belongs to no call')
}

// connect returns what makes the session busy; that returns what is to be awaited then.
async function connect({ tool, args, result }) {
  const returned = []
  const session = await open(way, { transport: { async fetch(url, init) {
    const response = await fetch(url, init)
    if (init?.method === 'GET' && response.status === 200) returned.push(Date.now())
    return response
  } } })
  await ticked(session, 1)
  // What is said of a connection that breaks, but not that it is given up.
  for (const pattern of [/SSE stream disconnected/, /Failed to reconnect/, /Failed to open/, /fetch failed/]) session.tolerate(pattern)
  const progress = () => session.told('notifications/progress').map((p) => p.progress)
  return async () => {
    let call, resolved, begun
    if (tool) {
      call = session.text(tool, args, { onprogress() {}, onresumptiontoken: () => { begun = true } })
      call.then(() => { resolved = Date.now() }, () => {})
      await until(() => begun && (tool !== 'count' || progress().includes(2)), 'the call begins')
    }
    return async (back) => {
      if (call) equal(await call, result, 'the result')
      if (tool === 'count') equal(progress(), Array.from({ length: args.to }, (_, i) => i + 1), 'progress')
      await back
      equal(await session.text('echo', { text: 'still here' }), 'still here', 'echo after the restart')
      await ticked(session, 2)
      await session.close()
      return { resolved, returned }
    }
  }
}

// A session that fails goes on to fail, and is told in the end.
const failing = (error) => async () => { throw error }
const connected = await Promise.all(pastimes.map((p) => connect(p).catch(failing)))
say({ connected: true })
await line('begin')
const busy = await Promise.all(connected.map((begin) => begin().catch(failing)))
say({ busy: true })
const back = line('back')
await Promise.all(busy.map((end, i) => end(back).then(
  (seen) => say({ feature: pastimes[i].name, ...seen }),
  (error) => say({ feature: pastimes[i].name, error: String(error?.stack ?? error) }))))
say({ done: true })
process.exit(0)
