// Has one release of the SDK take a walk through a server: see walk in walk_test.go, which says what is asked.
//
//   node walk.mjs '{"modules": DIR, "sdk": "2.4.0", "revision": "2025-11-25", "transport": "stdio", "server": {...}, "walk": {...}, "hosted": false}'
//
// "server" has "command", "args", "cwd" and "env" of a command, or the URL as "http" or "sse". Of a hosted server the program waits until its tools are
// known. Each line of output is a JSON object: {"Of", "Says", "Asked", "Progress", "Logs", "Updated"}, and {"done": true} at last.
import { later, patience, until } from './expect.mjs'
import { begin, settle } from './features/exttasks.mjs'
import { follow } from './features/tasks.mjs'
import { load, modern } from './sdk.mjs'
import { open } from './session.mjs'

const { modules, sdk: version, revision, transport, server, walk, hosted } = JSON.parse(process.argv[2])
const sdk = await load(modules, version)
const way = { name: `${transport} ${revision}`, sdk, server, transport, revision, modern: modern(revision), since: (r) => revision >= r }
const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, ...(walk.roots && { roots: { listChanged: true } }) }

const asked = []
const ids = new Set() // of the questions so far
let answer

// user answers what the client is asked. A release before 2.0 takes up the stream of a response that is an error, a second later, and one server of npm then
// sends all that it has sent meanwhile, on any stream, once more: without troupe such a question counts once.
function user(method, params, { requestId } = {}, accept) {
  if (hosted || requestId === undefined || !ids.has(requestId)) asked.push({ method, params })
  ids.add(requestId)
  const { action, content } = answer ?? { action: 'accept', content: { name: 'Ada' } }
  if (action === 'refuse') throw new (sdk.types.McpError ?? Error)(-31999, 'the user has left')
  return accept(action, content)
}

async function connect() {
  const client = way.modern ? { versionNegotiation: { mode: 'auto', probe: { timeoutMs: patience } } } : {}
  const session = await open(way, { capabilities, client, connect: { timeout: patience } })
  session.roots = [...walk.roots ?? []]
  session.elicit = (params, extra) => user('elicitation/create', params, extra, (action, content) => ({ action, ...(params.mode !== 'url' && content && { content }) }))
  session.sample = (params, extra) => user('sampling/createMessage', params, extra, () => ({ role: 'assistant', model: 'parrot', content: [params.messages[0].content].flat()[0] }))
  return session
}

let session = await connect()
for (; hosted && (await session.client.listTools()).tools.length === 0; session = await connect()) {
  await session.close()
  await later(10)
}
// What comes in one read with the result is handled after it. What else goes wrong without troupe, the server does: one of npm sends all that it has sent
// on any stream once more when one is resumed.
session.tolerate(hosted ? /progress notification for an unknown token/ : /./)
const { client } = session
const can = client.getServerCapabilities()

// say writes what came of a request.
async function say(of, request, told) {
  const outcome = await Promise.resolve(request).then((says) => ({ Says: says }), (e) => ({
    Says: { error: e.code === undefined ? String(e) : { code: e.code, message: sdk.named ? e.message : e.message.replace(/^MCP error -?\d+: /, ''), data: e.data ?? null } },
  }))
  process.stdout.write(JSON.stringify({ Of: of, ...outcome, Asked: asked.splice(0), ...told }) + '\n')
  return outcome.Says
}

const values = (name) => walk.values?.[name] ?? ['']
const read = (uri) => say(`resource ${uri}`, client.readResource({ uri }))

async function complete(ref, name, context) {
  if (!can.completions) return
  for (const value of values(name)) {
    const params = { ref, argument: { name, value }, ...(context && Object.keys(context).length > 0 && { context: { arguments: context } }) }
    await say(`completion ${ref.name ?? ref.uri} ${name} ${JSON.stringify(value)}`, client.complete(params))
  }
}

const seen = new Set()
async function resources(of, all) {
  const list = await say(of, client.listResources())
  for (const { uri } of list.resources) {
    if (all || !seen.has(uri)) await read(uri)
    seen.add(uri)
  }
}

