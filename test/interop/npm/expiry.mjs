// Streams of one release of the SDK that go on for longer than the tokens with which they were opened.
//
//   node expiry.mjs '{"modules": DIR, "sdk": "2.4.0", "issuer": URL, "http": URL, "clients": [{"name", "refresh": "ahead", "run": "session"}]}'
//
// "refresh" is when a client has another token: "ahead" before the one that it has ends, as its provider of tokens sees to; "asked" when the server has refused that, and the SDK asks
// the provider for another one; and "after" when the server has refused it and the SDK refreshes it. "run" is what the client does: see runs. Each line of output is {"name", "error"}, and the last one {"done": true}.
import { Person } from './auth/person.mjs'
import { equal, holds, later, until } from './expect.mjs'
import { listening } from './features/notifications.mjs'
import { load } from './sdk.mjs'
import { open } from './session.mjs'

const { modules, sdk: release, issuer, http, clients } = JSON.parse(process.argv[2])
const sdk = await load(modules, release)

const say = (object) => process.stdout.write(JSON.stringify(object) + '\n')
process.on('unhandledRejection', (error) => say({ name: 'no error is left alone', error: String(error?.stack ?? error) }))

// leeway is how long a server takes a token that has ended, in milliseconds.
const leeway = 30_000

// What is sent takes longer than a token of 5 s, the leeway and the time that the SDK waits before it comes back.
const all = 110, every = 500
const numbered = Array.from({ length: all }, (_, i) => i + 1)

// Refreshing is the provider of a client that refreshes its token by itself. A refresh token counts once, and the SDK uses it for each stream that comes back at the same moment: they
// share a refresh here.
class Refreshing extends Person {
  saveTokens(tokens) {
    super.saveTokens(tokens)
    this.ends = Date.now() + 1000 * tokens.expires_in
  }

  refresh() {
    return this.refreshing ??= this.#refresh().finally(() => { this.refreshing = undefined })
  }

  async #refresh() {
    const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: this.saved.refresh_token, client_id: this.known.client_id, resource: http })
    const response = await fetch(`${issuer}/token`, { method: 'POST', body })
    const tokens = await response.json()
    holds(response.ok, `the refresh fails: ${JSON.stringify(tokens)}`)
    this.saveTokens({ ...this.saved, ...tokens })
  }
}

// Foresighted is the provider of a client that never sends a token which has ended.
class Foresighted extends Refreshing {
  async tokens() {
    if (this.saved && Date.now() > this.ends - 1000) await this.refresh()
    return this.saved
  }
}

// The providers by what "refresh" says: each a class for the sign-in, and what the transport gets then.
const providers = {
  ahead: [Foresighted, (p) => p],
  asked: [Refreshing, (p) => ({ token: async () => p.saved.access_token, onUnauthorized: () => p.refresh() })],
  after: [Person, (p) => p],
}

// Wire is between a client and the server. It keeps the requests that open streams.
class Wire {
  gets = [] // {at, id, status}: when, after which event, and what came of it
  calls = [] // the tools that are called
  ends = Infinity // when the first token did not count any more
  alone = false // the session gets no stream of its own, as long as nothing is resumed

  fetch = async (url, init) => {
    const headers = new Headers(init?.headers)
    const [, claims] = headers.get('authorization')?.split('.') ?? []
    if (claims) this.ends = Math.min(this.ends, 1000 * JSON.parse(Buffer.from(claims, 'base64url')).exp + leeway)
    const at = Date.now(), id = headers.get('last-event-id')
    if (init?.method === 'GET' && String(url) === http && this.alone && !id && this.gets.length === 0) return new Response(null, { status: 405 })
    const response = await fetch(url, init)
    if (String(url) !== http) return response
    if (init.method === 'GET') this.gets.push({ at, id, status: response.status })
    const { method, params } = init.body ? JSON.parse(init.body) : {}
    if (method === 'tools/call') this.calls.push(params.name)
    return response
  }

  get resumed() { return this.gets.filter((g) => g.id) }
}

async function connect({ refresh }, revision, wire = new Wire()) {
  const modern = revision === '2026-07-28'
  const way = { name: `http ${revision}`, sdk, server: { http }, transport: 'http', revision, modern }
  const [Provider, given] = providers[refresh]
  const provider = new Provider(issuer, { name: 'short', register: 'dcr' }) // the issuer gives clients of this name tokens of 5 s
  const first = new sdk.Client({ name: 'interop', version: '1.0.0' }, modern ? { versionNegotiation: { mode: { pin: revision } } } : {})
  const transport = new sdk.transports.http(new URL(http), { authProvider: provider })
  await first.connect(transport).then(() => { throw new Error('it is let in without a token') }, (error) => { if (!provider.asked) throw error })
  await provider.finish(transport)
  await first.close()
  const session = await open(way, { capabilities: {}, transport: { authProvider: given(provider), fetch: wire.fetch } })
  return { provider, wire, session }
}

const progress = (session) => session.told('notifications/progress').map((p) => p.progress)
const texts = (session, logger) => session.told('notifications/message').filter((m) => m.logger === logger && m.data.endsWith(` of ${all}`)).map((m) => m.data)
const count = (session, options) => session.text('count', { to: all, delay_ms: every }, { onprogress() {}, ...options })

