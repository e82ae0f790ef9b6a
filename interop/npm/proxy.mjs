// A line between a client and the server that can be cut.
import { connect, createServer } from 'node:net'

export async function proxy(url) {
  const to = new URL(url)
  const open = new Set()
  const server = createServer((near) => {
    const far = connect(Number(to.port), to.hostname)
    for (const [a, b] of [[near, far], [far, near]]) {
      open.add(a)
      a.pipe(b)
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
    cut() { for (const socket of open) socket.resetAndDestroy() },
    close() { server.close(); this.cut() },
  }
}
