package units

import (
	"math/big"
	"strconv"
	"strings"
)

// maxText bounds what is even looked at, so that nobody can make us compute with a number of a million digits.
const maxText = 64

// unit is one unit and how many of the base unit (nanoseconds, bytes) it is worth.
type unit struct {
	name  string
	worth int64
}

// amount is a written number, "1.5", and the word that follows it, "s". The word ends where the next digit begins.
type amount struct{ number, word string }

// split cuts "1h30m" into its amounts. It does not judge the words.
func split(text string) (amounts []amount, ok bool) {
	for text != "" {
		number, rest := cutNumber(text)
		if number == "" {
			return nil, false
		}
		end := strings.IndexAny(rest, "0123456789.")
		if end < 0 {
			end = len(rest)
		}
		amounts = append(amounts, amount{number, rest[:end]})
		text = rest[end:]
	}

	return amounts, len(amounts) > 0
}

// cutNumber cuts digits with at most one point, with digits on both of its sides, off the front of text.
func cutNumber(text string) (number, rest string) {
	whole := strings.TrimLeft(text, "0123456789")
	end := len(text) - len(whole)
	if end > 0 && strings.HasPrefix(whole, ".") {
		if fraction := len(whole) - 1 - len(strings.TrimLeft(whole[1:], "0123456789")); fraction > 0 {
			end += 1 + fraction
		}
	}

	return text[:end], text[end:]
}

// fault is why an amount could not be scaled; the caller has the words for it.
type fault int

const (
	fine fault = iota
	inexact
	tooLarge
)

// scale multiplies a written number by worth, exactly: no float ever rounds what the user wrote.
func scale(number string, worth int64) (int64, fault) {
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, inexact
	}
	value.Mul(value, new(big.Rat).SetInt64(worth))
	switch {
	case !value.IsInt():
		return 0, inexact
	case !value.Num().IsInt64():
		return 0, tooLarge
	default:
		return value.Num().Int64(), fine
	}
}

// isNumber says whether text is a number without a unit, signed or not.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)

	return err == nil && strings.Trim(text, "+-0123456789.eE_") == ""
}

// tidy removes what people put into numbers and between them and their units.
func tidy(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '_', '\'':
			return -1
		case ',':
			return '.'
		default:
			return r
		}
	}, text)
}

// shorten keeps an error readable when somebody pasted a book into a duration.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}

	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
