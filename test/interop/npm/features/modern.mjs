// What is only in revisions without sessions: every request stands for itself, the server asks in its results, and changes
// are told on a stream that the client has opened for them.
import { equal, fails, holds, refused, until } from '../expect.mjs'
import { open } from '../session.mjs'

const only = 'only'
const declines = { action: 'decline' }
const fills = (content) => ({ action: 'accept', content })
const texts = (result) => result.content.map((c) => c.text)
const told = (session, what) => session.told(`notifications/${what}`)
const subscription = 'io.modelcontextprotocol/subscriptionId'

// stream keeps what comes on a stream of changes, by the id that the client has given it.
const stream = (session, id) => session.heard.filter((m) => m.params?._meta?.[subscription] === id)

export default [
  {
    name: 'server/discover, choice of the revision',
    modern: only,
    async run(session, way) {
      const capabilities = { completions: {}, extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true }, 'io.modelcontextprotocol/tasks': {}, 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } }, logging: {}, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true }, tools: { listChanged: true } }
      const instructions = 'A demonstration of every feature. Start with the tools echo, count and ask.'
      const { client } = session
      const known = async (c) => {
        equal([c.getNegotiatedProtocolVersion(), c.getProtocolEra()], [way.revision, 'modern'], 'the revision')
        equal([c.getServerVersion(), c.getServerCapabilities(), c.getInstructions()],
          [{ name: 'everything', title: 'Troupe: everything', version: '1.0.0' }, capabilities, instructions], 'what the client knows of the server')
      }
      await known(client)
      const { supportedVersions } = await client.discover()
      equal(supportedVersions, ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'], 'the revisions of the server')
      // A client that insists, one that knows the answer already, and one that speaks an older revision.
      for (const versionNegotiation of [{ mode: { pin: way.revision } }, { mode: 'auto' }]) {
        const other = await open(way, { client: { versionNegotiation } })
        await known(other.client)
        equal(await other.text('echo', { text: 'hello' }), 'hello', 'echo')
        await other.close()
      }
      const prior = await open(way, { connect: { prior: { kind: 'modern', discover: client.getDiscoverResult() } } })
      await known(prior.client)
      equal(prior.heard.length, 0, 'what came before the first request')
      equal(await prior.text('echo', { text: 'hello' }), 'hello', 'echo')
      await prior.close()
      const older = { ...way, modern: false, revision: '2025-11-25' }
      const before = await open(older, { client: { versionNegotiation: { mode: 'legacy' } } })
      equal([before.client.getNegotiatedProtocolVersion(), before.client.getProtocolEra()], ['2025-11-25', 'legacy'], 'the older revision')
      equal(await before.text('echo', { text: 'hello' }), 'hello', 'echo')
      await before.close()
      const unknown = open(way, { client: { versionNegotiation: { mode: { pin: '2027-01-01' } }, supportedProtocolVersions: ['2027-01-01'] } })
      await fails(unknown, /./, 'a revision that the server does not know')
    },
  },
  {
    name: 'capabilities not declared',
    modern: only,
    async run(_, way) {
      const bare = await open(way, { capabilities: {} })
      const needs = {
        ask: { elicitation: { form: {} } }, test_elicitation: { elicitation: { form: {} } }, visit: { elicitation: { url: {} } },
        test_sampling: { sampling: {} }, test_missing_capability: { sampling: {} }, delegate: { sampling: { tools: {} } }, roots: { roots: {} },
      }
      for (const [tool, requiredCapabilities] of Object.entries(needs)) {
        const error = await refused(bare.call(tool, {}), -32021, /the client must declare: /, tool)
        holds(error instanceof way.sdk.types.MissingRequiredClientCapabilityError, `${tool}: the error is not the one of the SDK`)
        equal(error.data, { requiredCapabilities }, tool)
      }
      equal(await bare.text('test_input_required_result_capabilities'), 'the client can answer nothing', 'a tool that asks for what there is')
      equal(await bare.text('echo', { text: 'still here' }), 'still here', 'echo after that')
      await bare.close()
      const some = await open(way, { capabilities: { roots: {}, elicitation: { form: {} } } })
      some.answers.set('What is your name?', fills({ name: 'Ada' }))
      equal(await some.text('test_input_required_result_capabilities'), 'asked 2 questions', 'the same with some capabilities')
      await some.close()
    },
  },
  {
    name: 'roots',
    modern: only,
    async run(_, way) {
      const session = await open(way)
      for (const roots of [['file:///home/me'], ['file:///home/you', 'file:///tmp/%E4%B8%96'], []]) {
        session.roots = roots.map((uri, i) => i ? { uri, name: `root ${i}` } : { uri })
        equal(await session.text('roots'), roots.join('\n'), 'roots')
      }
      await session.close()
    },
  },
  {
    name: 'elicitation by URL',
    modern: only,
    async run(session) {
      session.answers.set('Please open this page.', { action: 'accept' })
      equal(await session.text('visit', { url: 'https://example.com/x' }), 'the user said accept', 'the visit')
      const { elicitationId, ...asked } = session.asked.find((p) => p.mode === 'url')
      equal(asked, { mode: 'url', message: 'Please open this page.', url: 'https://example.com/x' }, 'what the user was asked')
      session.answers.set('Please open this page.', declines)
      equal(await session.text('visit', { url: 'https://example.com/x' }), 'the user said decline', 'a visit that the user does not want')
    },
  },
  {
    name: 'questions of several rounds, and several at once',
    modern: only,
    async run(_, way) {
      const session = await open(way)
      const { answers, asked, client } = session
      const tool = (name) => session.text(`test_input_required_result_${name}`)
      answers.set('What is your name?', fills({ name: 'Ada 世界' }))
      answers.set('Step 1: What is your name?', fills({ name: 'Grace' }))
      answers.set('Step 2: What is your favorite color?', fills({ color: 'blue' }))
      answers.set('Please confirm', fills({ ok: true }))
      answers.set('What context should the prompt use?', fills({ context: 'the sea' }))
      equal(await tool('elicitation'), 'Hello, Ada 世界!', 'one question')
      equal(await tool('sampling'), 'What is the capital of France?', 'one for the model')
      equal(await tool('list_roots'), 'file:///home/me', 'one for the roots')
      equal(await tool('request_state'), 'state-ok: the user said true', 'a question with a state')
      equal(await tool('multiple_inputs'), 'Generate a greeting Ada 世界 works in file:///home/me', 'three at once')
      equal(await tool('capabilities'), 'asked 3 questions', 'as many as the client can answer')
      asked.length = 0
      equal(await tool('multi_round'), 'Grace likes blue', 'two rounds')
      equal(asked.map((p) => p.message), ['Step 1: What is your name?', 'Step 2: What is your favorite color?'], 'each is asked once')
      equal((await client.getPrompt({ name: 'test_input_required_result_prompt' })).messages,
        [{ role: 'user', content: { type: 'text', text: 'Use this context: the sea' } }], 'a prompt that asks')
      for (const answer of [declines, { action: 'cancel' }]) {
        answers.set('Step 2: What is your favorite color?', answer)
        const result = await session.call('test_input_required_result_multi_round')
        equal([result.isError, texts(result)], [true, [`the user did not answer: ${answer.action}`]], 'a second round without an answer')
      }
      await session.close()
    },
  },
  {
    name: 'questions answered by hand',
    modern: only,
    async run(session, way) {
      const call = (params, name = 'test_input_required_result_multi_round') =>
        session.client.request({ method: 'tools/call', params: { name, arguments: {}, ...params } },
          { allowInputRequired: true })
      const asks = (result, what) => {
        holds(way.sdk.types.isInputRequiredResult(result), `${what}: nothing is asked: ${JSON.stringify(result)}`)
        return Object.entries(result.inputRequests).map(([key, r]) => [key, r.method, r.params.message])
      }
      const first = await call()
      equal(asks(first, 'the first round'), [['step1', 'elicitation/create', 'Step 1: What is your name?']], 'the first round')
      const answered = { requestState: first.requestState, inputResponses: { step1: fills({ name: 'Ada' }) } }
      const second = await call(answered)
      equal(asks(second, 'the second round'), [['step2', 'elicitation/create', 'Step 2: What is your favorite color?']], 'the second round')
      const done = await call({ requestState: second.requestState, inputResponses: { step2: fills({ color: 'green' }) } })
      equal(texts(done), ['Ada likes green'], 'the result')
      // An answer that is missing is asked for again; a state that the server has not made, or has had, is refused.
      const again = await call()
      const other = await call({ requestState: again.requestState, inputResponses: {} })
      equal(asks(other, 'no answer').map(([key]) => key), ['step1'], 'no answer')
      const state = other.requestState
      await refused(call(answered), -32602, /./, 'the state of a call that has ended')
      for (const bad of ['nonsense', state.slice(0, -4) + (state.endsWith('AAAA') ? 'BBBB' : 'AAAA')]) {
        await refused(call({ ...answered, requestState: bad }), -32602, /./, `the state ${bad.slice(0, 20)}`)
      }
      await refused(call({ ...answered, requestState: state }, 'test_input_required_result_elicitation'), -32602, /./, 'the state of another tool')
      equal(asks(await call({ ...answered, requestState: state }), 'the second round')[0][0], 'step2', 'the second round')
    },
  },
  {
    name: 'questions that the client fails to answer',
    modern: only,
    async run(_, way) {
      const session = await open(way)
      session.tolerate(/./)
      session.answers.set('What is your name?', () => { throw new way.sdk.types.ProtocolError(-31999, 'the user has left') })
      await fails(session.call('test_input_required_result_elicitation'), /the user has left/, 'a question that the client fails to answer')
      let asked = 0
      const controller = new AbortController()
      session.answers.set('Please confirm', () => { asked++; controller.abort('no more need'); return fills({ ok: true }) }) // nobody wants it any more
      await fails(session.call('test_input_required_result_request_state', {}, { signal: controller.signal }), /no more need/, 'a call cancelled while it asks')
      equal(asked, 1, 'how often was asked')
      const limited = await open(way, { client: { inputRequired: { maxRounds: 1 } } })
      limited.answers.set('Step 1: What is your name?', fills({ name: 'Grace' }))
      limited.answers.set('Step 2: What is your favorite color?', fills({ color: 'blue' }))
      await fails(limited.call('test_input_required_result_multi_round'), /INPUT_REQUIRED_ROUNDS_EXCEEDED/, 'more rounds than the client wants')
      await limited.close()
      equal(await session.text('echo', { text: 'still here' }), 'still here', 'echo after that')
      await session.close()
    },
  },
  {
    name: 'log level of a request',
    modern: only,
    async run(_, way) {
      const session = await open(way, { capabilities: {} })
      const { LOG_LEVEL_META_KEY } = way.sdk.types
      const count = (to, level) => session.client.callTool({ name: 'count', arguments: { to }, ...(level && { _meta: { [LOG_LEVEL_META_KEY]: level } }) })
      const logs = () => told(session, 'message').map(({ level, logger, data }) => [level, logger, data])
      const lines = (n) => Array.from({ length: n }, (_, i) => ['info', 'count', `${i + 1} of ${n}`])
      for (const level of [undefined, 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']) await count(2, level)
      for (const level of ['debug', 'info']) await count(3, level)
      await until(() => logs().length >= 6, 'six log messages')
      equal(logs(), [...lines(3), ...lines(3)], 'log messages')
      await refused(count(2, 'loud'), -32602, /./, 'an unknown level')
      await session.close()
    },
  },
  {
    name: 'arguments in headers',
    modern: only,
    needs: (way) => way.transport === 'http',
    async run(_, way) {
      const sent = []
      const session = await open(way, { transport: { fetch: (url, init) => { sent.push(new Headers(init.headers)); return fetch(url, init) } } })
      const region = (r, options) => session.text('test_x_mcp_header', { region: r }, options)
      const header = () => sent.at(-1).get('mcp-param-region')
      // The client has not seen the schema at first: it is refused, looks at the schema, and calls again.
      equal(await region('eu-west'), 'region: eu-west', 'a header that the client learns of')
      await session.client.listTools()
      for (const r of ['us-east', '', ' padded ', '世界', 'a=b;c', '=?base64?eA==?=', 'two\nlines', 'é']) {
        equal(await region(r), `region: ${r}`, 'the argument')
        holds(header() !== null, `${JSON.stringify(r)} was sent in no header`)
      }
      equal(await session.text('test_x_mcp_header'), 'region: ', 'no argument')
      equal(header(), null, 'the header without the argument')
      equal([sent.at(-1).get('mcp-method'), sent.at(-1).get('mcp-name'), sent.at(-1).get('mcp-protocol-version')], ['tools/call', 'test_x_mcp_header', way.revision], 'the other headers')
      equal(sent.some((h) => h.has('mcp-session-id')), false, 'whether there is a session')
      await session.close()
    },
  },
  {
    name: 'how long answers may be kept',
    modern: only,
    async run(_, way) {
      const session = await open(way)
      const { client } = session
      const shared = (r) => [r.ttlMs, r.cacheScope]
      equal(shared(await client.discover()), [0, 'public'], 'server/discover')
      const lists = [() => client.listTools(), () => client.listPrompts(), () => client.listResources(), () => client.listResourceTemplates()]
      for (const list of lists) equal(shared(await list()), [0, 'public'], 'a list')
      equal(shared(await client.readResource({ uri: 'test://static-text' })), [0, 'private'], 'a resource')
      // Nothing may be taken for fresh, so the client asks each time.
      const before = session.heard.length
      await client.listPrompts()
      await client.listPrompts()
      equal(session.heard.length - before, 2, 'how often two lists were asked for')
      await session.close()
    },
  },
  {
    name: 'resources/subscribe, updated, unsubscribe',
    modern: only,
    async run(_, way) {
      const session = await open(way)
      const own = way.name.replaceAll(' ', '-')
      const uri = (n) => `test://template/${own}-${n}/data`
      const updates = (n) => told(session, 'resources/updated').filter((p) => p.uri === uri(n)).length
      const first = await session.client.listen({ resourceSubscriptions: [uri(1), uri(2)] })
      equal(first.honoredFilter, { resourceSubscriptions: [uri(1), uri(2)] }, 'what the server tells')
      const second = await session.client.listen({ resourceSubscriptions: [uri(3)] })
      await session.text('touch', { uri: `${uri(1)}/other` })
      for (const n of [1, 2]) {
        await session.text('touch', { uri: uri(n) })
        await until(() => updates(n) === 1, 'an update')
      }
      await first.close()
      equal(await first.closed, 'local', 'how the stream ends')
      await session.text('touch', { uri: uri(1) })
      // What came of that would come before this.
      await session.text('touch', { uri: uri(3) })
      await until(() => updates(3) === 1, 'an update on the other stream')
      equal([updates(1), told(session, 'resources/updated').length], [1, 3], 'updates')
      const ids = new Set(told(session, 'resources/updated').map((p) => p._meta[subscription]))
      equal(ids.size, 2, 'the streams that they came on')
      for (const id of ids) equal(stream(session, id)[0].method, 'notifications/subscriptions/acknowledged', 'what comes first on a stream')
      // A signal ends a stream, too.
      const controller = new AbortController()
      const third = await session.client.listen({ resourceSubscriptions: [uri(4)] }, { signal: controller.signal })
      controller.abort('no more need')
      equal(await third.closed, 'local', 'how a stream ends by a signal')
      await second.close()
      await fails(session.client.subscribeResource({ uri: uri(1) }), /METHOD_NOT_SUPPORTED_BY_PROTOCOL_VERSION/, 'the request of older revisions')
      await session.close()
    },
  },
  {
    name: 'end of the session',
    modern: only,
    needs: (way) => way.transport === 'stdio',
    async run(_, way) {
      const session = await open(way)
      const child = session.transport._process
      const call = session.call('sleep', { ms: 3600000 }, { timeout: 3600000 })
      const listening = await session.client.listen({ toolsListChanged: true })
      call.catch(() => {})
      equal(await session.text('echo', { text: 'a' }), 'a', 'echo')
      await session.close()
      await until(() => child.exitCode !== null || child.signalCode !== null, 'the process ends')
      equal([child.exitCode, child.signalCode], [0, null], 'exit code and signal of the process')
      await fails(call, /./, 'a call when its server ends')
      holds(await listening.closed !== undefined, 'the stream has ended')
    },
  },
  {
    name: 'lists that the client keeps up to date',
    modern: only,
    needs: (way) => way.transport === 'stdio', // where nobody else sees the change
    async run(_, way) {
      const lists = { tools: [], prompts: [] }
      const kept = (what) => ({ debounceMs: 0, onChanged: (error, items) => lists[what].push(error ?? items.some((i) => i.name === 'extra')) })
      const session = await open(way, { handlers: false, client: { listChanged: { tools: kept('tools'), prompts: kept('prompts') } } })
      equal(session.client.autoOpenedSubscription.honoredFilter, { toolsListChanged: true, promptsListChanged: true }, 'what the server tells')
      for (const what of ['tools', 'prompts']) {
        for (const [done, there] of [['added', true], ['removed', false]]) {
          equal(await session.text('change', { what }), done, `change ${what}`)
          await until(() => lists[what].at(-1) === there, () => `the ${what} once one is ${done}: ${lists[what]}`)
        }
      }
      await session.close()
    },
  },
]

// listen has the session hear of all changes of lists.
export async function listen(session) {
  const all = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
  equal((await session.client.listen(all)).honoredFilter, all, 'what the server tells')
}
