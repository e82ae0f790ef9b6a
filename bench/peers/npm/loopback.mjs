// Has a gateway that lets nobody choose its address listen on the loopback interface alone.
import { Server } from 'node:net'

const { listen } = Server.prototype
Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, port, '127.0.0.1', ...rest)
}
