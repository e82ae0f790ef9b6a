// Tasks of 2025-11-25, with the functions that the SDK has for them.
import { equal, fails, holds, refused, until } from '../expect.mjs'
import { open } from '../session.mjs'

const needs = (way) => way.since('2025-11-25') && !way.modern && !!Object.getOwnPropertyDescriptor(way.sdk.Client.prototype, 'experimental')

// follow calls a tool as a task, and returns what the SDK yields of it: its id, its statuses, and the result or the error.
export async function follow(session, name, args, options, seen = { statuses: [] }) {
  for await (const m of session.client.experimental.tasks.callToolStream({ name, arguments: args }, undefined, { task: { ttl: 600_000 }, ...options })) {
    if (m.type === 'taskCreated') seen.task = m.task
    if (m.type === 'taskStatus' && seen.statuses.at(-1) !== m.task.status) seen.statuses.push(m.task.status)
    if (m.type === 'result') seen.result = m.result
    if (m.type === 'error') seen.error = m.error
  }
  return seen
}

// result is tasks/result.
const result = (session, id, options) => session.client.experimental.tasks.getTaskResult(id, session.way.sdk.types.CallToolResultSchema, options)

// hosting are the capabilities of a client that hosts what it is asked.
const hosting = {
  sampling: { tools: {} }, elicitation: { form: {} },
  tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
}

// hosted makes a task of a question, which ends with what answer returns.
const hosted = (answer) => async (params, { taskStore }) => {
  const task = await taskStore.createTask({ ttl: params.task.ttl, pollInterval: 1000 })
  if (answer) setTimeout(async () => taskStore.storeTaskResult(task.taskId, 'completed', await answer(params)), 1500)
  return { task }
}

