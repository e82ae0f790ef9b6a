import { equal, holds, refused } from '../expect.mjs'
import { open } from '../session.mjs'

export default [
  {
    name: 'initialize, instructions',
    async run(session, way) {
      const instructions = 'A demonstration of every feature. Start with the tools echo, count and ask.'
      equal(session.heard[0].result, {
        protocolVersion: way.revision,
        capabilities: {
          ...(way.since('2025-03-26') && { completions: {} }),
          logging: {}, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true }, tools: { listChanged: true },
          extensions: {
            'io.modelcontextprotocol/skills': { directoryRead: true },
            ...(way.since('2025-06-18') && { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } }),
          },
          ...(way.since('2025-11-25') && { tasks: { cancel: {}, requests: { tools: { call: {} } } } }),
        },
        serverInfo: { name: 'everything', ...(way.since('2025-06-18') && { title: 'Troupe: everything' }), version: '1.0.0' },
        instructions,
      }, 'the answer to initialize')
      const { client } = session
      equal(client.getServerVersion().name, 'everything', 'the name of the server')
      if (client.getInstructions) equal(client.getInstructions(), instructions, 'the instructions')
    },
  },
  {
    name: 'ping, both ways',
    async run(session) {
      for (let i = 0; i < 3; i++) await session.client.ping()
      equal(await session.text('ping'), 'the client is there', 'ping of the server')
    },
  },
  {
    name: 'capabilities not declared',
    async run(_, way) {
      const bare = await open(way, { capabilities: {} })
      const needs = {
        ask: 'elicitation.form', test_elicitation: 'elicitation.form', visit: 'elicitation.url', test_sampling: 'sampling',
        delegate: 'sampling.tools', roots: 'roots',
      }
      for (const [tool, capability] of Object.entries(needs)) {
        await refused(bare.call(tool, {}), -32600, new RegExp(`the client must declare: ${capability}`), tool)
      }
      holds(!bare.heard.some((m) => m.method && m.id !== undefined), 'a client that declares nothing is asked something')
      await bare.close()
    },
  },
]
