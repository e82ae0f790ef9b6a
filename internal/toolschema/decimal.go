package toolschema

// decimal is the value of a JSON number, so that 42, 42.0 and 4.2e1 are equal: digits
// without zeros at either end, times ten to the power of exp. Zero has no digits.
type decimal struct {
	negative bool
	n        int // number of digits
	exp      int
	digits   [maxDigits]byte
}

// maxDigits is far more than the digits of an integer that a header can carry.
const maxDigits = 24

// parseDecimal reads a number. It returns false if s is no JSON number, or has more digits
// or a larger exponent than any number that is compared.
func parseDecimal[T string | []byte](s T) (d decimal, ok bool) {
	i, zeros := 0, 0
	if i < len(s) && s[i] == '-' {
		d.negative = true
		i++
	}
	add := func(c byte) bool {
		if c == '0' {
			if d.n > 0 {
				zeros++
			}
			return true
		}
		if d.n+zeros >= maxDigits {
			return false
		}
		for ; zeros > 0; zeros-- {
			d.digits[d.n] = '0'
			d.n++
		}
		d.digits[d.n] = c
		d.n++
		return true
	}
	start := i
	for ; i < len(s) && isDigit(s[i]); i++ {
		if !add(s[i]) {
			return decimal{}, false
		}
	}
	if i == start || s[start] == '0' && i > start+1 {
		return decimal{}, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		start = i
		for ; i < len(s) && isDigit(s[i]); i++ {
			if !add(s[i]) {
				return decimal{}, false
			}
			d.exp--
		}
		if i == start {
			return decimal{}, false
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		minus := i < len(s) && s[i] == '-'
		if minus || i < len(s) && s[i] == '+' {
			i++
		}
		start = i
		exp := 0
		for ; i < len(s) && isDigit(s[i]); i++ {
			if exp = exp*10 + int(s[i]-'0'); exp > 9999 {
				return decimal{}, false
			}
		}
		if i == start {
			return decimal{}, false
		}
		if minus {
			exp = -exp
		}
		d.exp += exp
	}
	if i != len(s) {
		return decimal{}, false
	}
	d.exp += zeros
	if d.n == 0 {
		return decimal{}, true // zero has neither sign nor exponent
	}
	return d, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isSafe reports whether every JSON parser keeps d: it is no integer beyond 2^53-1.
func (d *decimal) isSafe() bool {
	const most = "9007199254740991" // 2^53-1
	if d.exp < 0 || d.n+d.exp < len(most) {
		return true
	}
	if d.n+d.exp > len(most) {
		return false
	}
	for i := range len(most) {
		c := byte('0')
		if i < d.n {
			c = d.digits[i]
		}
		if c != most[i] {
			return c < most[i]
		}
	}
	return true
}