export default [
  {
    name: 'tasks that the client hosts',
    needs: (way) => needs(way) && !!way.sdk.TaskStore,
    async run(_, way) {
      const taskStore = new way.sdk.TaskStore()
      const session = await open(way, { capabilities: hosting, client: { taskStore } })
      session.answers.set('Who hosts?', hosted(() => ({ action: 'accept', content: { answer: 'the client' } })))
      session.answers.set('Who gives up?', hosted())
      equal(await session.text('ask', { question: 'Who hosts?' }), 'the client', 'the answer')
      equal(session.asked.map((p) => p.task), [{ ttl: 3_600_000 }], 'what was asked, once')
      session.sample = hosted((params) => ({ model: 'parrot', role: 'assistant', stopReason: 'toolUse', content: [{ type: 'tool_use', id: '1', name: params.tools[0].name, input: { what: 'it' } }] }))
      equal(await session.text('delegate', { prompt: 'What?' }), 'look {"what":"it"}', 'what the model said')
      const { tasks } = await taskStore.listTasks()
      equal(tasks.map((t) => t.status), ['completed', 'completed'], 'the tasks')

      const given = new AbortController()
      const call = fails(session.call('ask', { question: 'Who gives up?' }, { signal: given.signal }), /given up/, 'the call')
      const third = async () => (await taskStore.listTasks()).tasks.find((t) => !tasks.some((old) => old.taskId === t.taskId))
      await until(third, 'there is a task')
      given.abort(new Error('given up'))
      await call
      await until(async () => (await third()).status === 'cancelled', 'the task is cancelled')
      taskStore.cleanup()
      await session.close()
    },
  },
  {
    name: 'tasks',
    needs,
    async run(session) {
      const { tasks } = session.client.experimental
      const progress = []
      const seen = await follow(session, 'job', { steps: 5, step_ms: 250 }, { onprogress: (p) => progress.push(p.progress) })
      equal(seen.error, undefined, 'the error')
      const { task } = seen
      equal([task.status, task.ttl], ['working', 600_000], 'the task at first')
      equal(seen.statuses.at(-1), 'completed', 'its last status')
      equal(seen.result.structuredContent.steps.map((s) => s.n), [1, 2, 3, 4, 5], 'the steps of its result')
      equal(seen.result._meta['io.modelcontextprotocol/related-task'], { taskId: task.taskId }, 'the task of its result')
      equal(await result(session, task.taskId), seen.result, 'the result once more')
      const ended = await tasks.getTask(task.taskId)
      equal([ended.taskId, ended.status, ended.ttl, ended.createdAt], [task.taskId, 'completed', 600_000, task.createdAt], 'the task at last')
      equal(await session.text('slow_compute', { seconds: 0, label: 'x' }), 'x: computed for 0 s', 'a call that becomes none')
      holds(progress.length > 0 || session.way.transport === 'http', 'there is progress') // over HTTP the own stream may open later
      holds(progress.every((p, i) => i === 0 || p > progress[i - 1]), `progress falls: ${progress}`)
      // The server does not know its clients here, and so lists no tasks.
      await fails(tasks.listTasks(), /tasks\/list|-32601/, 'the list')
      await refused(tasks.getTask('a'.repeat(26)), -32602, /no such task/, 'a task that is not there')
      await refused(session.client.request({ method: 'tools/call', params: { name: 'echo', arguments: { text: 'x' }, task: {} } }, session.way.sdk.types.CreateTaskResultSchema),
        -32601, /cannot become tasks/, 'a task of a tool that has none')
    },
  },
  {
    name: 'a task that asks',
    needs,
    async run(session) {
      for (const [file, answer] of [['a.txt', { action: 'accept', content: { confirm: true } }], ['b.txt', { action: 'decline' }]]) {
        const seen = { statuses: [] }
        session.answers.set(`Delete ${file}?`, async () => {
          await until(() => seen.statuses.includes('input_required'), () => `the task waits: ${seen.statuses}`)
          return answer
        })
        await follow(session, 'confirm_delete', { filename: file }, {}, seen)
        equal(seen.error, undefined, 'the error')
        holds(seen.result.content[0].type === 'text' && !seen.result.isError, `the result ${JSON.stringify(seen.result)}`)
        const asked = session.asked.filter((p) => p.message === `Delete ${file}?`)
        // A client that calls tasks/result three seconds late has the question of its standalone stream withdrawn, and gets it there again.
        const of = new Set(asked.map((p) => p._meta['io.modelcontextprotocol/related-task'].taskId))
        equal([...of], [seen.task.taskId], 'the task of the question')
        equal((await session.client.experimental.tasks.getTask(seen.task.taskId)).status, 'completed', 'the status')
      }
    },
  },
  {
    name: 'a task that is cancelled',
    needs,
    async run(session) {
      const { tasks } = session.client.experimental
      let id
      const following = (async () => {
        for await (const m of tasks.callToolStream({ name: 'slow_compute', arguments: { seconds: 600, label: 'x' } }, undefined, { task: {} })) {
          if (m.type === 'taskCreated') id = m.task.taskId
          if (m.type === 'error') return m.error
        }
      })()
      await until(() => id, 'there is a task')
      const waiting = fails(result(session, id), /cancelled/, 'who waits for the result')
      equal((await tasks.cancelTask(id)).status, 'cancelled', 'the answer to the cancel')
      equal((await tasks.getTask(id)).status, 'cancelled', 'the status')
      await waiting
      await refused(tasks.cancelTask(id), -32602, /has ended/, 'a second cancel')
      holds(/cancelled/.test((await following).message), 'who follows it')
    },
  },
  {
    name: 'tasks that fail',
    needs,
    async run(session) {
      const { tasks } = session.client.experimental
      const faulty = await follow(session, 'failing_job', {})
      equal(faulty.statuses.at(-1), 'failed', 'the status of a tool\'s error')
      const said = await result(session, faulty.task.taskId)
      equal([said.isError, said.content[0].text], [true, 'the job failed, as it always does'], 'the tool\'s error')
      holds(/the job failed/.test((await tasks.getTask(faulty.task.taskId)).statusMessage), 'the message of the status')
      const broken = await follow(session, 'protocol_error_job', {})
      equal(broken.statuses.at(-1), 'failed', 'the status of an error of the protocol')
      await refused(result(session, broken.task.taskId), -32603, /broke down/, 'the error of the protocol')
      await refused(session.request({ method: 'tools/call', params: { name: 'failing_job' } }), -32601, /must become tasks/, 'a call that must become a task')
    },
  },
]
