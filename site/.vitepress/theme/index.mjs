// The default theme without its fonts: those of the system do, and nothing is loaded for them.
export { default } from 'vitepress/theme-without-fonts'
