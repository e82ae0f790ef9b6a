import { equal, holds, refused, until } from '../expect.mjs'

const forms = (way) => way.since('2025-06-18') && (way.sdk.named || !!way.sdk.types.ElicitRequestSchema)
const urls = (way) => way.since('2025-11-25') && (way.sdk.named || !!way.sdk.types.ElicitRequestURLParamsSchema)

export default [
  {
    name: 'roots, and that they have changed',
    async run(session) {
      for (const roots of [['file:///home/me'], ['file:///home/you', 'file:///tmp/%E4%B8%96'], []]) {
        session.roots = roots.map((uri, i) => i ? { uri, name: `root ${i}` } : { uri })
        await session.client.sendRootsListChanged()
        equal(await session.text('roots'), roots.join('\n'), 'roots')
      }
    },
  },
  {
    name: 'sampling',
    modern: true,
    async run(session) {
      equal(await session.text('test_sampling', { prompt: '世界?' }), 'LLM response: 世界?', 'what the model said')
      equal(session.asked.find((p) => p.messages?.[0].content.text === '世界?'),
        { messages: [{ role: 'user', content: { type: 'text', text: '世界?' } }], maxTokens: 100 }, 'what it was asked')
    },
  },
  {
    name: 'sampling with tools',
    modern: true,
    needs: (way) => way.since('2025-11-25') && (way.sdk.named || !!way.sdk.types.CreateMessageResultWithToolsSchema),
    async run(session) {
      equal(await session.text('delegate', { prompt: 'What?' }), 'look {"what":"it"}', 'which tool the model would call')
      const { tools, toolChoice } = session.asked.find((p) => p.tools)
      equal([tools.map((t) => t.name), toolChoice], [['look'], { mode: 'required' }], 'what it was asked')
    },
  },
  {
    name: 'elicitation by form',
    modern: true,
    needs: forms,
    async run(session, way) {
      const { answers } = session
      answers.set('Who?', { action: 'accept', content: { answer: 'Grace "amazing" Hopper 世界' } })
      answers.set('Who is there?', { action: 'decline' })
      answers.set('What name?', { action: 'accept', content: { username: 'ada', email: 'a@example.com' } })
      equal(await session.text('ask', { question: 'Who?' }), 'Grace "amazing" Hopper 世界', 'the answer')
      equal(session.asked.find((p) => p.message === 'Who?').requestedSchema,
        { type: 'object', properties: { answer: { type: 'string', title: 'Answer' } }, required: ['answer'] }, 'the form')
      equal((await session.call('ask', { question: 'Who is there?' })).content[0].text, 'the user did not answer: decline', 'who declines')
      equal(await session.text('test_elicitation', { message: 'What name?' }), 'User response: action=accept, content={"username":"ada","email":"a@example.com"}', 'two answers')

      const defaults = 'Please review and update the form fields with defaults'
      answers.set(defaults, { action: 'accept', content: { name: 'x', age: 31, score: 0.5, status: 'pending', verified: false } })
      equal(await session.text('test_elicitation_sep1034_defaults'),
        'Elicitation completed: action=accept, content={"name":"x","age":31,"score":0.5,"status":"pending","verified":false}', 'answers of each type')
      const { properties } = session.asked.find((p) => p.message === defaults).requestedSchema
      const value = (v) => way.since('2025-11-25') ? v : undefined // of the defaults, the older revision knows that of a truth value
      equal(Object.fromEntries(Object.entries(properties).map(([k, p]) => [k, p.default])),
        { name: value('John Doe'), age: value(30), score: value(95.5), status: value('active'), verified: true }, 'defaults')

      const choices = 'Please select options from the enum fields'
      answers.set(choices, { action: 'accept', content: { untitledSingle: 'option2', titledSingle: 'value3', legacyEnum: 'opt1', untitledMulti: ['option1'], titledMulti: [] } })
      if (way.since('2025-11-25')) {
        equal(await session.text('test_elicitation_sep1330_enums'), 'Elicitation completed: action=accept, content=' + JSON.stringify(answers.get(choices).content), 'choices')
      } else {
        equal((await session.call('test_elicitation_sep1330_enums')).isError, true, 'a form that the revision cannot express')
      }
    },
  },
  {
    name: 'questions answered with an error, or late',
    needs: forms,
    async run(session, way) {
      session.answers.set('Are you there?', () => { throw new way.sdk.types.McpError(-31999, 'the user has left') })
      await refused(session.call('ask', { question: 'Are you there?' }), -31999, /the user has left/, 'a question that the client fails to answer')
      // Answers come while their calls are being cancelled, or after that. Over HTTP the one may overtake the other.
      session.tolerate(/unknown message ID[^]*"late"/)
      const waiting = []
      session.answers.set('Still there?', () => new Promise((resolve) => waiting.push(() => resolve({ action: 'accept', content: { answer: 'late' } }))))
      const controllers = Array.from({ length: 20 }, () => new AbortController())
      const outcomes = Promise.allSettled(controllers.map(({ signal }) => session.call('ask', { question: 'Still there?' }, { signal })))
      await until(() => waiting.length === controllers.length, 'the questions')
      for (const controller of controllers) controller.abort('no more need')
      for (const answer of waiting) answer()
      holds((await outcomes).every((o) => o.status === 'rejected'), 'a cancelled call was answered')
      equal(await session.text('echo', { text: 'still here' }), 'still here', 'echo after late answers')
    },
  },
  {
    name: 'elicitation by URL',
    needs: urls,
    async run(session, way) {
      session.answers.set('Please open this page.', { action: 'accept' })
      equal(await session.text('visit', { url: 'https://example.com/x' }), 'the user said accept', 'the visit')
      equal(session.asked.find((p) => p.mode === 'url'), { mode: 'url', message: 'Please open this page.', elicitationId: 'visit', url: 'https://example.com/x' }, 'what the user was asked')
      equal(session.told('notifications/elicitation/complete'), [{ elicitationId: 'visit' }], 'the end of the visit')
      const error = await refused(session.call('enter', { url: 'https://example.com/y' }), -32042, /./, 'what needs a visit first')
      holds(error instanceof way.sdk.types.UrlElicitationRequiredError, 'the error is not the one of the SDK')
      equal(error.elicitations, [{ mode: 'url', message: 'Please open this page first.', elicitationId: 'enter', url: 'https://example.com/y' }], 'where to go first')
    },
  },
  {
    name: 'questions that the revision lacks',
    needs: (way) => !forms(way) || !urls(way),
    async run(session, way) {
      if (!way.since('2025-06-18')) await refused(session.call('ask', { question: 'Who?' }), -32600, /has no elicitation/, 'a form')
      if (!way.since('2025-11-25')) {
        await refused(session.call('visit', { url: 'https://example.com/' }), -32600, /has no elicitation.url|has no elicitation/, 'a URL')
        await refused(session.call('enter', { url: 'https://example.com/' }), -32600, /./, 'a URL to open first')
        await refused(session.call('delegate', { prompt: 'What?' }), -32600, /has no sampling.tools/, 'sampling with tools')
      }
    },
  },
]
