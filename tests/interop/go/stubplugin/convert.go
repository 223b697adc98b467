package main

import (
	"strconv"

	"github.com/containerd/nri/pkg/api"
)

const (
	minShares     = 2
	maxShares     = 262144
	defaultPeriod = 100000
)

// unified derives cgroup v2 keys from the limits that are set; a zero is a
// limit that was not given.
func unified(r *api.LinuxResources) map[string]string {
	keys := make(map[string]string, 3)
	if shares := r.GetCpu().GetShares().GetValue(); shares != 0 {
		keys["cpu.weight"] = strconv.FormatUint(cpuWeight(shares), 10)
	}
	if quota := r.GetCpu().GetQuota().GetValue(); quota != 0 {
		keys["cpu.max"] = cpuMax(quota, r.GetCpu().GetPeriod().GetValue())
	}
	if limit := r.GetMemory().GetLimit().GetValue(); limit != 0 {
		keys["memory.max"] = limitOrMax(limit)
	}
	return keys
}

// cpuWeight maps 2..262144 linearly to 1..10000.
func cpuWeight(shares uint64) uint64 {
	shares = min(max(shares, minShares), maxShares)
	return 1 + ((shares-minShares)*9999)/(maxShares-minShares)
}

func cpuMax(quota int64, period uint64) string {
	if period == 0 {
		period = defaultPeriod
	}
	return limitOrMax(quota) + " " + strconv.FormatUint(period, 10)
}

// limitOrMax writes a limit; negative ones mean there is none.
func limitOrMax(limit int64) string {
	if limit < 0 {
		return "max"
	}
	return strconv.FormatInt(limit, 10)
}
