//go:build !nri010

package main

const validationSupported = false

// addPodUpdateEvents has nothing to add: pods could not be updated yet.
func addPodUpdateEvents(map[string]eventFunc) {}
