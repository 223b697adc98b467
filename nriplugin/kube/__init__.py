"""What Kubernetes makes of a pod: quantities, QoS class, kubelet's numbers. Pure."""

from __future__ import annotations
