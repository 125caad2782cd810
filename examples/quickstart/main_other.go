//go:build !unix

package main

import "log"

func main() { log.Fatal("quickstart needs signals and flock, which this platform does not have") }
