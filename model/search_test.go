package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ends of what pan prints.
const (
	wentThrough = "State-vector 68 byte, depth reached 965, errors: 0\n     5210 states, stored\n"
	inBillions  = "State-vector 68 byte, depth reached 965, errors: 0\n 1.25e+09 states, stored\n"
	tooDeep     = "error: max search depth too small\n" + wentThrough
	tooLarge    = "pan: reached -DMEMLIM bound\n\t\tWarning: Search not completed\n" + wentThrough
	equalIDs    = "pan:1: assertion violated ((on!=0)|| !((used&(1<<q)))) (at depth 43)\n\t\tWarning: Search not completed\n" +
		"State-vector 60 byte, depth reached 90, errors: 1\n      20 states, stored\n"
	blocked = "pan:1: invalid end state (at depth 7)\nState-vector 60 byte, depth reached 9, errors: 1\n      20 states, stored\n"
)

func TestOnlyAWholeSearchIsSound(t *testing.T) {
	sound := search{file: lease}
	require.NoError(t, sound.judge(parse(wentThrough)))
	require.Equal(t, int64(5210), parse(wentThrough).states)
	require.Equal(t, int64(1_250_000_000), parse(inBillions).states)
	require.ErrorContains(t, sound.judge(parse(tooDeep)), "not exhaustive")
	require.ErrorContains(t, sound.judge(parse(tooLarge)), "not exhaustive")
	require.ErrorContains(t, sound.judge(parse(equalIDs)), "equal IDs")
	require.ErrorContains(t, sound.judge(parse(blocked)), "invalid end state")
	require.ErrorContains(t, sound.judge(parse("Killed\n")), "no summary")
}

func TestABreakMustBeFound(t *testing.T) {
	broken := search{file: lease, name: "IGNORE_FLOOR"}
	require.NoError(t, broken.judge(parse(equalIDs)))
	require.Equal(t, int64(43), parse(equalIDs).depth)
	require.ErrorContains(t, broken.judge(parse(wentThrough)), "not found")
	require.ErrorContains(t, broken.judge(parse(blocked)), "invalid end state")
	require.ErrorContains(t, broken.judge(parse("Killed\n")), "no summary")
}

func TestEachBreakIsInItsModel(t *testing.T) {
	for _, s := range broken() {
		text, err := models.ReadFile(s.file)
		require.NoError(t, err)
		require.Contains(t, string(text), s.name)
		require.NotEmpty(t, strings.TrimSpace(s.stands), s.name)
	}
}