// resumedByToken checks that streams were resumed, and none before its token had ended: nothing but that ends them here.
function resumedByToken(wire, least) {
  const after = new Set(wire.resumed.map((g) => g.id.split('.')[0]))
  holds(after.size >= least, `${least} streams or more are resumed: ${JSON.stringify(wire.gets)}`)
  const early = wire.resumed.filter((g) => g.at < wire.ends)
  equal(early, [], `streams that end before ${wire.ends}, with their token`)
}

const runs = {
  // session has a call with progress, a silent one, and messages on the session's own stream. Each of the three streams ends with its token and goes on.
  async session(client) {
    const { provider, wire, session } = await connect(client, '2025-11-25')
    await listening(session)
    const [counted, ticked] = await Promise.all([count(session), session.text('tick', { n: all, every_ms: every })])
    equal([counted, ticked], [`counted to ${all}`, `ticked ${all} times`], 'results')
    await until(() => texts(session, 'tick').length >= all, 'the messages of the session')
    await later(1000) // for what comes twice
    const said = numbered.map((n) => `${n} of ${all}`)
    equal(progress(session), numbered, 'progress')
    equal(texts(session, 'count'), said, 'messages of the call')
    equal(texts(session, 'tick'), said, 'messages of the session')
    resumedByToken(wire, 3)
    const refused = wire.gets.filter((g) => g.status === 401)
    equal([wire.gets.filter((g) => ![200, 401].includes(g.status)), provider.signIns], [[], 1], 'refusals of other kinds, and sign-ins')
    if (client.refresh === 'ahead') equal(refused, [], 'tokens that have ended')
    else {
      holds(refused.length > 0, 'no token is sent that has ended')
      for (const r of refused) holds(wire.gets.some((g) => g.status === 200 && g.id === r.id && g.at > r.at), `a stream is not resumed after ${r.id}, where its token was refused`)
    }
    await session.close()
  },

  // forgotten has a call whose stream is to be resumed with a token that has ended. Release 1.32.2 gets another token then, and opens a stream without the event id
  // (_authThenStart of client/streamableHttp.js), so that the call never ends. The program can resume it.
  async forgotten(client) {
    const alone = new Wire()
    alone.alone = true // or two streams would be refreshed at a time
    const { wire, session } = await connect(client, '2025-11-25', alone)
    let last
    const call = count(session, { onresumptiontoken: (id) => { last = id } })
    await until(() => last, 'the call has a stream')
    const stream = last.split('.')[0]
    const lost = await until(() => wire.resumed.find((g) => g.status === 401 && g.id.startsWith(`${stream}.`)), 'the stream is resumed with a token that has ended')
    await until(() => wire.gets.some((g) => g.status === 200 && !g.id && g.at > lost.at), 'a stream without an event id')
    equal(lost.id, last, 'the last event id')
    await session.transport.resumeStream(last)
    equal(await call, `counted to ${all}`, 'the result')
    await later(1000) // for what comes twice
    equal(progress(session), numbered, 'progress')
    equal(wire.resumed.filter((g) => g.status === 200 && g.id.startsWith(`${stream}.`)).length, 1, 'how often the stream is resumed')
    resumedByToken(wire, 1)
    await session.close()
  },

  // listener follows a resource, which is changed again as soon as an update has come. The server ends the stream with its token and says so, and nothing is stored of what no stream carries: the program
  // listens again. A call that goes on for longer is answered on its own response.
  async listener(client) {
    const { wire, session } = await connect(client, '2026-07-28')
    session.tolerate(/unknown message ID[^]*"listen:/) // the result after a cancellation
    const uri = `test://template/expiry-${client.name}/data`
    const updates = () => session.told('notifications/resources/updated').length
    const counted = count(session)
    let over
    const listen = async () => {
      const stream = await session.client.listen({ resourceSubscriptions: [uri] })
      over = undefined
      stream.closed.then((how) => { over = { how, at: Date.now() } })
      return stream
    }
    let stream = await listen(), ends = 0
    const reasons = () => session.heard.filter((m) => m.method === 'notifications/cancelled').map((m) => m.params.reason)
    const ended = [] // for each end: how long after the first token's, and what the server had said by then
    for (let n = 1, more = 20; more > 0; n++) {
      const before = updates()
      equal(before, n - 1, 'updates')
      await session.text('touch', { uri })
      await until(() => over || updates() === n, 'an update, or the end of the stream')
      if (over) {
        equal(over.how, 'remote', 'how the stream ends')
        holds(over.at >= wire.ends, `the stream ends before ${wire.ends}, with its token`)
        ends++
        ended.push({ after: over.at - wire.ends, reasons: reasons(), updates: updates() })
        stream = await listen()
        await later(500) // for what was on the way
        if (updates() === before) n--
      } else await later(200)
      if (ends > 0) more--
    }
    equal(reasons(), Array(ends).fill('token_expiry'), `why streams end: ${JSON.stringify(ended)}`)
    equal(await counted, `counted to ${all}`, 'the result of the call')
    equal(progress(session), numbered, 'progress')
    equal(wire.calls.filter((name) => name === 'count').length, 1, 'how often the call is sent')
    await stream.close()
    await session.close()
  },
}

await Promise.all(clients.map((client) => runs[client.run](client).then(() => say({ name: client.name }), (error) => say({ name: client.name, error: String(error?.stack ?? error) }))))
say({ done: true })
process.exit(0)
