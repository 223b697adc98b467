# Runs in the guest, once: makes it a machine on which Kubernetes' own tests of a node
# can run. They start kubelet by themselves; the API server is that of the node's cluster.
set -e
home=/var/lib/e2e
mkdir -p $home/report
/node/bin/kubernetes stop

# The value of a word such as node.api=6443 on the kernel's command line.
told() { sed -n "s/.*\bnode\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

# The tests look for kubelet beside their own program.
cp /with/e2e_node.test $home/
ln -s /node/bin/kubelet $home/kubelet
echo "--host=https://10.0.2.2:$(told api) --bearer-token=$(told token)" >$home/cluster
cp /etc/kubernetes/kubelet.yaml $home/kubelet.yaml
# They ask kubelet for its configuration on the usual port.
systemd-run -q --unit=usual-port --socket-property=ListenStream=127.0.0.1:10250 \
    /usr/lib/systemd/systemd-socket-proxyd "127.0.0.1:$(told kubelet)"

# The tests call sudo, and they run as root already.
printf '#!/bin/sh\nexec "$@"\n' >/usr/local/bin/sudo
chmod +x /usr/local/bin/sudo

# There is no registry: the images that the tests name are all the same one.
for image in $IMAGES; do
    ctr -n k8s.io images tag --force localhost/box:1 "$image" >/dev/null
done

# The kernel's options are not in Debian's package, so the tests cannot look at them.
cat >$home/system.yaml <<END
os: Linux
kernelSpec:
  versions: [".*"]
END

# For the tests about swap; without them, kubelet does not use it.
dd if=/dev/zero of=/swap bs=1M count=256 status=none
chmod 600 /swap
mkswap -q /swap
swapon /swap
