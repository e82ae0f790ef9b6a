package codec

import "bytes"

// maxInteger is the number of digits of the largest integer that a Go type of fixed size holds, and maxWide that of the largest
// that other programs write with an exponent, because they have it as a float64. maxAdded is how many bytes more than those of the data
// all integers together may take that are so wide: six bytes of data would be a digit for each of maxWide otherwise.
const (
	maxInteger = 20
	maxWide    = 309
	maxAdded   = 64 << 10
)

// plainIntegers returns data, which is valid JSON, with integers written plainly that had a fraction or an exponent. ok
// is false if there are none, or if they would be too long together. wide says whether a big.Int may take them, which holds more digits.
func plainIntegers(data []byte, wide bool) (out []byte, ok bool) {
	var room [maxInteger + 1]byte
	plain, from, added := room[:0], 0, 0
	eachNumber(data, func(i, end int) bool {
		var changed bool
		if plain, changed = appendPlain(plain[:0], data[i:end], wide); !changed {
			return true
		}
		added += len(plain) - (end - i)
		if ok = !wide || added <= len(data)+maxAdded; ok {
			out = append(append(out, data[from:i]...), plain...)
			from = end
		}
		return ok
	})
	if !ok {
		return nil, false
	}
	return append(out, data[from:]...), true
}

// originOf returns the offset in data of the byte at offset at in the result of plainIntegers.
func originOf(data []byte, at int, wide bool) int {
	shift := 0 // how much shorter the result is up to here
	var buf [maxInteger + 1]byte
	eachNumber(data, func(i, end int) bool {
		if i-shift >= at {
			return false
		}
		if plain, ok := appendPlain(buf[:0], data[i:end], wide); ok {
			shift += end - i - len(plain)
		}
		return true
	})
	return at + shift
}

// eachNumber calls f with the start and end of each number in data, until f returns false.
func eachNumber(data []byte, f func(i, end int) bool) {
	for i := 0; i < len(data); {
		switch classes[data[i]] {
		case classString:
			i = skipString(data, i)
		case classNumber:
			end := i + 1
			for end < len(data) && !endsLiteral(data[end]) {
				end++
			}
			if !f(i, end) {
				return
			}
			i = end
		default:
			i++
		}
	}
}

// appendPlain appends the number raw without fraction and exponent. It returns false, and appends nothing, if raw is
// already plain, is no integer, or has more digits than any Go integer; with wide, than maxWide.
func appendPlain(dst, raw []byte, wide bool) ([]byte, bool) {
	most := maxInteger
	if wide {
		most = maxWide
	}
	mantissa, exponent := raw, []byte(nil)
	if e := bytes.IndexAny(raw, "eE"); e >= 0 {
		mantissa, exponent = raw[:e], raw[e+1:]
	}
	whole, fraction, pointed := bytes.Cut(mantissa, []byte("."))
	if !pointed && exponent == nil {
		return dst, false
	}
	sign := len(whole) > 0 && whole[0] == '-'
	if sign {
		whole = whole[1:]
	}
	shift := 0 // of the point, to the right
	if len(exponent) > 0 {
		down := exponent[0] == '-'
		for _, c := range bytes.TrimLeft(exponent, "+-") {
			if shift = shift*10 + int(c-'0'); shift > 1<<20 {
				return appendZero(dst, whole, fraction)
			}
		}
		if down {
			shift = -shift
		}
	}
	fraction = bytes.TrimRight(fraction, "0")
	digits := bytes.TrimLeft(whole, "0")
	shift -= len(fraction)
	if len(digits) == 0 {
		fraction = bytes.TrimLeft(fraction, "0")
	}
	if len(digits)+len(fraction) == 0 {
		return append(dst, '0'), true
	}
	if shift < 0 { // only zeros may be cut off
		if len(fraction) > 0 || len(bytes.TrimRight(digits, "0"))+-shift > len(digits) {
			return dst, false
		}
		digits, shift = digits[:len(digits)+shift], 0
	}
	if len(digits)+len(fraction)+shift > most {
		return dst, false
	}
	if sign {
		dst = append(dst, '-')
	}
	dst = append(append(dst, digits...), fraction...)
	for range shift {
		dst = append(dst, '0')
	}
	return dst, true
}

// appendZero is appendPlain for a number whose exponent is too large for any value but zero.
func appendZero(dst, whole, fraction []byte) ([]byte, bool) {
	if len(bytes.Trim(whole, "0"))+len(bytes.Trim(fraction, "0")) > 0 {
		return dst, false
	}
	return append(dst, '0'), true
}
