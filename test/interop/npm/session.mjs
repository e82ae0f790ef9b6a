// A session: a client of the SDK on one of its transports, with what it was sent and what went wrong.
import { equal } from './expect.mjs'

// Everything a client can declare. The SDK refuses to declare nothing that it does not know; the server does not look at
// what the revision does not have.
const everything = {
  roots: { listChanged: true },
  sampling: { tools: {} },
  elicitation: { form: {}, url: {} },
}

// The notifications that an SDK may know.
const notifications = {
  message: 'LoggingMessage', 'resources/updated': 'ResourceUpdated', 'resources/list_changed': 'ResourceListChanged',
  'prompts/list_changed': 'PromptListChanged', 'tools/list_changed': 'ToolListChanged', 'elicitation/complete': 'ElicitationComplete',
  'tasks/status': 'TaskStatus',
}

// What a client reports of its session when that has ended.
const gone = /Failed to open SSE stream: Not Found|unknown session/

// unhurried is how long a request may take, in place of the SDK's minute: what a busy machine needs is no fault.
const unhurried = 600_000

// open connects a client the way that is given: an SDK, a transport and a revision. Options: capabilities, and what the
// transport takes (reconnectionOptions, sessionId), what the client and its function connect take, handlers (false
// for none of notifications), questions (false where others answer them), and where to find the server when not at its own place.
export async function open(way, options = {}) {
  const session = new Session(way, options.capabilities ?? everything, options)
  await session.connect(options)
  return session
}

class Session {
  heard = [] // the messages that came, as the transport gave them to the client
  errors = [] // what the client reported beside the outcomes of requests
  roots = [{ uri: 'file:///home/me', name: 'me' }]
  asked = [] // the params of the questions to model and user
  answers = new Map() // what the user answers, by the message of the question; it may be a function
  #tolerated = []
  #raw = new Map() // who waits for the response to a request that the client knows nothing of, by its id
  #rawCount = 0

  constructor(way, capabilities, { client, handlers = true, questions = true }) {
    this.way = way
    const { Client, types, named } = way.sdk
    this.client = new Client({ name: 'interop', version: '1.0.0' }, { capabilities, ...(way.modern && { versionNegotiation: { mode: 'auto' } }), ...client })
    // What all functions of the client send their requests by, each release in its way.
    const by = named ? '_requestWithSchema' : 'request'
    const request = this.client[by].bind(this.client)
    this.client[by] = (message, schema, options) => request(message, schema, { timeout: unhurried, ...options })
    this.client.onerror = (e) => this.closing || (this.ending && gone.test(e)) || this.errors.push(String(e?.stack ?? e))
    // With a handler the SDK checks what comes by its own schema. What it has no schema for should not come at all.
    const schema = (method, name) => named ? method : types[name]
    for (const [method, name] of Object.entries(handlers ? notifications : {})) {
      const known = schema(`notifications/${method}`, `${name}NotificationSchema`)
      if (known) this.client.setNotificationHandler(known, () => {})
    }
    this.client.fallbackNotificationHandler = async (n) => { throw new Error(`a notification that the SDK does not know: ${JSON.stringify(n)}`) }
    this.client.fallbackRequestHandler = async (r) => { throw new Error(`a request that the SDK does not know: ${JSON.stringify(r)}`) }
    if (!questions) return
    if (capabilities.roots) this.client.setRequestHandler(schema('roots/list', 'ListRootsRequestSchema'), () => ({ roots: this.roots }))
    if (capabilities.sampling) this.client.setRequestHandler(schema('sampling/createMessage', 'CreateMessageRequestSchema'), (r, x) => this.sample(r.params, x))
    const elicit = schema('elicitation/create', 'ElicitRequestSchema')
    if (capabilities.elicitation && elicit) this.client.setRequestHandler(elicit, (r, x) => this.elicit(r.params, x))
  }

  async connect({ endpoint, transport = {}, connect }) {
    const { sdk, server } = this.way
    const Transport = sdk.transports[this.way.transport]
    this.transport = this.way.transport === 'stdio'
      ? new Transport({ stderr: 'inherit', args: ['stdio', '--set', 'conformance=true', '--set', 'page-size=7', '--set', 'log-rate=1000000'], ...server.line ?? { command: server.command } })
      : new Transport(new URL(endpoint ?? server[this.way.transport]), transport)
    this.#listen()
    await this.client.connect(this.transport, connect)
  }

