// A yardstick for the kubelet's arithmetic: what its own functions make of pods.
//
// One JSON object per line in, one per line out, in the same order:
//
//	{"quantity":"1.5Gi"}                        {"milli":N,"value":N} or {"error":"..."}
//	{"milli":N,"period":N}                      {"shares":N,"quota":N}
//	{"threshold":"10%","memory":N}              {"value":N}
//	{"pod":{...},"period":N,"quota":B,"tiered":B,"factor":F}
//	    {"qos":..,"requests":{..},"limits":{..},"cgroup":{..}}
//	{"pods":[{...}],"memory":N,"percent":N,"tiered":B}
//	    {"classes":{"Guaranteed":{..},"Burstable":{..},"BestEffort":{..}}}
//
// A pod gets the defaults that the API server gives it first. Sums of CPU are in
// thousandths, a cgroup has only what the kubelet writes to it, and Guaranteed is the
// cgroup of all pods. The files that only cgroup v2 has are missing among the classes
// where this machine has cgroup v1.
//
// Each function gets a copy of the pod: where an amount is not a whole number of units,
// PodRequests adds a pod's overhead to the pod's own amount in place, and would add it
// again at its next call.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
)

type query struct {
	Quantity  *string   `json:"quantity"`
	Milli     *int64    `json:"milli"`
	Threshold *string   `json:"threshold"`
	Pod       *v1.Pod   `json:"pod"`
	Pods      []*v1.Pod `json:"pods"`
	Period    uint64    `json:"period"`
	Quota     bool      `json:"quota"`
	Tiered    bool      `json:"tiered"`
	Factor    *float64  `json:"factor"`
	Memory    int64     `json:"memory"`
	Percent   *int64    `json:"percent"`
}

// What the kubelet writes to a cgroup; what it does not write is missing.
type written struct {
	Shares  *uint64           `json:"shares,omitempty"`
	Quota   *int64            `json:"quota,omitempty"`
	Period  *uint64           `json:"period,omitempty"`
	Memory  *int64            `json:"memory,omitempty"`
	Unified map[string]string `json:"unified,omitempty"`
}

const fixDefaulting = "PodLevelResourcesFixDefaulting"

type answer map[string]any

func main() {
	// Lets the kubelet look at qosReserved.
	set("QOSReserved=true")
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-values:", err)
		os.Exit(1)
	}
}

func set(gate string) {
	if err := utilfeature.DefaultMutableFeatureGate.Set(gate); err != nil {
		panic(err)
	}
}

// Give a pod the API server's defaults: amounts are rounded to thousandths, then absent
// requests are filled in. Since 1.37 the server fills in the pod's own ones after
// admission, and this function does so only without the gate.
func setDefaults(one *v1.Pod) {
	corev1.SetObjectDefaults_Pod(one)
	set(fixDefaulting + "=false")
	corev1.SetDefaults_Pod(one)
	set(fixDefaulting + "=true")
}

func serve() error {
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var q query
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		a, err := reply(q)
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

func reply(q query) (answer, error) {
	switch {
	case q.Quantity != nil:
		amount, err := resource.ParseQuantity(*q.Quantity)
		if err != nil {
			return answer{"error": err.Error()}, nil
		}
		return answer{"milli": amount.MilliValue(), "value": amount.Value()}, nil
	case q.Milli != nil:
		return answer{
			"shares": cm.MilliCPUToShares(*q.Milli),
			"quota":  cm.MilliCPUToQuota(*q.Milli, int64(q.Period)),
		}, nil
	case q.Threshold != nil:
		return threshold(*q.Threshold, q.Memory)
	case q.Pod != nil:
		return pod(q), nil
	case q.Pods != nil:
		return classes(q)
	}
	return nil, fmt.Errorf("neither quantity, milli, threshold, pod nor pods")
}

func threshold(given string, memory int64) (answer, error) {
	found, err := eviction.ParseThresholdConfig(
		nil, map[string]string{"memory.available": given}, nil, nil, nil)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("threshold: %v, %w", found, err)
	}
	capacity := resource.NewQuantity(memory, resource.BinarySI)
	return answer{"value": evictionapi.GetThresholdQuantity(found[0].Value, capacity).Value()}, nil
}

func policy(tiered bool) kubeletconfig.MemoryReservationPolicy {
	if tiered {
		return kubeletconfig.TieredReservationMemoryReservationPolicy
	}
	return kubeletconfig.NoneMemoryReservationPolicy
}

func pod(q query) answer {
	setDefaults(q.Pod)
	config := cm.ResourceConfigForPod(q.Pod.DeepCopy(), q.Quota, q.Period, true, policy(q.Tiered))
	if q.Factor != nil {
		cm.ApplyPodLevelMemoryHigh(q.Pod.DeepCopy(), config, *q.Factor)
	}
	options := resourcehelper.PodResourcesOptions{}
	return answer{
		"qos":      v1qos.GetPodQOS(q.Pod),
		"requests": sums(resourcehelper.PodRequests(q.Pod.DeepCopy(), options)),
		"limits":   sums(resourcehelper.PodLimits(q.Pod.DeepCopy(), options)),
		"cgroup":   of(config),
	}
}

func sums(list v1.ResourceList) map[string]int64 {
	return map[string]int64{"cpu": list.Cpu().MilliValue(), "memory": list.Memory().Value()}
}

func of(config *cm.ResourceConfig) written {
	return written{config.CPUShares, config.CPUQuota, config.CPUPeriod, config.Memory, config.Unified}
}
