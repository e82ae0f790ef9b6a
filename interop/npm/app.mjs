// A host of MCP Apps, with the client and the bridge of ext-apps: it finds the page of a tool, runs the page's script, calls the
// tool, and has the page show the result. The page has no browser around it but a document with one table.
//
// node app.mjs '{"modules":"<cache>/node_modules","http":"http://127.0.0.1:8080/mcp","revision":"2026-07-28"}'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import vm from 'node:vm'
import { equal } from './expect.mjs'

const { modules, http, revision } = JSON.parse(process.argv[2])
const load = (...path) => import(pathToFileURL(join(modules, '@modelcontextprotocol', ...path)))
const { Client, StreamableHTTPClientTransport } = await load('client', 'dist', 'index.mjs')
const { AppBridge, buildAllowAttribute, getToolUiResourceUri } = await load('ext-apps', 'dist', 'src', 'app-bridge.js')
const { EXTENSION_ID, RESOURCE_MIME_TYPE } = await load('ext-apps', 'dist', 'src', 'server', 'index.js')

const client = new Client({ name: 'interop-host', version: '1.0.0' }, {
  capabilities: { extensions: { [EXTENSION_ID]: { mimeTypes: [RESOURCE_MIME_TYPE] } } },
  versionNegotiation: { mode: revision === '2026-07-28' ? { pin: revision } : 'legacy' },
})
await client.connect(new StreamableHTTPClientTransport(new URL(http)))
equal(client.getServerCapabilities().extensions[EXTENSION_ID], { mimeTypes: [RESOURCE_MIME_TYPE] }, 'the capability of the server')

const tools = []
for (let cursor; ;) {
  const page = await client.listTools({ cursor })
  tools.push(...page.tools)
  if (!(cursor = page.nextCursor)) break
}
const tool = tools.find(({ name }) => name === 'measure')
const uri = getToolUiResourceUri(tool)
equal(uri, 'ui://everything/measure', 'the page of the tool')
equal(tools.filter((t) => t.name !== 'measure' && getToolUiResourceUri(t)), [], 'other tools with a page')
const [contents] = (await client.readResource({ uri })).contents
equal([contents.uri, contents.mimeType, contents._meta], [uri, RESOURCE_MIME_TYPE, { ui: { prefersBorder: true } }], 'the page')
equal(buildAllowAttribute(contents._meta.ui.permissions), '', 'what the page may do')

// The window of the page, and of the host.
const rows = []
const table = { replaceChildren: () => rows.splice(0), insertRow: () => (rows.push([]), { insertCell: () => (rows.at(-1).push({}), rows.at(-1).at(-1)) }) }
const listeners = []
const transport = {
  start: async () => {},
  close: async () => {},
  send: async (data) => { for (const listen of listeners) listen({ source: parent, data: structuredClone(data) }) },
}
const parent = { postMessage: (data, origin) => { equal(origin, '*', 'the origin'); transport.onmessage(structuredClone(data)) } }

const bridge = new AppBridge(client, { name: 'interop-host', version: '1.0.0' }, { serverTools: {}, serverResources: {} })
const initialized = new Promise((resolve) => { bridge.oninitialized = resolve })
await bridge.connect(transport)
const script = /<script>([^]*)<\/script>/.exec(contents.text)[1]
vm.runInNewContext(script, { parent, addEventListener: (type, listen) => { if (type === 'message') listeners.push(listen) }, document: { getElementById: () => table } })
await initialized
equal(bridge.getAppVersion(), { name: 'measure', version: '1.0.0' }, 'who the page says it is')

const args = { text: 'ab 世界🎭\n' }
await bridge.sendToolInput({ arguments: args })
await bridge.sendToolResult(await client.callTool({ name: 'measure', arguments: args }))
equal(rows.map((cells) => cells.map((c) => c.textContent)), [[14, 'bytes'], [7, 'characters'], [2, 'words']], 'what the page shows')
equal(await bridge.teardownResource({}), {}, 'the end of the page')
await client.close()
console.log('done')
