//go:build !nri012

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// lifecycleEvents all travel as the same message.
func lifecycleEvents() map[string]eventFunc {
	return map[string]eventFunc{
		"RunPodSandbox":       stateChange((*adaptation.Adaptation).RunPodSandbox),
		"StopPodSandbox":      stateChange((*adaptation.Adaptation).StopPodSandbox),
		"RemovePodSandbox":    stateChange((*adaptation.Adaptation).RemovePodSandbox),
		"PostCreateContainer": stateChange((*adaptation.Adaptation).PostCreateContainer),
		"StartContainer":      stateChange((*adaptation.Adaptation).StartContainer),
		"PostStartContainer":  stateChange((*adaptation.Adaptation).PostStartContainer),
		"PostUpdateContainer": stateChange((*adaptation.Adaptation).PostUpdateContainer),
		"RemoveContainer":     stateChange((*adaptation.Adaptation).RemoveContainer),
	}
}

type stateChangeFunc func(*adaptation.Adaptation, context.Context, *api.StateChangeEvent) error

func stateChange(send stateChangeFunc) eventFunc {
	return func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
		return send(nri, ctx, &api.StateChangeEvent{Pod: o.pod, Container: o.container})
	}
}