async function lists() {
  await say('about', { serverInfo: client.getServerVersion(), instructions: client.getInstructions() })
  await say('tools', client.listTools())
  if (can.prompts) {
    const list = await say('prompts', client.listPrompts())
    for (const { name, arguments: wanted = [] } of list.prompts) {
      const args = walk.prompts?.[name]
      await say(`prompt ${name}`, client.getPrompt({ name, ...(args && { arguments: args }) }))
      await say(`prompt ${name} without arguments`, client.getPrompt({ name, arguments: {} }))
      for (const a of wanted) await complete({ type: 'ref/prompt', name }, a.name, Object.fromEntries(Object.entries(args).filter(([n]) => n !== a.name)))
    }
  }
  if (!can.resources) return
  await resources('resources', true)
  const list = await say('templates', client.listResourceTemplates())
  for (const { uriTemplate } of list.resourceTemplates) {
    const [, before, name, after] = /^(.*)\{(.*)\}(.*)$/.exec(uriTemplate)
    for (const value of values(name)) await read(before + value + after)
    await complete({ type: 'ref/resource', uri: uriTemplate }, name)
  }
  for (const uri of walk.reads ?? []) await read(uri)
}

// What was told before is what a step is not about, but for log messages, which come when they do.
const told = (method) => session.told(`notifications/${method}`)
const streams = new Map() // of subscriptions that have one each

const tasks = sdk.named ? begin(session, capabilities) : undefined // which the releases before 2.0 have of their own

// call calls a tool, as a task where the client knows tasks and the step wants one.
async function call({ call: name, args = {}, task, progress, logs }) {
  const { LOG_LEVEL_META_KEY } = sdk.types
  const params = { name, arguments: args, ...(logs && way.modern && { _meta: { [LOG_LEVEL_META_KEY]: 'debug' } }) }
  const options = progress && { onprogress: () => {} }
  if (task && tasks) {
    const { status, result, error } = await settle(await tasks.callTool(name, args, { task: { preference: 'prefer', retentionMs: 600_000 } }))
    if (status !== 'completed') throw error ?? new Error(`the task is ${status}`)
    return result
  }
  if (task) {
    const { result, error } = await follow(session, name, args)
    if (error) throw error
    return result
  }
  return sdk.named ? client.callTool(params, options) : client.callTool(params, undefined, options)
}

async function act(step) {
  if (step.call) return call(step)
  if (step.subscribe && way.modern) streams.set(step.subscribe, await client.listen({ resourceSubscriptions: [step.subscribe] }))
  else if (step.subscribe) await client.subscribeResource({ uri: step.subscribe })
  else if (step.unsubscribe && way.modern) await streams.get(step.unsubscribe).close()
  else if (step.unsubscribe) await client.unsubscribeResource({ uri: step.unsubscribe })
  else if (step.level) await client.setLoggingLevel(step.level)
  else if (step.addRoot) {
    session.roots.push(step.addRoot)
    await client.sendRootsListChanged()
  }
  return {}
}

async function take(step) {
  const { progress = 0, logs = [], updated = [], changed, again } = step
  const before = { progress: told('progress').length, updated: told('resources/updated').length, changed: told('resources/list_changed').length }
  const since = (method, n) => told(method).slice(n)
  const found = () => logs.map((part) => told('message').find(({ data }) => JSON.stringify(data).includes(part))).filter((m) => m)
  const there = () => since('progress', before.progress).length >= progress && found().length === logs.length &&
    updated.every((uri) => since('resources/updated', before.updated).some((p) => p.uri === uri)) && (!changed || told('resources/list_changed').length > before.changed)
  answer = step.answer
  let last = act(step)
  await last.catch(() => {})
  await until(async () => there() || (again && await (last = call(step)).then(there)), () => `${step.as}: there came only ${JSON.stringify(session.heard.slice(-5))}`)
  await say(step.as, last, { Progress: since('progress', before.progress).slice(0, progress), Logs: found(), Updated: updated })
  answer = undefined
}

if (way.modern && can.resources?.listChanged) await client.listen({ resourcesListChanged: true })
await lists()
for (const step of walk.steps) {
  // The task of server-everything asks. Directly the answer does not reach it from release 2.4.0 and its package, and over Streamable HTTP from none.
  if (step.task && !hosted && (sdk.named || transport === 'http')) continue
  if (!step.only || (step.only === 'modern') === way.modern) await take(step)
}
if (can.resources) await resources('resources after all', false)
await tasks?.close()
await session.close()
process.stdout.write('{"done": true}\n')
process.exit(0)
