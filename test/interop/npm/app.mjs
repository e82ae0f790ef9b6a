// A host of MCP Apps, with the client and the bridge of ext-apps: it finds the page of a tool, runs the page's script, calls the
// tool, and has the page show the result, in the theme of the host. The page has no browser around it but a bare document.
//
// node app.mjs '{"modules":"<cache>/node_modules","http":"http://127.0.0.1:8080/mcp","revision":"2026-07-28","page":"measure"}'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import vm from 'node:vm'
import { equal, holds, until } from './expect.mjs'

const { modules, http, revision, page } = JSON.parse(process.argv[2])
const load = (...path) => import(pathToFileURL(join(modules, '@modelcontextprotocol', ...path)))
const { Client, StreamableHTTPClientTransport } = await load('client', 'dist', 'index.mjs')
const { AppBridge, McpUiHostContextSchema, buildAllowAttribute, getToolUiResourceUri, isToolVisibilityAppOnly } = await load('ext-apps', 'dist', 'src', 'app-bridge.js')
const { EXTENSION_ID, RESOURCE_MIME_TYPE } = await load('ext-apps', 'dist', 'src', 'server', 'index.js')

// The pages, and what each of them shows.
const number = (id) => Number(/\d+$/.exec(element(id).textContent)?.[0])
const pages = {
  // that of the demo
  measure: {
    uri: 'ui://everything/measure', tool: 'measure', args: { text: 'ab 世界🎭\n' }, others: [],
    async shows() {
      equal(element('measures').rows.map((cells) => cells.map((c) => c.textContent)), [[14, 'bytes'], [7, 'characters'], [2, 'words']], 'what the page shows')
    },
  },
  // that of examples/apps, whose buttons call a tool that the model does not see
  votes: {
    uri: 'ui://drinks/votes', tool: 'drinks', args: {}, others: ['vote'],
    async shows() {
      const before = number('coffee')
      equal([number('tea'), before >= 0], [0, true], 'the votes')
      element('coffee').onclick()
      await until(() => number('coffee') > before, 'the page shows the vote') // other hosts vote, too
    },
  },
}
const expected = pages[page]

const client = new Client({ name: 'interop-host', version: '1.0.0' }, {
  capabilities: { extensions: { [EXTENSION_ID]: { mimeTypes: [RESOURCE_MIME_TYPE] } } },
  versionNegotiation: { mode: revision === '2026-07-28' ? { pin: revision } : 'legacy' },
})
await client.connect(new StreamableHTTPClientTransport(new URL(http)))
equal(client.getServerCapabilities().extensions[EXTENSION_ID], { mimeTypes: [RESOURCE_MIME_TYPE] }, 'the capability of the server')

const tools = []
for (let cursor; ;) {
  const some = await client.listTools({ cursor })
  tools.push(...some.tools)
  if (!(cursor = some.nextCursor)) break
}
const uri = getToolUiResourceUri(tools.find(({ name }) => name === expected.tool))
equal(uri, expected.uri, 'the page of the tool')
const others = tools.filter((t) => t.name !== expected.tool && getToolUiResourceUri(t))
equal(others.map((t) => t.name), expected.others, 'other tools with a page')
holds(others.every(isToolVisibilityAppOnly), 'they are for the page alone')
const [contents] = (await client.readResource({ uri })).contents
equal([contents.uri, contents.mimeType, contents._meta], [uri, RESOURCE_MIME_TYPE, { ui: { prefersBorder: true } }], 'the page')
equal(buildAllowAttribute(contents._meta.ui.permissions), '', 'what the page may do')

// The theme of the host has each variable that the page uses. The schema refuses one that no host may set.
const used = [...contents.text.matchAll(/var\((--[\w-]+)(,?)/g)]
holds(used.length > 1 && used.every(([, , comma]) => comma), 'each variable has a value for hosts that set none')
const themed = (theme) => McpUiHostContextSchema.parse({ theme, styles: { variables: Object.fromEntries(used.map(([, name]) => [name, `${theme} ${name}`])) } })

// The window of the page, and of the host.
const elements = {}
function element(id) {
  const rows = []
  const row = () => { const cells = []; rows.push(cells); return { insertCell: () => (cells.push({}), cells.at(-1)) } }
  return elements[id] ??= { rows, replaceChildren: () => rows.splice(0), insertRow: row }
}
const style = { setProperty(name, value) { this[name] = value } }
const room = { height: 80.2 } // that the page takes
const root = { style, getBoundingClientRect: () => room }
const observers = []
class ResizeObserver {
  constructor(changed) { this.changed = changed }
  observe(target) { holds(target === root, 'the root is observed'); observers.push(this); this.changed() }
}
const listeners = []
const transport = {
  start: async () => {},
  close: async () => {},
  send: async (data) => { for (const listen of listeners) listen({ source: parent, data: structuredClone(data) }) },
}
const parent = { postMessage: (data, origin) => { equal(origin, '*', 'the origin'); transport.onmessage(structuredClone(data)) } }

const bridge = new AppBridge(client, { name: 'interop-host', version: '1.0.0' }, { serverTools: {}, serverResources: {} }, { hostContext: themed('dark') })
const sizes = []
bridge.addEventListener('sizechange', (size) => sizes.push(size))
const initialized = new Promise((resolve) => { bridge.oninitialized = resolve })
await bridge.connect(transport)
const script = /<script>([^]*)<\/script>/.exec(contents.text)[1]
vm.runInNewContext(script, {
  parent, ResizeObserver, innerWidth: 320, document: { documentElement: root, getElementById: element },
  addEventListener: (type, listen) => { if (type === 'message') listeners.push(listen) },
})
await initialized
equal(bridge.getAppVersion(), { name: page, version: '1.0.0' }, 'who the page says it is')

const wears = (theme) => style.colorScheme === theme && used.every(([, name]) => style[name] === `${theme} ${name}`)
holds(wears('dark'), 'the theme of the host')
bridge.setHostContext(themed('light'))
await until(() => wears('light'), 'the new theme of the host')

await bridge.sendToolInput({ arguments: expected.args })
await bridge.sendToolResult(await client.callTool({ name: expected.tool, arguments: expected.args }))
await expected.shows()
await until(() => sizes.length === 1, () => `the page says how large it is: ${JSON.stringify(sizes)}`)
room.height = 120
for (const o of observers) o.changed()
await until(() => sizes.length === 2, () => `the page says that it has grown: ${JSON.stringify(sizes)}`)
equal(sizes, [{ width: 320, height: 81 }, { width: 320, height: 120 }], 'the sizes of the page')
equal(await bridge.teardownResource({}), {}, 'the end of the page')
await client.close()
console.log('done')
