// An authorization server: npm oidc-provider on plain loopback, with its own pages.
//
//   node provider.mjs '{"modules": DIR, "format": "ES256", "clients": [METADATA]}'
//
// "format" says what tokens are: ES256 or RS256 for JWTs that are signed so, or opaque. The first line of its output is {"issuer": URL}. A line of input
// {"resource": URL} names the resource of requests that name none. It runs until its input ends.
import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const { modules, format, clients } = JSON.parse(process.argv[2])
console.info = console.log = console.warn = console.error // what the provider advises is not for who reads the output
const { Provider } = await import(pathToFileURL(join(modules, 'oidc-provider', 'lib', 'index.js')))

const server = createServer((request, response) => handle(request, response))
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${server.address().port}`

const key = (type, options, more) => ({ ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), use: 'sig', ...more })
let resource // of requests that name none

const provider = new Provider(issuer, {
  clients,
  jwks: { keys: [key('rsa', { modulusLength: 2048 }, { alg: 'RS256', kid: 'rsa' }), key('ec', { namedCurve: 'P-256' }, { alg: 'ES256', kid: 'ec' })] },
  scopes: ['openid', 'offline_access', 'demo:read', 'demo:write'],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  clientBasedCORS: () => true,
  cookies: { keys: ['a key of the test'] },
  // Its own refuses the loopback interface, and gives up after 2.5 s, which a busy machine may need.
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined, signal: undefined }),
  issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
  rotateRefreshToken: true,
  ttl: { AccessToken: (_, token, client) => client.clientName === 'short' ? 5 : 3600, ClientCredentials: 3600, Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
  features: {
    devInteractions: { enabled: true },
    userinfo: { enabled: false }, // it would be the audience of tokens for nothing else
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_, client, oneOf) => oneOf ?? resource,
      getResourceServerInfo: (_, indicator) => ({
        scope: 'demo:read demo:write', audience: indicator,
        ...(format === 'opaque' ? { accessTokenFormat: 'opaque' } : { accessTokenFormat: 'jwt', jwt: { sign: { alg: format } } }),
      }),
    },
  },
})
provider.on('server_error', (_, error) => console.error(error))
const handle = provider.callback()

process.stdout.write(JSON.stringify({ issuer }) + '\n')
for await (const line of createInterface({ input: process.stdin })) {
  ({ resource } = JSON.parse(line))
  process.stdout.write('{}\n')
}
process.exit(0)
