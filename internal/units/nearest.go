package units

import (
	"strings"
	"unicode/utf8"
)

// Nearest returns the one of names that text was probably meant to be, or "". The first of several equally near ones wins.
func Nearest(text string, names []string) string {
	best, bestDistance := "", 1+utf8.RuneCountInString(text)/4
	for _, name := range names {
		if d := distance(fold(text), fold(name)); d < bestDistance || (d == bestDistance && best == "") {
			best, bestDistance = name, d
		}
	}

	return best
}

// fold removes what people write differently: case, hyphens and underscores.
func fold(text string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(text))
}

// maxCompared bounds what is compared: no key is that long.
const maxCompared = 64

// distance is the number of letters to insert, delete, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	if len(from) > maxCompared || len(to) > maxCompared {
		return maxCompared
	}
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(from); i++ {
		for j := 1; j <= len(to); j++ {
			replaced := rows[i-1][j-1]
			if from[i-1] != to[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && from[i-1] == to[j-2] && from[i-2] == to[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}

	return rows[len(from)][len(to)]
}
