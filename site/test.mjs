// Builds the site, and reads it in Chromium: search finds a page, and no request leaves. A link that leads nowhere fails the
// build. CHROMIUM is the browser, if it is not on the PATH.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { chromium } from 'playwright-core'

const here = import.meta.dirname
const built = path.join(here, '../out/site')
const base = '/troupe/'

const build = (env) => spawnSync('npx', ['vitepress', 'build'], { cwd: here, encoding: 'utf8', env: { ...process.env, SITE_BASE: base, ...env } })

// A page that links to nothing fails the build, and so does one that links to no heading.
for (const [link, want] of [['no-such-page.md', /dead link/i], ['limits.md#no-such-heading', /no such heading/], ['../no/such/file.go', /is not there/]]) {
  const docs = fs.mkdtempSync(path.join(os.tmpdir(), 'troupe-site-'))
  fs.writeFileSync(path.join(docs, 'README.md'), '# Documents\n\nFor a test:\n\n- [limits](limits.md)\n')
  fs.writeFileSync(path.join(docs, 'limits.md'), `# Limits\n\nThere are [some](${link}).\n`)
  fs.mkdirSync(path.join(docs, 'design'))
  const { status, stdout, stderr } = build({ SITE_DOCS: docs })
  fs.rmSync(docs, { recursive: true })
  assert.notEqual(status, 0, `a link to ${link} does not fail the build`)
  assert.match(stdout + stderr, want)
}

const done = build({})
assert.equal(done.status, 0, done.stdout + done.stderr)
const list = fs.readFileSync(path.join(built, 'llms.txt'), 'utf8')
assert.match(list, /^# Troupe\n/)
for (const [, page] of list.matchAll(/\]\((.*?)\)/g)) assert.ok(fs.existsSync(path.join(built, page.slice(base.length))), `llms.txt names ${page}`)

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.svg': 'image/svg+xml' }
const server = http.createServer((request, response) => {
  const file = path.join(built, decodeURIComponent(new URL(request.url, 'http://site').pathname).replace(base, '/').replace(/\/$/, '/index.html'))
  if (!file.startsWith(built) || !fs.existsSync(file)) return response.writeHead(404).end()
  response.writeHead(200, { 'Content-Type': types[path.extname(file)] ?? 'application/octet-stream' }).end(fs.readFileSync(file))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const origin = `http://127.0.0.1:${server.address().port}`

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim(),
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
})
try {
  const page = await browser.newPage()
  const elsewhere = []
  const failed = []
  page.on('request', (request) => { if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(`${origin}${base}`)) elsewhere.push(request.url()) })
  page.on('response', (response) => { if (response.status() >= 400) failed.push(`${response.status()} ${response.url()}`) })
  page.on('pageerror', (error) => failed.push(String(error)))
  await page.goto(origin + base)
  await page.getByRole('button', { name: 'Search' }).first().click()
  await page.getByRole('searchbox').fill('drain')
  const result = page.locator('.VPLocalSearchBox .result').first()
  await result.waitFor()
  await result.click()
  await page.waitForURL((url) => url.pathname !== base)
  const text = await page.locator('main').innerText()
  assert.match(text, /drain/i, `what search finds, ${page.url()}, has no drain in it`)
  await page.goto(`${origin}${base}deploy.html`)
  await page.getByRole('link', { name: 'operate.md' }).first().click()
  await page.waitForURL('**/operate.html')
  assert.deepEqual(elsewhere.filter((url) => url !== `${origin}/favicon.ico`), [], 'requests that leave')
  assert.deepEqual(failed.filter((what) => !what.endsWith('/favicon.ico')), [])
  console.log(`search found ${page.url()} among ${list.match(/^- /gm).length} pages; no request left`)
} finally {
  await browser.close()
  server.close()
}
