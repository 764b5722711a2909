package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-quick", "-arms", "pilotlight,floor", "-json", "x.json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 3 || len(o.arms) != 2 || o.arms[0].name != floorArm || len(o.cases) != len(allCases) {
		t.Errorf("got %d rounds of %v", o.rounds, o.arms)
	}
	if o.command != "go run ./internal/bench -arms pilotlight,floor -quick" {
		t.Errorf("got %q", o.command)
	}
	for _, arguments := range [][]string{{"-rounds", "0"}, {"-scale", "-1"}, {"-arms", "apache"}, {"-cases", "c1,c2"}, {"origins"}} {
		if _, err := parse(arguments, io.Discard); err == nil {
			t.Errorf("%q: no error", arguments)
		}
	}
	if _, err := parse([]string{"-arms", "apache,floor"}, io.Discard); !strings.Contains(err.Error(), "got apache") {
		t.Errorf("got %v", err)
	}
}

func TestEveryRoundBeginsWithAnotherArm(t *testing.T) {
	t.Parallel()
	var first []string
	for round := range allArms {
		order := rotated(allArms, round)
		if len(order) != len(allArms) {
			t.Fatalf("got %d arms, want %d", len(order), len(allArms))
		}
		first = append(first, order[0].name)
	}
	if !slices.Equal(first, armNames()) {
		t.Errorf("got %v, want %v", first, armNames())
	}
}
