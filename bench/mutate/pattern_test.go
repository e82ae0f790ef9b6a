package mutate

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
)

// word is a token of Go source text.
type word struct {
	text     string
	kind     token.Token // IDENT, or ILLEGAL for what is no Go; others do not matter
	from, to int         // where it is in the text
}

// wordsOf returns the tokens of a text. Comments are none, and neither are the semicolons that ends
// of lines stand for.
func wordsOf(text []byte) (all []word) {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, kind, lit := s.Scan()
		switch {
		case kind == token.EOF:
			return all
		case kind == token.SEMICOLON && lit == "\n":
			continue
		case lit == "":
			lit = kind.String()
		}
		from := file.Offset(pos)
		all = append(all, word{lit, kind, from, from + len(lit)})
	}
}

// pattern stands for a place in source text. It is Go whose tokens have to be those of the place,
// however they are laid out, but that
//
//	$name    stands for any identifier, the same wherever the name comes again
//	…        stands for any tokens, as few as possible
//	«...»    is around what is replaced, if that is not all; around nothing, text is put in there
type pattern struct {
	words       []part
	first, last int // the words from first to before last are replaced
}

// part is a word of a pattern.
type part struct {
	text string
	name bool // it stands for an identifier
	skip bool // it stands for any words
}

// parsePattern reads a pattern.
func parsePattern(text string) (*pattern, error) {
	p := &pattern{first: -1, last: -1}
	name := false // the word before is $
	for _, w := range wordsOf([]byte(text)) {
		switch {
		case name && w.kind != token.IDENT:
			return nil, fmt.Errorf("no name follows a $: %s", text)
		case w.kind != token.ILLEGAL:
			p.words = append(p.words, part{text: w.text, name: name})
		case w.text == "…":
			p.words = append(p.words, part{skip: true})
		case w.text == "«" && p.first < 0:
			p.first = len(p.words)
		case w.text == "»" && p.first >= 0 && p.last < 0:
			p.last = len(p.words)
		case w.text != "$":
			return nil, fmt.Errorf("%s means nothing there: %s", w.text, text)
		}
		name = w.text == "$"
	}
	if p.first < 0 {
		p.first, p.last = 0, len(p.words)
	}
	if name || p.last < p.first || len(p.words) == 0 || p.first == 0 && p.last == 0 {
		return nil, errors.New("half a pattern: " + text)
	}
	return p, nil
}

// matchWords reports whether words begin with those of a pattern: where each of them is, and what
// its names stand for.
func matchWords(want []part, have []word, names map[string]string) (at []word, ok bool) {
	for i, w := range want {
		switch {
		case w.skip:
			for j := i; j < len(have); j++ {
				all := maps.Clone(names)
				if rest, ok := matchWords(want[i+1:], have[j:], all); ok {
					maps.Copy(names, all)
					return append(append(at, word{}), rest...), true
				}
			}
			return nil, false
		case i == len(have):
			return nil, false
		case w.name:
			known, named := names[w.text]
			if have[i].kind != token.IDENT || named && known != have[i].text {
				return nil, false
			}
			names[w.text] = have[i].text
		case w.text != have[i].text:
			return nil, false
		}
		at = append(at, have[i])
	}
	return at, true
}

// place is where a pattern was found.
type place struct {
	from, to int // what is replaced
	names    map[string]string
}

// findPlaces returns the places of a pattern among the words of a file.
func (p *pattern) findPlaces(all []word) (places []place) {
	for i := range all {
		names := map[string]string{}
		at, ok := matchWords(p.words, all[i:], names)
		switch {
		case !ok:
		case p.first < p.last:
			places = append(places, place{at[p.first].from, at[p.last-1].to, names})
		case p.first > 0:
			places = append(places, place{at[p.first-1].to, at[p.first-1].to, names})
		}
	}
	return places
}
