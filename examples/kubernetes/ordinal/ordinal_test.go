package ordinal

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for pod, want := range map[string]int{
		"x-0": 0, "x-1": 1, "x-10": 10, "x-1023": 1023, "api-server-7": 7, "7-8": 8, "a--b-3": 3, strings.Repeat("x", 63) + "-1": 1,
	} {
		got, err := Parse(pod, 1024)
		require.NoError(t, err, pod)
		require.Equal(t, want, got, pod)
	}
	for name, pod := range map[string]string{
		"above the codes":                        "x-1024",
		"far above them":                         "x-18446744073709551626", // 10, if it wrapped
		"a Deployment's pod":                     "api-7f9c-ab12",
		"a Deployment's pod that ends in digits": "api-7f9c4d8b6-24567",
		"a leading zero":                         "x-01",
		"zeros":                                  "x-00",
		"two hyphens":                            "x--1",
		"a sign":                                 "x-+1",
		"no number":                              "x-",
		"nothing":                                "",
		"a digit that is not ASCII":              "x-１",
		"Arabic digits":                          "x-١٠",
		"no hyphen":                              "x10",
		"a number only":                          "10",
		"no set":                                 "-10",
		"hexadecimal":                            "x-0x1",
		"an underscore":                          "x-1_0",
		"an exponent":                            "x-1e1",
		"a fraction":                             "x-1.0",
		"space before":                           " x-1",
		"space behind":                           "x-1 ",
		"space between":                          "x- 1",
		"a line break":                           "x-1\n",
		"a zero byte":                            "x-1\x00",
		"a domain":                               "x-1.x.default.svc.cluster.local",
		"upper case":                             "X-1",
		"a set that begins with a hyphen":        "-x-1",
		"a set that is too long":                 strings.Repeat("x", 64) + "-1",
		"another dash":                           "x–1",
	} {
		got, err := Parse(pod, 1024)
		require.Error(t, err, name)
		require.Zero(t, got, name)
	}
	_, err := Parse("x-1024", 1024)
	require.EqualError(t, err, `ordinal: pod name "x-1024": the ordinal is 1024, must be below 1024, the number of worker codes: scale down, or plan a layout with more`)
	_, err = Parse("x-01", 1024)
	require.ErrorContains(t, err, `pod name "x-01"`)
}

func TestCodes(t *testing.T) {
	_, err := Parse("x-1", 1)
	require.ErrorContains(t, err, "must be below 1")
	for _, codes := range []int{0, -1, math.MinInt} {
		_, err := Parse("x-0", codes)
		require.ErrorContains(t, err, "must be at least 1")
	}
}

// What is accepted has one spelling, and another pod's name has another code.
func FuzzParse(f *testing.F) {
	for _, pod := range []string{"x-10", "x-1024", "api-7f9c-ab12", "x-01", "x--1", "x-+1", "x-", "", "x-１", "a-b-0"} {
		f.Add(pod, 1024)
	}
	f.Add("x-9223372036854775807", math.MaxInt)
	strict := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?-(0|[1-9][0-9]*)$`)
	f.Fuzz(func(t *testing.T, pod string, codes int) {
		n, err := Parse(pod, codes)
		if err != nil {
			require.Zero(t, n)
			return
		}
		require.Regexp(t, strict, pod)
		require.GreaterOrEqual(t, n, 0)
		require.Less(t, n, codes)
		require.True(t, strings.HasSuffix(pod, "-"+strconv.Itoa(n)))
	})
}
