// A yardstick for the arithmetic: the conversions of the library that runc and
// the kubelet write cgroup v2 files with.
//
// One JSON object per line in, one per line out, in the same order:
//
//	{"shares":N}             {"result":N}
//	{"memory":N,"swap":N}    {"result":N} or {"error":"..."}
//	{"blkio":N}              {"result":N}
//
// Results are numbers of the library's own types, so a 0 is its "not given".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/opencontainers/cgroups"
)

type query struct {
	Shares *uint64 `json:"shares"`
	Memory int64   `json:"memory"`
	Swap   *int64  `json:"swap"`
	Blkio  *uint16 `json:"blkio"`
}

type answer struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "convert:", err)
		os.Exit(1)
	}
}

func serve() error {
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var q query
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		a, err := convert(q)
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if err := encoder.Encode(a); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func convert(q query) (answer, error) {
	switch {
	case q.Shares != nil:
		return answer{Result: cgroups.ConvertCPUSharesToCgroupV2Value(*q.Shares)}, nil
	case q.Swap != nil:
		swap, err := cgroups.ConvertMemorySwapToCgroupV2Value(*q.Swap, q.Memory)
		if err != nil {
			return answer{Error: err.Error()}, nil
		}
		return answer{Result: swap}, nil
	case q.Blkio != nil:
		return answer{Result: cgroups.ConvertBlkIOToIOWeightValue(*q.Blkio)}, nil
	}
	return answer{}, fmt.Errorf("neither shares, swap nor blkio")
}
