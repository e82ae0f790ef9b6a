import { equal, holds, until } from '../expect.mjs'
import { open } from '../session.mjs'
import { listen } from './modern.mjs'

const logs = (session, logger) => session.told('notifications/message').filter((m) => m.logger === logger)
const lines = (level, logger, n) => Array.from({ length: n }, (_, i) => ({ level, logger, data: `${i + 1} of ${n}` }))

// listening waits until the session has a stream of its own for what belongs to no call.
export const listening = (session) => until(async () => !(await session.call('tick', { n: 1 })).isError, 'a message that belongs to no call can be sent')

export default [
  {
    name: 'logging/setLevel, log messages',
    async run(_, way) {
      const session = await open(way, { capabilities: {} })
      await session.text('count', { to: 3 })
      await until(() => logs(session, 'count').length === 3, 'three log messages')
      for (const level of ['notice', 'warning', 'error', 'critical', 'alert', 'emergency']) {
        await session.client.setLoggingLevel(level)
        await session.text('count', { to: 2 })
      }
      for (const level of ['debug', 'info']) {
        await session.client.setLoggingLevel(level)
        await session.text('count', { to: 4, delay_ms: 1 })
      }
      await until(() => logs(session, 'count').length >= 11, 'eleven log messages')
      equal(logs(session, 'count'), [...lines('info', 'count', 3), ...lines('info', 'count', 4), ...lines('info', 'count', 4)], 'log messages')
      await session.close()
    },
  },
  {
    name: 'messages that belong to no call',
    async run(session) {
      await listening(session)
      equal(await session.text('tick', { n: 4, every_ms: 10 }), 'ticked 4 times', 'tick')
      const mine = () => logs(session, 'tick').filter((m) => m.data.endsWith(' of 4'))
      await until(() => mine().length >= 4, 'four log messages')
      equal(mine(), lines('info', 'tick', 4), 'log messages')
    },
  },
  {
    name: 'resources/subscribe, updated, unsubscribe',
    async run(session, way) {
      await listening(session)
      const uri = `test://template/${way.name.replaceAll(' ', '-')}/data`
      const updates = (u) => session.told('notifications/resources/updated').filter((p) => p.uri === u).length
      await session.client.subscribeResource({ uri })
      await session.client.subscribeResource({ uri })
      await session.text('touch', { uri: `${uri}/other` })
      await session.text('touch', { uri })
      await until(() => updates(uri) === 1, 'an update')
      await session.client.unsubscribeResource({ uri })
      await session.text('touch', { uri })
      // What came of that would come before this.
      const next = 'test://watched-resource/' + way.name.replaceAll(' ', '-')
      await session.client.subscribeResource({ uri: next })
      await session.text('touch', { uri: next })
      await until(() => updates(next) === 1, 'another update')
      equal([updates(uri), updates(`${uri}/other`)], [1, 0], 'updates')
      await session.client.unsubscribeResource({ uri: next })
    },
  },
]

// changes has the server change each of its lists, once for all ways, and yields an outcome for each of the sessions.
export const changes = {
  name: 'list_changed of tools, prompts, resources',
  async run(sessions) {
    const extra = {
      tools: async (session) => {
        for (let cursor; ;) {
          const r = await session.page(cursor)
          if (r.tools.some((t) => t.name === 'extra')) return true
          if (!(cursor = r.nextCursor)) return false
        }
      },
      prompts: async ({ client }) => (await client.listPrompts()).prompts.some((p) => p.name === 'extra'),
      resources: async ({ client }) => (await client.listResources()).resources.some((r) => r.name === 'extra'),
      templates: async ({ client }) => (await client.listResourceTemplates()).resourceTemplates.some((r) => r.name === 'extra'),
    }
    const failed = new Map()
    const each = (f) => Promise.all(sessions.filter((s) => !failed.has(s)).map((s) => f(s).catch((e) => failed.set(s, e))))
    await each((s) => s.way.modern ? listen(s) : listening(s))
    for (const what in extra) {
      const method = `notifications/${what === 'templates' ? 'resources' : what}/list_changed`
      for (const done of ['added', 'removed']) {
        const before = new Map(sessions.map((s) => [s, s.told(method).length]))
        equal(await sessions[0].text('change', { what }), done, `change ${what}`)
        await each(async (s) => {
          await until(() => s.told(method).length > before.get(s), `${method} after one of the ${what} was ${done}`)
          holds(await extra[what](s) === (done === 'added'), `after one of the ${what} was ${done}, the list is wrong`)
        })
      }
    }
    await each(async (s) => equal(['tools', 'prompts', 'resources'].map((l) => s.told(`notifications/${l}/list_changed`).length), [2, 2, 4], 'how often each list was told to have changed'))
    return sessions.map((s) => failed.get(s))
  },
}
