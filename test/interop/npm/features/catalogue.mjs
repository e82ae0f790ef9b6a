import { equal } from '../expect.mjs'

const redPixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='

export default [
  {
    name: 'prompts/list, prompts/get',
    modern: true,
    async run({ client }, way) {
      const title = (t) => way.since('2025-06-18') && { title: t }
      const { prompts, nextCursor } = await client.listPrompts()
      equal(nextCursor, undefined, 'cursor of a list with one page')
      equal(prompts, [
        { name: 'test_input_required_result_prompt', ...title('Prompt with input'), description: 'Asks the user what it is about.' },
        {
          name: 'test_prompt_with_arguments', ...title('Prompt with arguments'), description: 'A prompt that repeats its arguments.',
          arguments: [{ name: 'arg1', description: 'The first argument', required: true }, { name: 'arg2', description: 'The second argument', required: true }],
        },
        {
          name: 'test_prompt_with_embedded_resource', ...title('Prompt with a resource'), description: 'A prompt that carries a resource.',
          arguments: [{ name: 'resourceUri', description: 'The URI of the resource', required: true }],
        },
        { name: 'test_prompt_with_image', ...title('Prompt with an image'), description: 'A prompt that carries an image.' },
        { name: 'test_simple_prompt', ...title('Simple prompt'), description: 'A prompt without arguments.' },
      ], 'prompts')
      const user = (content) => ({ role: 'user', content })
      const text = (t) => user({ type: 'text', text: t })
      for (const [name, args, ...messages] of [
        ['test_simple_prompt', undefined, text('This is a simple prompt for testing.')],
        ['test_prompt_with_arguments', { arg1: '世界', arg2: '"two"' }, text('Prompt with arguments: arg1=\'世界\', arg2=\'"two"\'')],
        ['test_prompt_with_embedded_resource', { resourceUri: 'test://mine' },
          user({ type: 'resource', resource: { uri: 'test://mine', mimeType: 'text/plain', text: 'Embedded resource content for testing.' } }),
          text('Please process the embedded resource above.')],
        ['test_prompt_with_image', {}, user({ type: 'image', data: redPixel, mimeType: 'image/png' }), text('Please analyze the image above.')],
      ]) equal((await client.getPrompt({ name, arguments: args })).messages, messages, name)
    },
  },
  {
    name: 'resources/list, templates/list, read',
    modern: true,
    async run({ client }, way) {
      const title = (t) => way.since('2025-06-18') && { title: t }
      equal((await client.listResources()).resources.map(({ size, ...r }) => r), [
        { uri: 'skill://tour/SKILL.md', name: 'tour', description: 'Shows somebody around this demo server. Use it when they ask what the server can do, or want to try a feature of MCP.', mimeType: 'text/markdown' },
        { uri: 'skill://tour/references/features.md', name: 'features.md', mimeType: 'text/markdown' },
        { uri: 'test://static-binary', name: 'static-binary', ...title('Static image'), description: 'An image that never changes.', mimeType: 'image/png' },
        { uri: 'test://static-text', name: 'static-text', ...title('Static text'), description: 'A text that never changes.', mimeType: 'text/plain' },
        { uri: 'test://watched-resource', name: 'watched-resource', ...title('Watched resource'), description: 'A resource to subscribe to.', mimeType: 'text/plain' },
        {
          uri: 'ui://everything/measure', name: 'measure', ...title('Measures of a text'), description: 'Shows what the tool measure counts.', mimeType: 'text/html;profile=mcp-app',
          ...(way.since('2025-06-18') && { _meta: { ui: { prefersBorder: true } } }),
        },
      ], 'resources')
      equal((await client.listResourceTemplates()).resourceTemplates, [{
        uriTemplate: 'test://template/{id}/data', name: 'template-data', ...title('Data by id'), description: 'A resource for each id.', mimeType: 'application/json',
      }], 'templates')
      for (const contents of [
        { uri: 'test://static-text', mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
        { uri: 'test://static-binary', mimeType: 'image/png', blob: redPixel },
        { uri: 'test://template/a%20b/data', mimeType: 'application/json', text: '{"id":"a b","templateTest":true,"data":"Data for ID: a b"}' },
      ]) equal((await client.readResource({ uri: contents.uri })).contents, [contents], contents.uri)
    },
  },
  {
    name: 'completion/complete',
    modern: true,
    async run({ client }) {
      const complete = async (ref, name, value, context) => (await client.complete({ ref, argument: { name, value }, ...(context && { context }) })).completion
      const all = (...values) => ({ values, total: values.length, hasMore: false })
      const prompt = { type: 'ref/prompt', name: 'test_prompt_with_arguments' }
      equal(await complete(prompt, 'arg1', 'par'), all('paris', 'park', 'party'), 'completions')
      equal(await complete(prompt, 'arg1', 'none'), all(), 'no completions')
      equal(await complete({ type: 'ref/resource', uri: 'test://template/{id}/data' }, 'id', '1'), all(), 'completions of a template')
    },
  },
  {
    name: 'completion with context',
    modern: true,
    needs: (way) => way.since('2025-06-18') && way.sdk.since('1.22.0'),
    async run({ client }) {
      const { completion } = await client.complete({
        ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' }, argument: { name: 'arg2', value: 'par' }, context: { arguments: { arg1: 'paris' } },
      })
      equal(completion.values, ['park', 'party'], 'completions beside another argument')
    },
  },
]
