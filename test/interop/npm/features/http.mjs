import { equal, fails, holds, until } from '../expect.mjs'
import { proxy } from '../proxy.mjs'
import { open } from '../session.mjs'
import { listening } from './notifications.mjs'

const numbers = (n) => Array.from({ length: n }, (_, i) => i + 1)
const http = (way) => way.transport === 'http'

// patient reconnects soon and does not give up.
export const patient = { reconnectionOptions: { initialReconnectionDelay: 50, maxReconnectionDelay: 200, reconnectionDelayGrowFactor: 1.2, maxRetries: 200 } }

// What a client reports when its connection breaks on purpose.
export const broken = [/SSE stream disconnected/, /Failed to reconnect/, /fetch failed/, /Failed to send cancellation/]

// resumes says whether the SDK resumes the stream of a call by itself; else its user does, with the token of the last event.
const resumes = (way) => !way.sdk.since('1.22.0') || way.sdk.since('1.32.2')

// Interrupted is a long call whose connection breaks while it runs.
export class Interrupted {
  progress = []
  tokens = []
  over = false
  #controller = new AbortController()

  constructor(session, to = 20) {
    for (const pattern of broken) session.tolerate(pattern)
    session.tolerate(/unknown token/)
    Object.assign(this, { session, to })
    this.options = { onprogress: (p) => this.progress.push(p.progress), onresumptiontoken: (t) => this.tokens.push(t) }
    this.call = session.text('count', { to, delay_ms: 40 }, { ...this.options, signal: this.#controller.signal })
    this.call.then(() => { this.over = true }, () => {}) // it may be given up
  }

  comesTo(n) { return until(() => this.progress.includes(n), () => `the call comes to ${n}: ${this.progress}`) }

  // ends waits for the result and checks that nothing was lost and nothing came twice.
  async ends() {
    const { session, to } = this
    let result = this.call
    if (!resumes(session.way)) {
      await until(() => session.errors.some((e) => broken[0].test(e)), 'the client notices')
      if (!this.over) result = this.again(this.tokens.at(-1)) // a slow client may have had its result before
    }
    equal(await result, `counted to ${to}`, 'the result')
    this.#controller.abort('it was resumed')
    equal(session.told('notifications/progress').filter((p) => p.total === to).map((p) => p.progress), numbers(to), 'progress')
  }

  // again asks for the rest of the call, from the event after that of the token.
  async again(resumptionToken) {
    for (; ; await until(() => true)) {
      try {
        return await this.session.text('count', { to: this.to }, { ...this.options, resumptionToken })
      } catch (e) {
        if (!/fetch failed/.test(String(e))) throw e
      }
    }
  }
}

export default [
  {
    name: 'a connection that breaks, resumption tokens',
    needs: http,
    async run(_, way) {
      const line = await proxy(way.server.http, '"progress":5')
      const session = await open(way, { endpoint: line.url, transport: patient })
      await listening(session)
      const call = new Interrupted(session)
      await call.comesTo(5)
      line.cut()
      await call.ends()
      // The session's own stream is back as well, where the SDK has an event to resume it from or opens another.
      const ticked = session.told('notifications/message').length
      await until(() => session.text('tick', { n: 2 }).catch(() => false), 'a call on a new connection') // fetch may take one that was cut first
      await until(() => session.told('notifications/message').length >= ticked + 2, 'messages on the stream of the session')
      await session.close()
      line.close()
    },
  },
  {
    name: 'a call resumed by another client',
    needs: http,
    async run(_, way) {
      const session = await open(way, { transport: patient })
      const call = new Interrupted(session)
      await call.comesTo(5)
      const { sessionId } = session.transport
      const other = await open(way, { transport: { ...patient, sessionId } })
      other.tolerate(/unknown token/)
      equal(await other.text('count', { to: 20 }, { resumptionToken: call.tokens[2] }), 'counted to 20', 'the result')
      const progress = other.told('notifications/progress').map((p) => p.progress)
      equal(progress, numbers(20).slice(20 - progress.length), 'progress')
      holds(progress.length >= 15, `progress from ${progress[0]} on came again`)
      other.closing = true
      await other.client.close()
      session.tolerate(/./)
      await session.close()
    },
  },
  {
    name: 'a call that gives up its connection',
    needs: http,
    async run(session) {
      equal(await session.text('test_reconnection'), 'Reconnection test completed successfully', 'the result')
    },
  },
  {
    name: 'end of the session',
    async run(_, way) {
      const session = await open(way)
      const { transport } = session
      const call = session.call('sleep', { ms: 3600000 }, { timeout: 3600000 })
      call.catch(() => {})
      equal(await session.text('echo', { text: 'a' }), 'a', 'echo')
      if (way.transport === 'http') {
        const { sessionId } = transport
        await transport.terminateSession()
        equal(transport.sessionId, undefined, 'the id of the session')
        session.tolerate(/./) // its streams have ended, and what follows fails
        await fails(session.text('echo', { text: 'b' }), /400|session/i, 'a call without a session')
        const other = await open(way, { transport: { sessionId } })
        other.tolerate(/./)
        await fails(other.client.ping(), /404|CLIENT_HTTP_NOT_IMPLEMENTED/, 'ping in the session that has ended')
        other.closing = true
        await other.client.close()
      }
      const child = transport._process
      await session.close()
      if (child) await until(() => child.exitCode !== null || child.signalCode !== null, 'the process ends')
      if (child) equal([child.exitCode, child.signalCode], [0, null], 'exit code and signal of the process')
      await fails(call, /./, 'a call when its session ends')
    },
  },
]
