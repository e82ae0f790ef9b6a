// Clients of one release of the SDK that go from 401 to an answered call.
//
//   node client.mjs '{"modules": DIR, "sdk": "2.4.0", "issuer": URL, "http": URL, "clients": [{"name", "register", "id", "secret", "steps": ["call"]}]}'
//
// "register" is how the client is known to the authorization server: dcr registers it, pre and cimd have its id, which is the URL of its metadata for
// cimd, and machine has its secret, and no user. "call" calls the tool whoami; "up" guarded, which needs a scope more; "refresh" calls whoami after the access token has
// stopped to count, in the same session. "tools" has others in place of the two. "scopes" are those that the program names to the SDK, and "newest" has it speak 2026-07-28. Each line of
// output is {"name", "step", "text" or "error"}, and the last one {"done": true}.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

import { equal } from '../expect.mjs'
import { load } from '../sdk.mjs'
import { Person } from './person.mjs'

const { modules, sdk: release, issuer, http, clients } = JSON.parse(process.argv[2])
const sdk = await load(modules, release)
const machines = join(modules, `sdk-${release.replaceAll('.', '-')}`, 'dist', 'esm', 'client', 'auth-extensions.js')
const { ClientCredentialsProvider } = existsSync(machines) ? await import(pathToFileURL(machines)) : sdk.types

const say = (object) => process.stdout.write(JSON.stringify(object) + '\n')
process.on('unhandledRejection', (error) => say({ name: 'any', step: 'no error is left alone', error: String(error?.stack ?? error) }))

// attempt makes a request, and once more after the user has signed in.
async function attempt(provider, transport, request) {
  try {
    return await request()
  } catch (error) {
    if (!provider.asked) throw error
    await provider.finish(transport())
    return request()
  }
}

async function drive(wanted) {
  const { name, register, id, secret, scopes, steps, newest, tools = ['whoami', 'guarded'] } = wanted
  const provider = register === 'machine' ? new ClientCredentialsProvider({ clientId: id, clientSecret: secret, scope: scopes, expectedIssuer: issuer }) : new Person(issuer, wanted)
  let step = 'connect', client, transport, session
  const connect = async () => {
    client = new sdk.Client({ name: 'interop', version: '1.0.0' }, { capabilities: {}, ...(newest && { versionNegotiation: { mode: { pin: '2026-07-28' } } }) })
    transport = new sdk.transports.http(new URL(http), { authProvider: provider })
    await client.connect(transport)
    session = transport.sessionId
  }
  const call = async (tool) => {
    const result = await attempt(provider, () => transport, () => client.callTool({ name: tool, arguments: {} }))
    equal(transport.sessionId, session, 'the session')
    return result.content[0].text
  }
  const ways = {
    call: () => call(tools[0]),
    up: () => call(tools[1]),
    refresh: async () => {
      const { signIns, refreshes } = provider
      provider.saved = { ...provider.saved, access_token: `${provider.saved.access_token}x` }
      const text = await call(tools[0])
      equal([provider.signIns, provider.refreshes], [signIns, refreshes + 1], 'sign-ins and refreshes')
      return text
    },
  }
  try {
    await attempt(provider, () => transport, connect)
    for (step of steps) say({ name, step, text: await ways[step]() })
    await transport.terminateSession()
    await client.close()
  } catch (error) {
    say({ name, step, error: String(error?.stack ?? error) + (error?.cause ? ` caused by ${error.cause}` : '') })
  }
}

await Promise.all(clients.map(drive))
say({ done: true })
process.exit(0)
