// Loaded before a server that listens at a port of its choice: has it listen at a free one of the loopback interface alone, and say which. It does not close
// connections that are idle, as a client may be about to use one.
//
//   node --import ./listen.mjs SERVER
import { Server } from 'node:net'

const { listen } = Server.prototype
Server.prototype.listen = function (_port, ...rest) {
  this.keepAliveTimeout = 0
  this.once('listening', () => console.error(`listening at http://127.0.0.1:${this.address().port}`))
  return listen.call(this, 0, '127.0.0.1', ...rest)
}
