//! Runs one workload of the benchmark area `rest` once, with kube-rs: `rest WORK --server KUBECONFIG [--quick]`.

fn main() {
    kube_peer::rest::main();
}
