// Tasks with the package @modelcontextprotocol/ext-tasks: those of 2025-11-25, and the extension of 2026-07-28. The features
// are the same for both, as the package hides which of them it uses.
import { equal, holds } from '../expect.mjs'
import { open } from '../session.mjs'

const feature = (name, run, needs = () => true) => ({
  name: `ext-tasks: ${name}`,
  needs: (way) => !!way.sdk.tasks && needs(way),
  modern: true,
  async run(_, way) {
    const session = await open(way, { questions: false })
    const tasks = begin(session)
    await run(session, tasks, way.sdk.tasks)
    await tasks.close()
    await session.close()
  },
})

// begin makes the package use a session. The client's schemas do not know the results of the extension, for which the package
// asks for another way to send requests.
export function begin(session, clientCapabilities = { roots: {}, sampling: { tools: {} }, elicitation: { form: {}, url: {} } }) {
  session.tolerate(/unknown message ID: .*"tools":/) // the package gives up its own tools/list, whose response may be on its way
  const framing = session.way.modern && {
    v2RequestFraming: {
      protocolVersion: session.way.revision, clientInfo: { name: 'interop', version: '1.0.0' }, clientCapabilities,
    },
    rawDispatch: async (request) => {
      const { result, error } = await session.raw(request)
      return error ? { kind: 'error', error } : { kind: 'result', result }
    },
  }
  // Before 2026-07-28 a server may put the question of a task to the session that made it, by itself, when nobody has come for it in a while. The
  // package knows nothing of a task before it has the response of the call, and leaves such a question to whoever uses it.
  const otherwise = session.client.fallbackRequestHandler
  session.client.fallbackRequestHandler = async (request, context) =>
    request.method === 'elicitation/create' ? session.elicit(request.params) : otherwise(request, context)
  return session.way.sdk.tasks.createTaskSessionFromClient(session.client, {
    endpointId: 'interop', ...framing,
    onInputRequest: async (request) => session.elicit(request.params),
    onError: (error) => { if (error.reason !== 'zero-matches') console.error(error) },
  })
}

// settle waits for the end of a call, and returns its outcome with the statuses on the way.
export async function settle(execution) {
  const statuses = []
  const { outcome } = await execution.settle({
    onEvent: (e) => {
      if (e.type === 'task' && statuses.at(-1) !== e.task.status) statuses.push(e.task.status)
    },
  })
  return { ...outcome, statuses }
}

const prefer = { task: { preference: 'prefer', retentionMs: 600_000 } }

export default [
  feature('calls that become tasks, and one that does not', async (session, tasks, { resultFromTaskOutcome }) => {
    const execution = await tasks.callTool('job', { steps: 3, step_ms: 100 }, prefer)
    equal(execution.kind, 'task', 'the call')
    const done = await settle(execution)
    equal(done.status, 'completed', 'the outcome')
    equal(resultFromTaskOutcome(done).structuredContent.steps.map((s) => s.n), [1, 2, 3], 'the steps of its result')
    const once = await tasks.callTool('echo', { text: 'x' })
    equal(once.kind, 'immediate', 'a call that becomes none')
    equal((await settle(once)).result.content[0].text, 'x', 'its result')
  }),
  feature('a task that asks', async (session, tasks) => {
    session.answers.set('Delete a.txt?', { action: 'accept', content: { confirm: true } })
    session.answers.set('Delete b.txt?', { action: 'decline' })
    for (const file of ['a.txt', 'b.txt']) {
      const done = await settle(await tasks.callTool('confirm_delete', { filename: file }, prefer))
      equal([done.status, done.result?.content[0].type], ['completed', 'text'], 'the outcome')
      equal(session.asked.filter((p) => p.message === `Delete ${file}?`).length, 1, 'how often it asks')
    }
  }),
  feature('a task that is cancelled', async (session, tasks) => {
    const execution = await tasks.callTool('slow_compute', { seconds: 600, label: 'x' }, prefer)
    const settled = settle(execution)
    await tasks.cancelTask(execution.handle.taskId)
    equal((await settled).status, 'cancelled', 'the outcome')
  }),
  feature('tasks that fail', async (session, tasks) => {
    const faulty = await settle(await tasks.callTool('failing_job', {}, prefer))
    // In 2025-11-25 the status says that the tool has failed, in 2026-07-28 the result says it.
    const said = faulty.status === 'completed' ? faulty.result.content[0].text : faulty.error.message
    holds(/the job failed/.test(said), `the outcome ${JSON.stringify(faulty)}`)
    const broken = await settle(await tasks.callTool('protocol_error_job', {}, prefer))
    equal(broken.status, 'failed', 'the outcome of an error of the protocol')
    holds(/broke down/.test(broken.error.message), `the error ${broken.error.message}`)
  }),
  feature('a task that another client takes up', async (session, tasks, { resultFromTaskOutcome }) => {
    const execution = await tasks.callTool('job', { steps: 3, step_ms: 300 }, prefer)
    const reference = execution.serializeReference()
    await execution.detach()
    const other = await open(session.way, { questions: false })
    const again = begin(other)
    const done = await settle(await again.resumeTask(reference))
    equal(resultFromTaskOutcome(done).structuredContent.steps.map((s) => s.n), [1, 2, 3], 'the steps of its result')
    await again.close()
    await other.close()
  }, (way) => way.transport === 'http'), // a client over stdio has a server of its own
]
