// What the site knows of docs/: its pages as the index lists them, where links lead, and what is wrong with links.
import fs from 'node:fs'
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '../..')
export const docs = path.resolve(process.env.SITE_DOCS ?? path.join(root, 'docs'))
export const repository = 'https://github.com/troupe-run/troupe'

// slug is the anchor of a heading as GitHub makes it, by which the documents link to one another.
export const slug = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')

const read = (page) => fs.readFileSync(path.join(docs, page), 'utf8')
const titleOf = (text) => /^# (.*)$/m.exec(text)?.[1] ?? ''

// A page's description is the first sentence below its title, without links.
const descriptionOf = (text) => {
  const paragraph = text.replace(/^[^]*?^# .*$/m, '').trim().split(/\n\s*\n/)[0].replace(/\s+/g, ' ').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
  return (/^.*?[.:](?= |$)/.exec(paragraph)?.[0] ?? paragraph).replace(/:$/, '.')
}

// sections are those of the index, docs/README.md, each with the pages that it links, and the internal decisions.
export const sections = () => {
  const all = []
  let section
  for (const [, heading, page] of read('README.md').matchAll(/^(For .*):$|\]\(([a-z-]+\.md)\)/gm)) {
    if (heading) all.push((section = { title: heading, pages: [] }))
    else if (!section.pages.includes(page)) section.pages.push(page)
  }
  all.push({ title: 'Design', pages: fs.readdirSync(path.join(docs, 'design')).sort().map((name) => `design/${name}`) })
  return all.map(({ title, pages }) => ({ title, pages: pages.map((page) => ({ page, title: titleOf(read(page)), description: descriptionOf(read(page)) })) }))
}

// A link out of docs/, or to a directory, leads to the repository.
export const linksOutOfDocs = (md) => {
  md.core.ruler.push('links_out_of_docs', (state) => {
    const from = path.dirname(state.env.realPath ?? state.env.path)
    for (const token of state.tokens.flatMap((block) => block.children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : ''
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
      const [file, anchor] = href.split('#')
      const inDocs = path.relative(docs, path.resolve(from, decodeURI(file)))
      if (!inDocs.startsWith('..') && inDocs.endsWith('.md')) continue
      const inRoot = path.join('docs', inDocs)
      const at = path.join(root, inRoot)
      if (!fs.existsSync(at)) throw new Error(`${state.env.relativePath} links to ${href}, which is not there`)
      const kind = fs.statSync(at).isDirectory() ? 'tree' : 'blob'
      token.attrSet('href', `${repository}/${kind}/main/${inRoot}${anchor ? `#${anchor}` : ''}`)
    }
  })
}

// Braces mean nothing: VitePress would take {{ }} for an expression, but between fences.
export const bracesAsTheyAre = (md) => {
  const { code_block: indented, code_inline: inline, text } = md.renderer.rules
  md.renderer.rules.code_block = (...args) => indented(...args).replace('<pre', '<pre v-pre')
  md.renderer.rules.code_inline = (...args) => inline(...args).replace('<code', '<code v-pre')
  md.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;')
}

// brokenLinks names the links of built pages that lead to no page or to no anchor, and what a page would load from elsewhere.
export const brokenLinks = (outDir, base) => {
  const files = fs.readdirSync(outDir, { recursive: true }).map((name) => name.replaceAll(path.sep, '/')).filter((name) => name.endsWith('.html'))
  const pages = new Map(files.map((name) => [name, fs.readFileSync(path.join(outDir, name), 'utf8')]))
  const anchors = new Map([...pages].map(([name, html]) => [name, new Set([...html.matchAll(/ id="([^"]*)"/g)].map((m) => m[1]))]))
  const broken = []
  for (const [name, html] of pages) {
    for (const [, href] of html.matchAll(/<a\b[^>]* href="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(href)) continue
      const to = new URL(href.replaceAll('&amp;', '&'), `http://site${base}${name}`)
      const page = to.pathname.slice(base.length).replace(/(^|\/)$/, '$1index.html')
      const anchor = decodeURIComponent(to.hash.slice(1))
      if (!pages.has(page)) broken.push(`${name} links to ${href}, which is no page`)
      else if (anchor && !anchors.get(page).has(anchor)) broken.push(`${name} links to ${href}, and ${page} has no such heading`)
    }
    for (const [, what] of html.matchAll(/<(?:script|link|img|iframe)\b[^>]* (?:src|href)="((?:https?:)?\/\/[^"]*)"/g)) broken.push(`${name} loads ${what}`)
  }
  return broken
}

// llms.txt is the list of all pages for a model, by llmstxt.org; llms-full.txt all their text.
export const writeForModels = (outDir, base) => {
  let list = `# ${titleOf(fs.readFileSync(path.join(root, 'README.md'), 'utf8'))}\n\n> ${descriptionOf(fs.readFileSync(path.join(root, 'README.md'), 'utf8'))}\n`
  let full = ''
  for (const { title, pages } of sections()) {
    list += `\n## ${title}\n\n`
    for (const { page, title, description } of pages) {
      list += `- [${title}](${base}${page.replace(/\.md$/, '.html')}): ${description}\n`
      full += `<!-- ${page} -->\n\n${read(page)}\n`
    }
  }
  fs.writeFileSync(path.join(outDir, 'llms.txt'), list)
  fs.writeFileSync(path.join(outDir, 'llms-full.txt'), full)
}
