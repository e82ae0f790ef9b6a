// Has one release of the SDK settle the revision with servers that speak only some.
//
//   node revisions.mjs '{"modules": DIR, "sdk": "2.4.0", "command": PATH, "spoken": {REVISIONS: URL}}'
//
// Each line of output is a JSON object: {"spoken", "transport", "mode", "revision", "text" or "error"} for each way in which the SDK can be
// told to choose, where "" leaves it to the SDK, and {"done": true}. "text" is what a tool has answered with.
import { load } from './sdk.mjs'

const { modules, sdk: version, command, spoken } = JSON.parse(process.argv[2])
const sdk = await load(modules, version)
const say = (object) => process.stdout.write(JSON.stringify(object) + '\n')
const modes = { '': {}, ...(sdk.since('2.0.0') && { auto: { versionNegotiation: { mode: 'auto' } }, newest: { versionNegotiation: { mode: { pin: '2026-07-28' } } } }) }

for (const [revisions, url] of Object.entries(spoken)) {
  for (const transport of ['http', 'stdio']) {
    for (const [mode, options] of Object.entries(modes)) {
      const Transport = sdk.transports[transport]
      const client = new sdk.Client({ name: 'interop', version: '1.0.0' }, { capabilities: {}, ...options })
      const outcome = { spoken: revisions, transport, mode }
      const over = transport === 'stdio' ? new Transport({ command, args: ['stdio', '--revisions', revisions], stderr: 'inherit' }) : new Transport(new URL(url))
      let revision
      const { setProtocolVersion } = over
      over.setProtocolVersion = function (settled) {
        revision = settled
        return setProtocolVersion?.call(this, settled)
      }
      try {
        await client.connect(over)
        const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } })
        say({ ...outcome, revision: revision ?? client.getNegotiatedProtocolVersion?.(), text: result.content[0].text })
        if (over.terminateSession) await over.terminateSession()
      } catch (error) {
        say({ ...outcome, error: String(error) })
      }
      await client.close()
    }
  }
}
say({ done: true })
process.exit(0)
