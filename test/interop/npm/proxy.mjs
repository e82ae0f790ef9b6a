// A line between a client and the server that can be cut.
import { connect, createServer } from 'node:net'
import { Transform } from 'node:stream'

// proxy passes on everything to the server and back. Until it is cut, an event of the server that has the text is the last one of its
// connection that gets through: what the server had sent when the line is cut does not depend on who is faster.
export async function proxy(url, last) {
  const to = new URL(url)
  const open = new Set()
  let whole = true
  const server = createServer((near) => {
    const far = connect(Number(to.port), to.hostname)
    for (const [a, b] of [[near, far], [far, near]]) {
      open.add(a)
      if (whole && last && a === far) a.pipe(upTo(last)).pipe(b)
      else a.pipe(b)
      a.on('error', () => {}) // the close that follows says the same
      a.on('close', () => { open.delete(a); b.destroy() })
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const here = new URL(url)
  here.port = server.address().port
  return {
    url: here.href,
    // cut ends all connections; new ones are let through.
    cut() {
      whole = false
      for (const socket of open) socket.resetAndDestroy()
    },
    close() { server.close(); this.cut() },
  }
}

// upTo passes on what comes up to the end of the first event that has the text, and drops the rest.
function upTo(text) {
  let seen = '', over = false
  return new Transform({
    transform(chunk, _, done) {
      if (over) return done()
      seen += chunk.toString('latin1')
      const at = seen.indexOf(text)
      const end = at < 0 ? -1 : seen.indexOf('\n\n', at) + 2
      over = end > 1
      done(null, over ? chunk.subarray(0, chunk.length - (seen.length - end)) : chunk)
    },
  })
}
