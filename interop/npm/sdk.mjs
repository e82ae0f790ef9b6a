// One release of the TypeScript SDK, loaded from where it was installed.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

// The revisions that the server speaks, oldest first.
export const revisions = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']

export async function load(modules, version) {
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
    transports: {
      http: (await part('client/streamableHttp.js')).StreamableHTTPClientTransport,
      sse: (await part('client/sse.js')).SSEClientTransport,
      stdio: (await part('client/stdio.js')).StdioClientTransport,
    },
    latest: types.LATEST_PROTOCOL_VERSION,
    revisions: revisions.filter((r) => types.SUPPORTED_PROTOCOL_VERSIONS.includes(r)),
    since: (release) => version.localeCompare(release, 'en', { numeric: true }) >= 0,
  }
}
