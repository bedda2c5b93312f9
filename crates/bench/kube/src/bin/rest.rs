//! Runs one workload of the area `rest` on kube-rs once: `rest WORK --server KUBECONFIG [--quick]`.

fn main() {
    kube_peer::rest::main();
}
