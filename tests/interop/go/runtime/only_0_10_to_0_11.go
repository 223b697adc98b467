//go:build nri010 && !nri012

package main

import "github.com/containerd/nri/pkg/adaptation"

var postUpdatePodSandbox = stateChange((*adaptation.Adaptation).PostUpdatePodSandbox)
