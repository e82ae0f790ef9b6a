// The OAuth provider of a client with a user, for both major releases of the SDK.
import { holds } from '../expect.mjs'
import { signIn } from './browser.mjs'

// Person is the provider of a client with a user, who signs in with a browser.
export class Person {
  redirectUrl = 'http://127.0.0.1/callback'
  signIns = 0
  refreshes = 0

  // register and id are those of client.mjs.
  constructor(issuer, { name, register, id, scopes }) {
    this.clientMetadata = {
      client_name: name, redirect_uris: [this.redirectUrl], token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
      ...(scopes && { scope: scopes }),
    }
    if (register === 'pre') this.known = { client_id: id, issuer }
    if (register === 'cimd') this.clientMetadataUrl = id
  }

  clientInformation() { return this.known }
  saveClientInformation(known) { this.known = known }
  tokens() { return this.saved }
  saveTokens(tokens) { this.saved = tokens; if (!this.asked) this.refreshes++ }
  codeVerifier() { return this.verifier }
  saveCodeVerifier(verifier) { this.verifier = verifier }
  discoveryState() { return this.discovered }
  saveDiscoveryState(state) { this.discovered = state }
  redirectToAuthorization(url) { this.asked = url }

  // finish signs in as the client has asked for.
  async finish(transport) {
    const back = new URL(await signIn(this.asked)).searchParams
    holds(back.get('code'), `the user comes back with ${back}`)
    this.signIns++
    await transport.finishAuth(back.get('code'), back.get('iss'))
    this.asked = undefined
  }
}
