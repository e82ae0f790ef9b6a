// A server that speaks 2026-07-28 alone, over standard input and output: every feature of @modelcontextprotocol/server that a client can tell.
//
//   node newest.mjs MODULES
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const part = (...path) => import(pathToFileURL(join(process.argv[2], ...path)))
const { McpServer, ResourceTemplate, completable, inputRequired, inputResponse } = await part('@modelcontextprotocol', 'server', 'dist', 'index.mjs')
const { serveStdio } = await part('@modelcontextprotocol', 'server', 'dist', 'stdio.mjs')
const { z } = await part('zod', 'index.js')

// sorted is JSON with the members of objects by their names: clients order them in their own ways.
const sorted = (said) => JSON.stringify(said, (_, v) => v?.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v)
const text = (said) => ({ content: [{ type: 'text', text: typeof said === 'string' ? said : sorted(said) }] })
const form = (message) => inputRequired.elicit({ message, requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } })
const people = ['Ada', 'Alan', 'Grace']
const named = (value) => people.filter((p) => p.startsWith(value))

function make() {
  const server = new McpServer({ name: 'newest', title: 'Only the newest', version: '1.2.3' }, { capabilities: { logging: {}, resources: { subscribe: true, listChanged: true } }, instructions: 'Ask away.' })

  server.registerTool('echo', { description: 'Says it again.', inputSchema: z.object({ text: z.string() }), annotations: { readOnlyHint: true } }, ({ text: said }) => text(said))
  server.registerTool('add', { title: 'Add', inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) },
    ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b }, _meta: { 'example.com/kept': true } }))
  server.registerTool('fail', {}, () => { throw new Error('it failed, as it always does') })
  server.registerTool('steps', { inputSchema: z.object({ count: z.number() }) }, async ({ count }, { mcpReq }) => {
    for (let i = 1; i <= count; i++) {
      const { progressToken } = mcpReq._meta ?? {}
      if (progressToken !== undefined) await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: i, total: count, message: `step ${i}` } })
      await mcpReq.log('info', { step: i }, 'steps')
    }
    return text(`${count} steps`)
  })

  // Each answers with what it is answered.
  const asks = (name, question) => server.registerTool(name, {}, ({ mcpReq }) =>
    mcpReq.inputResponses ? text(inputResponse(mcpReq.inputResponses, 'it')) : inputRequired({ inputRequests: { it: question } }))
  asks('form', form('Who are you?'))
  asks('visit', inputRequired.elicitUrl({ message: 'Sign in.', url: 'https://example.com/in' }))
  asks('model', inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'to be?' } }], maxTokens: 10 }))
  asks('roots', { ...inputRequired.listRoots(), params: {} }) // the Go SDK cannot read a question without params
  server.registerTool('rounds', { description: 'Asks twice, two things at first.' }, ({ mcpReq }) => {
    const { inputResponses: said } = mcpReq
    const state = mcpReq.requestState()
    if (!said) return inputRequired({ inputRequests: { who: form('Who?'), why: form('Why?') }, requestState: 'once' })
    if (state === 'once') return inputRequired({ inputRequests: { where: form('Where?') }, requestState: JSON.stringify([inputResponse(said, 'who'), inputResponse(said, 'why')]) })
    return text([...JSON.parse(state), inputResponse(said, 'where')])
  })

  server.registerTool('touch', { inputSchema: z.object({ uri: z.string() }) }, async ({ uri }) => {
    await server.server.sendResourceUpdated({ uri })
    return text(`touched ${uri}`)
  })
  server.registerTool('grow', {}, () => {
    server.registerResource('grown', 'note://grown', {}, (uri) => ({ contents: [{ uri: uri.href, text: 'a new one' }] }))
    return text('there is one more')
  })

  server.registerResource('one', 'note://one', { title: 'One', mimeType: 'text/plain' }, (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'the first' }] }))
  server.registerResource('asked', 'note://asked', {}, (uri, { mcpReq }) => mcpReq.inputResponses
    ? { contents: [{ uri: uri.href, text: sorted(inputResponse(mcpReq.inputResponses, 'reader')) }] }
    : inputRequired({ inputRequests: { reader: form('Who reads?') } }))
  server.registerResource('by', new ResourceTemplate('note://by/{who}', { list: undefined, complete: { who: named } }), { mimeType: 'application/octet-stream' },
    (uri, { who }) => ({ contents: [{ uri: uri.href, mimeType: 'application/octet-stream', blob: Buffer.from(`by ${who}`).toString('base64') }] }))

  server.registerPrompt('greet', { title: 'Greet', argsSchema: z.object({ who: completable(z.string().describe('Whom'), named), how: z.string().optional() }) },
    ({ who, how }) => ({ description: 'A greeting', messages: [{ role: 'user', content: { type: 'text', text: `${how ?? 'Hello'}, ${who}!` } }] }))
  server.registerPrompt('ask', {}, ({ mcpReq }) => mcpReq.inputResponses
    ? { messages: [{ role: 'user', content: { type: 'text', text: sorted(inputResponse(mcpReq.inputResponses, 'context')) } }] }
    : inputRequired({ inputRequests: { context: form('In which context?') } }))
  return server
}

serveStdio(make, { legacy: 'reject' })
