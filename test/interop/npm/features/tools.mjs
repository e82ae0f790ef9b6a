import { readFileSync } from 'node:fs'
import { equal, fails, holds, refused } from '../expect.mjs'

const list = readFileSync(new URL('../../../../examples/everything/tools.txt', import.meta.url), 'utf8')
const tools = list.split('\n').map((line) => line.split(' ')[0]).filter((name) => name && name !== '#')
const redPixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const silence = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='

const text = (t) => ({ type: 'text', text: t })
const image = { type: 'image', data: redPixel, mimeType: 'image/png' }

export default [
  {
    name: 'tools/list, all pages; structured results',
    modern: true,
    async run(session, way) {
      const { client } = session
      const names = []
      let cursor, pages = 0, page, measure
      do {
        const here = cursor
        const r = await session.page(cursor)
        names.push(...r.tools.map((t) => t.name))
        const found = r.tools.find((t) => t.name === 'measure')
        if (found) [page, measure] = [here, found]
        cursor = r.nextCursor
        pages++
      } while (cursor)
      equal(names.sort(), tools, 'tools')
      equal(pages, 8, 'pages')
      equal(measure, {
        name: 'measure', description: 'Counts the bytes, characters and words of a text.', ...(way.since('2025-06-18') && { _meta: { ui: { resourceUri: 'ui://everything/measure' } } }),
        ...(way.since('2025-06-18') && { title: 'Measure a text' }),
        ...(way.since('2025-03-26') && {
          annotations: { readOnlyHint: true, openWorldHint: false, ...(!way.since('2025-06-18') && { title: 'Measure a text' }) },
        }),
        ...(way.since('2025-11-25') && { icons: [{ src: `data:image/png;base64,${redPixel}`, mimeType: 'image/png', sizes: ['1x1'] }] }),
        inputSchema: { type: 'object', properties: { text: { type: 'string', description: 'what to measure' } }, required: ['text'], ...(way.sdk.version !== '1.22.0' && { additionalProperties: false }) }, // which that release leaves out
        ...(way.since('2025-06-18') && {
          outputSchema: {
            type: 'object',
            properties: {
              bytes: { type: 'integer', description: 'its length in UTF-8' },
              characters: { type: 'integer', description: 'its code points' },
              words: { type: 'integer', description: 'its parts between white space' },
            },
            required: ['bytes', 'characters', 'words'], additionalProperties: false,
          },
        }),
      }, 'the tool measure')
      await refused(session.page('nowhere'), -32602, /invalid cursor/, 'a list from an unknown cursor')

      // The SDK checks results by the schemas of the page that it has seen last.
      await (way.sdk.named ? client.listTools() : session.page(page))
      if (client.getToolOutputValidator) equal(!!client.getToolOutputValidator('measure'), way.since('2025-06-18'), 'whether the SDK checks results')
      const measured = { bytes: 14, characters: 7, words: 2 }
      const result = await session.call('measure', { text: 'ab 世界🎭\n' })
      equal(result.structuredContent, way.since('2025-06-18') ? measured : undefined, 'structured content')
      equal(result.content, [text(JSON.stringify(measured))], 'its text')
    },
  },
  {
    name: 'tools/call with odd texts',
    modern: true,
    async run(session) {
      const odd = {
        nothing: '', Chinese: '你好，世界', emoji: '🎭👩‍👩‍👧‍👦', 'line ends': 'a\nb\r\nc\rd\u2028e\u2029f\u0085g', quotes: '"\\"\'\\u0041\\',
        'control characters': '\u0000\u0001\u001b\u007f', 'bytes that look like frames': '\n\ndata: {"id":1}\n\nevent: x\n: comment\nid: 1\n\n',
        'right to left': 'שלום \u202e abc', 'a JSON-RPC message': '{"jsonrpc":"2.0","id":1,"result":{}}', '100 KB': 'Grüße, 世界 🎭 '.repeat(4500),
        'byte order mark': '\ufeffa', 'not Unicode': 'a\ufffdb',
      }
      await Promise.all(Object.entries(odd).map(async ([name, t]) => {
        const got = await session.text('echo', { text: t })
        holds(got === t, `echo of ${name}: got ${JSON.stringify(got.slice(0, 200))}, want ${JSON.stringify(t.slice(0, 200))}`)
      }))
    },
  },
  {
    name: 'every kind of content',
    modern: true,
    async run(session, way) {
      const content = async (name) => (await session.call(name)).content
      equal(await content('test_simple_text'), [text('This is a simple text response for testing.')], 'text')
      equal(await content('test_image_content'), [image], 'image')
      equal(await content('test_embedded_resource'), [{
        type: 'resource', resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.' },
      }], 'embedded resource')
      equal(await content('test_multiple_content_types'), [text('Multiple content types test:'), image, {
        type: 'resource', resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: '{"test":"data","value":123}' },
      }], 'several blocks')
      const audio = await content('test_audio_content')
      if (way.since('2025-03-26')) {
        equal(audio, [{ type: 'audio', data: silence, mimeType: 'audio/wav' }], 'audio')
      } else {
        equal(audio, [{ type: 'resource', resource: { uri: audio[0].resource?.uri, mimeType: 'audio/wav', blob: silence } }], 'audio as a resource')
        holds(audio[0].resource.uri.startsWith('ni:'), `audio has the URI ${audio[0].resource.uri}`)
      }
      const link = await content('link')
      if (way.since('2025-06-18')) {
        equal(link, [{
          type: 'resource_link', uri: 'test://static-text', name: 'static-text', title: 'Static text',
          description: 'A text that never changes.', mimeType: 'text/plain',
        }], 'resource link')
      } else {
        equal(link.map((c) => c.type), ['text'], 'resource link as text')
        holds(/Static text[^]*test:\/\/static-text/.test(link[0].text), `the link's text is ${link[0].text}`)
      }
    },
  },
  {
    name: 'errors of tools, arguments and requests',
    modern: true,
    async run(session, way) {
      const { client } = session
      const failed = await session.call('test_error_handling')
      equal([failed.isError, failed.content], [true, [text('This tool intentionally returns an error for testing')]], 'a tool that fails')
      for (const [tool, args] of [['echo', {}], ['echo', { text: 1 }], ['echo', { text: '', more: 1 }], ['count', { to: 1e9 }], ['sleep', { ms: 0.5 }],
        ['json_schema_2020_12_tool', { contactMethod: 'phone', email: 'a@example.com' }]]) {
        const what = `${tool} with ${JSON.stringify(args)}`
        if (way.since('2025-11-25')) {
          const r = await session.call(tool, args)
          equal([r.isError, r.content.length, r.content[0].type], [true, 1, 'text'], what)
        } else {
          await refused(session.call(tool, args), -32602, /invalid arguments/, what)
        }
      }
      equal(await session.text('json_schema_2020_12_tool', { contactMethod: 'phone', phone: '1' }),
        'JSON Schema 2020-12 tool called with: {"contactMethod":"phone","phone":"1"}', 'a schema with conditions')
      await refused(session.call('nothing'), -32602, /Unknown tool: nothing/, 'an unknown tool')
      await refused(client.getPrompt({ name: 'nothing' }), -32602, /Unknown prompt: nothing/, 'an unknown prompt')
      await refused(client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a' } }), -32602, /missing argument: arg2/, 'a missing argument')
      const missing = await refused(client.readResource({ uri: 'test://nothing' }), way.modern || way.sdk.named ? -32602 : -32002, /resource not found/, 'an unknown resource')
      if (way.sdk.named) { // which makes one error of both, with the code of the newer revision
        holds(missing instanceof way.sdk.types.ResourceNotFoundError, 'the error is not the one of the SDK')
        equal(session.heard.find((m) => m.error?.message === 'resource not found').error.code, way.modern ? -32602 : -32002, 'its code')
      }
      equal(missing.data, { uri: 'test://nothing' }, 'data of the error')
      if (way.modern && way.transport === 'http') { // its status is 404, which the SDK takes for an end without an answer
        session.tolerate(/method not found: tools.forget/)
        await fails(session.request({ method: 'tools/forget' }), /-32601/, 'an unknown method')
      } else {
        await refused(session.request({ method: 'tools/forget' }), -32601, /./, 'an unknown method')
      }
      if (!way.modern) await refused(client.setLoggingLevel('loud'), -32602, /level must be one of/, 'an unknown level')
      equal(await session.text('echo', { text: 'still here' }), 'still here', 'echo after errors')
    },
  },
]
