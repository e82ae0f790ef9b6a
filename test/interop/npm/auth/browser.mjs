// A browser with a cookie jar that signs in at the pages of oidc-provider, and agrees to whatever they ask.
//
//   node browser.mjs URL
//
// prints where the last page sends it: to the client.
import { pathToFileURL } from 'node:url'

// most is how many pages and redirects a sign-in takes at most.
const most = 20

// signIn opens the page of an authorization request and returns the URL of the client that it comes to in the end.
export async function signIn(url, login = 'alice') {
  const { origin } = new URL(url)
  const jar = new Map() // by path and name: the provider has cookies of one name for several paths
  let request = { url: new URL(url) }
  for (let page = 0; page < most; page++) {
    const { pathname } = request.url
    const cookie = [...jar.values()].filter((c) => pathname.startsWith(c.path)).map((c) => c.pair).join('; ')
    const response = await fetch(request.url, { redirect: 'manual', ...request.options, headers: { ...(cookie && { cookie }) } })
    for (const set of response.headers.getSetCookie()) {
      const [pair, ...attributes] = set.split(/;\s*/)
      const path = attributes.find((a) => /^path=/i.test(a))?.slice(5) ?? '/'
      const name = `${path} ${pair.split('=')[0]}`
      if (/=$/.test(pair) || attributes.some((a) => /^expires=Thu, 01 Jan 1970/i.test(a))) jar.delete(name)
      else jar.set(name, { pair, path })
    }
    const to = response.headers.get('location')
    if (to) {
      request = { url: new URL(to, request.url) }
      if (request.url.origin !== origin) return request.url.href
      continue
    }
    const html = await response.text()
    const [, action] = html.match(/<form[^>]* action="([^"]+)"/) ?? []
    if (response.status !== 200 || !action) throw new Error(`the page of ${request.url} is ${response.status}: ${html}`)
    const fields = new URLSearchParams([...html.matchAll(/<input[^>]* name="([^"]+)"(?:[^>]* value="([^"]*)")?/g)].map(([, name, value = '']) => [name, value]))
    if (fields.has('login')) {
      fields.set('login', login)
      fields.set('password', 'any')
    }
    request = { url: new URL(action, request.url), options: { method: 'POST', body: fields } }
  }
  throw new Error(`it comes to no end: ${request.url}`)
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) process.stdout.write(await signIn(process.argv[2]))
