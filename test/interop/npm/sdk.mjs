// One release of the TypeScript SDK, loaded from where it was installed.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

// The revisions that the server speaks, oldest first.
export const revisions = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28']

// A way of this revision and later has neither sessions nor a handshake.
export const modern = (revision) => revision >= '2026-07-28'

export const load = (modules, version) => version.startsWith('1.') ? loadFirst(modules, version) : loadClient(modules, version)

const since = (version) => (release) => version.localeCompare(release, 'en', { numeric: true }) >= 0

// loadClient loads a release from 2.0 on, in which the client is a package of its own. Handlers are set by the names of
// methods there, and answers that the client does not wait for are errors of another class.
async function loadClient(modules, version) {
  // It has its own name, because the package of tasks looks for it by that.
  const dist = join(modules, '@modelcontextprotocol', 'client', 'dist')
  const installed = createRequire(join(modules, 'x.js'))('./@modelcontextprotocol/client/package.json').version
  if (installed !== version) throw new Error(`release ${version} is wanted, and ${installed} is installed`)
  const types = await import(pathToFileURL(join(dist, 'index.mjs')))
  return {
    version,
    types: { ...types, McpError: types.ProtocolError, ErrorCode: types.SdkErrorCode },
    named: true,
    tasks: await import(pathToFileURL(join(modules, '@modelcontextprotocol', 'ext-tasks', 'dist', 'client', 'index.js'))),
    Client: types.Client,
    transports: {
      http: types.StreamableHTTPClientTransport,
      sse: types.SSEClientTransport,
      stdio: (await import(pathToFileURL(join(dist, 'stdio.mjs')))).StdioClientTransport,
    },
    latest: types.LATEST_PROTOCOL_VERSION,
    revisions: revisions.slice(-2), // the older ones are what the older releases are for
    since: since(version),
  }
}

// loadFirst loads a release before 2.0.
async function loadFirst(modules, version) {
  const dist = join(modules, `sdk-${version.replaceAll('.', '-')}`, 'dist')
  const root = existsSync(join(dist, 'esm')) ? join(dist, 'esm') : dist
  const part = async (path) => existsSync(join(root, path)) ? import(pathToFileURL(join(root, path))) : {}
  const types = await part('types.js')
  // The oldest releases leave it to their user to bring an EventSource, and named this one.
  globalThis.EventSource ??= createRequire(join(modules, 'x.js'))('eventsource-2-0-2')
  return {
    version,
    types,
    Client: (await part('client/index.js')).Client,
    TaskStore: (await part('experimental/tasks/stores/in-memory.js')).InMemoryTaskStore,
    transports: {
      http: (await part('client/streamableHttp.js')).StreamableHTTPClientTransport,
      sse: (await part('client/sse.js')).SSEClientTransport,
      stdio: (await part('client/stdio.js')).StdioClientTransport,
    },
    latest: types.LATEST_PROTOCOL_VERSION,
    revisions: revisions.filter((r) => types.SUPPORTED_PROTOCOL_VERSIONS.includes(r)),
    since: since(version),
  }
}
