// What a feature expects. Each function throws when the expectation does not hold.
import { isDeepStrictEqual, inspect } from 'node:util'

// patience is how long to wait for what should come at once, in milliseconds. It is no measure: who needs it hangs.
export const patience = 600_000

const shown = (value) => inspect(value, { depth: 9, breakLength: 160, maxStringLength: 400 })

export function equal(got, want, what) {
  // What a schema of the SDK leaves undefined was not on the wire.
  if (!isDeepStrictEqual(plain(got), plain(want))) throw new Error(`${what}: got ${shown(got)}, want ${shown(want)}`)
}

export function holds(condition, what) {
  if (!condition) throw new Error(what)
}

const plain = (value) => value === undefined ? undefined : JSON.parse(JSON.stringify(value))

// fails waits for a promise to be rejected with an error whose code and text fit the pattern, and returns it.
export async function fails(promise, pattern, what) {
  const [error, value] = await promise.then((v) => [undefined, v], (e) => [e ?? new Error('no error')])
  if (error === undefined) throw new Error(`${what}: it did not fail but gave ${shown(value)}`)
  if (!pattern.test(`${error.code} ${error.message ?? error}`)) throw new Error(`${what}: the error is ${error.code} ${shown(error.message ?? error)}, want ${pattern}`)
  return error
}

// refused is fails for an error of the protocol.
export async function refused(promise, code, pattern, what) {
  const error = await fails(promise, pattern, what)
  if (error.code !== code) throw new Error(`${what}: the error is ${error.code} ${shown(error.message)}, want ${code}`)
  return error
}

export const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// until waits for a condition, which may be asynchronous, and returns what it gave.
export async function until(condition, what, ms = patience) {
  for (const deadline = Date.now() + ms; ; await later(5)) {
    const value = await condition()
    if (value) return value
    if (Date.now() > deadline) throw new Error(`it does not come to this: ${typeof what === 'function' ? what() : what}`)
  }
}
