// Long calls of one release of the SDK, each of a client of its own, whose server comes to harm.
//
//   node long.mjs '{"modules": DIR, "sdk": "2.4.0", "calls": [{"name", "http": URL, "revision", "tasks": true, "to": 60}]}'
//
// Each client calls a tool that counts, one number a second. A call without a session is sent again when it has failed. Each line of output is a JSON
// object with the client's name: {"attempt"} when the call is sent for the n-th time, with "progress" for each number, "task" for the
// id of the task that it has become, and "text" or "error" for its outcome; {"after"}, which a short call is answered with in the
// end; {"fault"} for what the client reports beside its calls; and {"done": true}. Nothing but the timeout of the calls is set.
import { later } from './expect.mjs'
import { load, modern } from './sdk.mjs'
import { open } from './session.mjs'

const { modules, sdk: release, calls } = JSON.parse(process.argv[2])
const sdk = await load(modules, release)

const say = (object) => process.stdout.write(JSON.stringify(object) + '\n')
const said = (error) => `${error?.code ?? ''} ${error?.message ?? error}`

process.on('unhandledRejection', (error) => say({ name: calls[0].name, fault: String(error?.stack ?? error) }))

// What a client reports when a connection breaks or cannot be made, and when a response comes to what it has given up.
const broken = [/SSE stream disconnected/, /fetch failed/, /terminated/, /Failed to reconnect/, /Failed to open/, /Maximum reconnection attempts/]
const aside = [...broken, /unknown token/, /unknown message ID/, /Failed to send cancellation/, /the connection has broken/]

// outcome is what a request comes to, or an error once the client reports that a connection has broken, which release 2.4.0 does not tell
// who waits for a request without a session.
async function outcome(session, request) {
  const before = session.errors.length
  let settled = false
  const watch = async () => {
    while (!settled) {
      const error = session.errors.slice(before).find((e) => broken.some((p) => p.test(e)))
      if (error) throw new Error(`the connection has broken: ${error}`)
      await later(50)
    }
  }
  return Promise.race([request.finally(() => { settled = true }), watch()])
}

// plain makes the call once, with the client alone.
async function plain(session, call, attempt) {
  const controller = new AbortController()
  const request = session.text('count', { to: call.to, delay_ms: 1000 }, {
    timeout: 600_000, signal: controller.signal,
    onprogress: (p) => say({ name: call.name, attempt, progress: p.progress }),
  })
  if (!session.way.modern) return request
  try {
    return await outcome(session, request)
  } catch (e) {
    request.catch(() => {})
    controller.abort('the connection has broken')
    throw e
  }
}

// follower makes the call once, with the package of tasks, whose requests go past the client's schemas.
function follower(session, call) {
  const dispatch = async (request) => {
    for (; ; await later(1000)) {
      try {
        const { result, error } = await outcome(session, session.raw(request))
        if (error?.data?.retryAfterMs && request.method === 'tasks/get') continue
        return error ? { kind: 'error', error } : { kind: 'result', result }
      } catch (e) {
        if (request.method !== 'tasks/get') throw e // another node is asked
      }
    }
  }
  const tasks = sdk.tasks.createTaskSessionFromClient(session.client, {
    endpointId: 'interop', rawDispatch: dispatch,
    v2RequestFraming: { protocolVersion: call.revision, clientInfo: { name: 'interop', version: '1.0.0' }, clientCapabilities: {} },
  })
  let attempt = 0, heard = 0
  setInterval(() => {
    const progress = session.told('notifications/progress').filter((p) => p.progressToken === call.name)
    for (; heard < progress.length; heard++) say({ name: call.name, attempt, progress: progress[heard].progress })
  }, 50).unref()
  return async (n) => {
    attempt = n
    const execution = await tasks.callTool('count', { to: call.to, delay_ms: 1000 }, { metadata: { progressToken: call.name } })
    if (execution.kind === 'task') say({ name: call.name, attempt, task: execution.handle.taskId })
    const { outcome } = await execution.settle()
    if (outcome.status && outcome.status !== 'completed') throw new Error(`the task is ${outcome.status}: ${JSON.stringify(outcome)}`)
    return outcome.result.content[0].text
  }
}

async function drive(call) {
  const { name, http, revision } = call
  const session = await open({ name, sdk, server: { http }, transport: 'http', revision, modern: modern(revision) }, { capabilities: {} })
  for (const pattern of aside) session.tolerate(pattern)
  const make = call.tasks ? follower(session, call) : (attempt) => plain(session, call, attempt)
  for (let attempt = 1, done = false; !done; attempt++) {
    say({ name, attempt })
    try {
      const text = await make(attempt)
      await later(100) // for what follower has yet to say
      say({ name, attempt, text })
      done = true
    } catch (e) {
      say({ name, attempt, error: said(e) })
      done = !modern(revision) || attempt === 20
      if (!done) await later(1000)
    }
  }
  say({ name, after: await session.text('echo', { text: 'still here' }) })
  for (const fault of session.faults) say({ name, fault })
}

await Promise.all(calls.map((call) => drive(call).catch((e) => say({ name: call.name, fault: String(e?.stack ?? e) }))))
say({ done: true })
process.exit(0)
