// The site is docs/ as it is. SITE_BASE is the path below which it is served, with a slash at both ends; SITE_DOCS another
// directory with the documents, for the test.
import path from 'node:path'
import { bracesAsTheyAre, brokenLinks, docs, linksOutOfDocs, repository, root, sections, slug, writeForModels } from './pages.mjs'

const base = process.env.SITE_BASE || '/'
const items = (pages) => pages.map(({ page, title }) => ({ text: title, link: `/${page}` }))

// The documents lie where no package is looked for. What renders them in Node runs below site, and finds vue there.
const vueOfTheSite = {
  name: 'vue-of-the-site',
  enforce: 'pre',
  resolveId: (id, _from, { ssr }) => (ssr && /^vue(\/|$)/.test(id) ? { id, external: true } : undefined),
}

export default {
  title: 'Troupe',
  description: 'Tools over the Model Context Protocol, in Go, whose sessions survive a crash',
  base,
  srcDir: path.relative(path.join(root, 'site'), docs),
  outDir: path.join(root, 'out/site'),
  cacheDir: path.join(root, 'out/site-cache'),
  rewrites: { 'README.md': 'index.md' },
  vite: { plugins: [vueOfTheSite] },
  markdown: {
    html: false, // GitHub shows tags of the documents as they are written
    attrs: { disable: true },
    anchor: { slugify: slug },
    config: (md) => md.use(linksOutOfDocs).use(bracesAsTheyAre),
  },
  themeConfig: {
    search: { provider: 'local' },
    nav: [{ text: 'Repository', link: repository }],
    sidebar: sections().map(({ title, pages }) => ({ text: title, collapsed: title === 'Design', items: items(pages) })),
    outline: { level: [2, 3] },
  },
  buildEnd: ({ outDir }) => {
    writeForModels(outDir, base)
    const broken = brokenLinks(outDir, base)
    if (broken.length > 0) throw new Error(broken.join('\n'))
  },
}