  // #listen puts the session between the client and its transport: it keeps what comes, and asks for the revision that is
  // wanted where the SDK would ask for its latest.
  #listen() {
    const { transport, heard } = this
    let deliver
    Object.defineProperty(transport, 'onmessage', {
      get: () => deliver,
      set: (f) => {
        deliver = f && ((message, ...more) => {
          const raw = this.#raw.get(message.id)
          if (raw && !message.method) {
            this.#raw.delete(message.id)
            return raw(message)
          }
          if (heard.at(-1) !== message) heard.push(message) // a client may put one function before the other
          return f(message, ...more)
        })
      },
    })
    const send = transport.send.bind(transport)
    transport.send = (message, ...more) => {
      if (message.method === 'initialize') message = { ...message, params: { ...message.params, protocolVersion: this.way.revision } }
      return send(message, ...more)
    }
  }

  // sample is the client's model: it repeats what it is told, or calls the first tool it is given.
  sample(params) {
    this.asked.push(params)
    const { messages, tools } = params
    return {
      model: 'parrot', role: 'assistant',
      ...tools ? { stopReason: 'toolUse', content: [{ type: 'tool_use', id: '1', name: tools[0].name, input: { what: 'it' } }] } : { content: messages[0].content },
    }
  }

  // elicit is the client's user.
  elicit(params, extra) {
    this.asked.push(params)
    const answer = this.answers.get(params.message)
    if (answer === undefined) throw new Error(`a question that nobody expects: ${JSON.stringify(params)}`)
    return typeof answer === 'function' ? answer(params, extra) : answer
  }

  // told are the params of the notifications of a method that have come.
  told(method) {
    return this.heard.filter((m) => m.method === method && m.id === undefined).map((m) => m.params)
  }

  call(name, args, options) {
    const params = { name, ...(args && { arguments: args }) }
    return this.way.sdk.named ? this.client.callTool(params, options) : this.client.callTool(params, undefined, options)
  }

  // request sends what the client has no function for.
  request(request) {
    const { types, named } = this.way.sdk
    const anything = { '~standard': { version: 1, vendor: 'interop', validate: (value) => ({ value }) } }
    return this.client.request(request, named ? anything : types.ResultSchema)
  }

  // raw sends a request past the client, whose schemas know nothing of its result, and returns the response. An error of the
  // transport is that of the request.
  async raw(request) {
    const id = `raw-${++this.#rawCount}`
    const response = new Promise((resolve) => this.#raw.set(id, resolve))
    await this.transport.send({ jsonrpc: '2.0', id, ...request })
    return response
  }

  // page asks for one page of the tools.
  page(cursor) {
    if (!this.way.sdk.named || cursor) return this.client.listTools(cursor && { cursor })
    return this.client.request({ method: 'tools/list' }) // the function would ask for all of them
  }

  // text calls a tool that answers with one text, and returns that.
  async text(name, args, options) {
    const result = await this.call(name, args, options)
    equal(result.content?.map((c) => c.type), ['text'], `${name} ${JSON.stringify(args)?.slice(0, 100)}: content of ${JSON.stringify(result).slice(0, 300)}`)
    equal(result.isError ?? false, false, `${name} has failed: ${result.content[0].text}`)
    return result.content[0].text
  }

  // tolerate lets errors pass that fit a pattern: those that are the client's own, or of what a feature does on purpose.
  tolerate(pattern) { this.#tolerated.push(pattern) }

  get faults() { return this.errors.filter((e) => !this.#tolerated.some((p) => p.test(e))) }

  async close() {
    if (this.closing) return
    // A client may resume the stream of a call that was given up, or answer a question, when its session has ended and it has not.
    this.ending = true
    if (this.transport.terminateSession) await this.transport.terminateSession()
    this.closing = true
    await this.client.close()
    equal(this.faults, [], 'the client reported errors')
  }
}
