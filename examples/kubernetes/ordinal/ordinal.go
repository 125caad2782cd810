// Package ordinal reads the ordinal of a StatefulSet's pod from its name.
//
// An ordinal alone is not a safe worker code: see the README beside this package, and give
// it to snowflake.StaticLease only together with marks in a database that all pods share.
package ordinal

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse returns the ordinal at the end of a pod's name, such as 10 for "api-10". It must be
// a worker code: below codes, which a layout has 1<<WorkerBits of in a region.
//
// It is strict, because a number that is guessed is a code that two processes use: the name
// must be a StatefulSet's, a hyphen, and a decimal number without a sign or leading zeros.
// The pods of a Deployment have no ordinals, though theirs is an ending of five letters and
// digits that may be digits only; such a number is above 20,000, and so is refused where
// there are fewer codes.
func Parse(pod string, codes int) (int, error) {
	fail := func(why string) (int, error) {
		return 0, fmt.Errorf("ordinal: pod name %q: %s: it must be that of a StatefulSet's pod, as in \"api-10\"", pod, why)
	}
	if codes < 1 {
		return 0, fmt.Errorf("ordinal: there are %d codes, must be at least 1", codes)
	}
	hyphen := strings.LastIndexByte(pod, '-')
	if hyphen < 0 {
		return fail("there is no hyphen")
	}
	set, digits := pod[:hyphen], pod[hyphen+1:]
	if !isLabel(set) {
		return fail("what is before the last hyphen is no name of a StatefulSet")
	}
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits || n < 0 {
		return fail("what is behind the last hyphen is no ordinal")
	}
	if n >= codes {
		return 0, fmt.Errorf("ordinal: pod name %q: the ordinal is %d, must be below %d, the number of worker codes: scale down, or plan a layout with more", pod, n, codes)
	}
	return n, nil
}

// isLabel says whether a name is one that a pod's host name can begin with: a label as in
// RFC 1123, in lower case.
func isLabel(name string) bool {
	for i := range len(name) {
		c := name[i]
		inside := i > 0 && i < len(name)-1
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || !inside) {
			return false
		}
	}
	return name != "" && len(name) <= 63
}
