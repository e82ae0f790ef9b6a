// A server that goes away under all clients at once and comes back.
import { equal, fails, holds, until } from '../expect.mjs'
import { open } from '../session.mjs'
import { broken, Interrupted, patient } from './http.mjs'
import { listening } from './notifications.mjs'

// Each yields an outcome for each way. how says how the server ends. Without sessions, other things go on.
const interruption = (name, how, during, after) => ({
  name,
  async run(ways, restart) {
    const failed = new Map()
    const each = (f) => Promise.all(ways.filter((w) => !failed.has(w)).map((w) => f(w).catch((e) => failed.set(w, e))))
    const state = new Map()
    await each(async (way) => {
      const session = await open(way, { endpoint: way.server.mortal, transport: patient })
      for (const pattern of broken) session.tolerate(pattern)
      if (way.modern) return void state.set(way, await parked(session, how))
      await listening(session)
      await session.client.subscribeResource({ uri: 'test://watched-resource' })
      state.set(way, { session, call: await during(session) })
    })
    await restart(how)
    await each(async (way) => {
      const { session, call, goesOn } = state.get(way)
      if (goesOn) return goesOn(how)
      await after(call)
      equal(await until(() => session.text('echo', { text: 'still here' }).catch(() => false), 'the server is back'), 'still here', 'echo after the restart')
      // The session's own stream begins with an update of what the client has subscribed to, because nobody knows what it has missed.
      await until(() => session.told('notifications/resources/updated').some((p) => p.uri === 'test://watched-resource'), 'an update of what was subscribed to')
      await session.close()
    })
    return ways.map((w) => failed.get(w))
  },
})

// parked begins calls of each kind: one that runs, and some that wait for answers of the client. goesOn checks what has become
// of them after the restart. The one that runs has time to end before a server that ends in order, and none before one that is killed.
async function parked(session, how) {
  session.tolerate(/unknown message ID[^]*"listen:/)
  session.tolerate(/terminated|other side closed|ECONNRESET|ECONNREFUSED/)
  const { client, answers } = session
  const restarted = deferred()
  let asked = 0
  const afterwards = (content) => async () => { asked++; await restarted.promise; return { action: 'accept', content } }
  answers.set('Step 1: What is your name?', { action: 'accept', content: { name: 'Grace' } })
  answers.set('Step 2: What is your favorite color?', afterwards({ color: 'blue' }))
  answers.set('Who?', afterwards({ answer: 'me' }))
  answers.set('Who, once?', afterwards({ answer: 'me' }))
  const listening = await client.listen({ toolsListChanged: true })
  const waiting = [session.text('test_input_required_result_multi_round'), session.text('ask', { question: 'Who?' }), session.call('ask_once', { question: 'Who, once?' })]
  const controller = new AbortController()
  const running = session.text('count', { to: how === 'end' ? 10 : 10000, delay_ms: 50 }, { onprogress() {}, signal: controller.signal })
  for (const call of [...waiting, running]) call.catch(() => {})
  await until(() => asked === waiting.length, 'the questions')
  await until(() => session.told('notifications/progress').some((p) => p.progress === 2), 'the call has begun')
  const goesOn = async (how) => {
    // What is fetched first after a restart may be sent on a connection that has ended.
    equal(await until(() => session.text('echo', { text: 'still here' }).catch(() => false), 'the server is back'), 'still here', 'echo after the restart')
    restarted.resolve()
    if (how === 'end') {
      equal(await running, 'counted to 10', 'a call that ends in time')
      // Of the cancellation and the response, which must and should come, the SDK looks at the first.
      equal(await listening.closed, 'remote', 'how the stream of changes ends')
      const ends = session.heard.filter((m) => m.params?.requestId !== undefined || /^listen/.test(m.id))
      equal(ends.map((m) => [m.method ?? m.result.resultType, m.params?.requestId ?? m.id]), [['notifications/cancelled', ends[1]?.id], ['complete', ends[1]?.id]], 'the end of the stream')
    } else {
      // The SDK does not tell who waits that the stream has broken off.
      await until(() => session.errors.some((e) => broken[0].test(e)), 'the client notices')
      controller.abort('it is lost')
      await fails(running, /it is lost/, 'a call that ran')
      equal(await listening.closed, 'remote', 'how the stream of changes ends')
    }
    equal(await waiting[0], 'Grace likes blue', 'a call in its second round')
    equal(await waiting[1], 'me', 'a call that asks')
    const once = await waiting[2].catch((e) => e)
    holds(once.code === -32010, `a call that may not run twice: ${once.code} ${JSON.stringify(once)}`)
    const again = await client.listen({ resourceSubscriptions: ['test://watched-resource'] })
    await session.text('touch', { uri: 'test://watched-resource' })
    await until(() => session.told('notifications/resources/updated').length > 0, 'an update')
    await again.close()
    await session.close()
  }
  return { goesOn }
}

function deferred() {
  const d = {}
  d.promise = new Promise((resolve, reject) => Object.assign(d, { resolve, reject }))
  return d
}

// interruptions are run one after the other: they share a server.
export default [
  interruption('a server that is killed and started again', 'kill', async (session) => {
    const call = new Interrupted(session, 40)
    await call.comesTo(5)
    return call
  }, (call) => call.ends()),
  // A call has time to end then.
  interruption('a server that ends in order and is started again', 'end', async (session) => {
    const call = session.text('count', { to: 10, delay_ms: 50 })
    await until(() => session.told('notifications/message').some((m) => m.data === '3 of 10'), 'the call has begun')
    return call
  }, async (call) => equal(await call, 'counted to 10', 'a call that ends in time')),
]
