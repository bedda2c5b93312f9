//! Runs one workload of the `rest` benchmark with kube-rs: `rest WORK --server KUBECONFIG [--quick]`.

fn main() {
    kube_peer::rest::main();
}
