// What a feature expects. Each function throws when the expectation does not hold.
import { isDeepStrictEqual, inspect } from 'node:util'

// patience is how long to wait for what should come at once, in milliseconds.
export const patience = 20_000

const shown = (value) => inspect(value, { depth: 9, breakLength: 160, maxStringLength: 400 })

export function equal(got, want, what) {
  // What a schema of the SDK leaves undefined was not on the wire.
  if (!isDeepStrictEqual(plain(got), plain(want))) throw new Error(`${what}: got ${shown(got)}, want ${shown(want)}`)
}

export function holds(condition, what) {
  if (!condition) throw new Error(what)
}

const plain = (value) => value === undefined ? undefined : JSON.parse(JSON.stringify(value))

// refused waits for a promise to be rejected, with an error that has the code and whose text fits the pattern.
export async function refused(promise, code, pattern, what) {
  let error
  try {
    const value = await promise
    throw Object.assign(new Error(`${what}: it was not refused but gave ${shown(value)}`), { unmet: true })
  } catch (e) {
    if (e.unmet) throw e
    error = e
  }
  if (error.code !== code || !pattern.test(error.message)) throw new Error(`${what}: the error is ${error.code} ${shown(error.message)}, want ${code} ${pattern}`)
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
