package health

import (
	"errors"
	"net/url"
	"strings"
)

// question is what the query of /readyz asks for.
type question struct {
	verbose  bool
	oneModel bool
	model    string
}

func parseQuestion(query string) (question, error) {
	var asked question
	var err error
	asked.model, asked.oneModel, err = QueriedModel(query)
	for parameter := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(parameter, "="); name == "verbose" {
			asked.verbose = value != "false" && value != "0"
		}
	}

	return asked, err
}

// QueriedModel returns the model that a raw query names with model=, and whether it names one.
// The name is percent-decoded once, and a plus sign is a plus sign: it is part of some names, and a name that is read wrong must not be another's.
func QueriedModel(query string) (model string, named bool, err error) {
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if name != "model" {
			continue
		}
		if named {
			return "", true, errors.New("parse query: model is given twice")
		}
		named = true
		if model, err = url.PathUnescape(value); err != nil {
			return "", true, errors.New("parse query: model is not percent-encoded correctly")
		}
	}

	return model, named, nil
}
