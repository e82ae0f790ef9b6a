import { equal, fails, holds, refused, until } from '../expect.mjs'

const numbers = (n) => Array.from({ length: n }, (_, i) => i + 1)

// counts calls the tool count and returns the progress that the caller has seen.
async function counts(session, to, delay_ms, options) {
  const progress = []
  equal(await session.text('count', { to, delay_ms }, { ...options, onprogress: (p) => progress.push(p) }), `counted to ${to}`, 'count')
  return progress
}

// seen checks the progress of a call. What comes in one read with the result the SDK drops, because it handles the result
// first, and reports as of an unknown token: that counts as well.
async function seen(session, to, progress) {
  session.tolerate(/unknown token/)
  const dropped = () => session.errors.flatMap((e) => /unknown token: (.*)/.exec(e)?.slice(1).map((n) => JSON.parse(n).params) ?? [])
    .filter((p) => p.total === to).map(({ progressToken, ...p }) => p)
  await until(() => progress.length + dropped().length >= to, () => `${progress.length} of ${to} progress notifications were seen, ${dropped().length} dropped`)
  equal([...progress, ...dropped()], numbers(to).map((n) => ({ progress: n, total: to })), 'progress')
}

export default [
  {
    name: 'progress',
    modern: true,
    async run(session) {
      // Below and above the time in which an answer may be plain JSON. The totals tell the calls of a session apart.
      for (const [to, delay] of [[11, 5], [7, 70]]) {
        await seen(session, to, await counts(session, to, delay))
      }
    },
  },
  {
    name: 'cancellation by AbortSignal',
    modern: true,
    async run(session) {
      for (const delay of [0, 20, 400]) { // before and after the answer has become a stream
        const controller = new AbortController()
        const call = session.call('sleep', { ms: 3600000 }, { signal: controller.signal, timeout: 3600000 })
        setTimeout(() => controller.abort('no more need'), delay)
        await fails(call, /no more need/, 'a cancelled call')
      }
      equal(await session.text('echo', { text: 'still here' }), 'still here', 'echo after cancelling')
      // That the server has given the calls up is seen in its metrics, once all features are through.
    },
  },
  {
    name: 'timeouts',
    modern: true,
    async run(session, way) {
      const { RequestTimeout } = way.sdk.types.ErrorCode
      await refused(session.call('sleep', { ms: 3600000 }, { timeout: 50 }), RequestTimeout, /timed out/, 'a call that takes too long')
    },
  },
  {
    name: 'timeouts put off by progress',
    modern: true,
    calm: true,
    needs: (way) => way.sdk.since('1.12.3') && way.revision === way.sdk.revisions.at(-1),
    async run(session) {
      session.tolerate(/unknown token/)
      const began = Date.now()
      // The timeout is long, because on a busy machine a second between two messages of progress may become many.
      await counts(session, 21, 1000, { timeout: 20_000, resetTimeoutOnProgress: true })
      holds(Date.now() - began > 20_000, 'the call took no longer than its timeout')
    },
  },
  {
    name: '50 calls at once',
    modern: true,
    async run(session) {
      session.tolerate(/unknown token/)
      await Promise.all(numbers(50).map(async (i) => {
        const said = `number ${i}`
        switch (i % 5) {
          case 0: return equal(await session.text('echo', { text: said }), said, said)
          case 1: return equal(await session.text('sleep', { ms: 200 + i }), `slept ${200 + i} ms`, said)
          case 2: return void await counts(session, 50 + i, 3) // in all fewer steps than a session may log at once
          case 3: return equal(await session.text('test_sampling', { prompt: said }), `LLM response: ${said}`, said)
          case 4: return equal((await session.call('test_error_handling')).isError, true, said)
        }
      }))
    },
  },
]
