//! Runs one workload of the benchmark area `cache` once, with kube-rs: `cache WORK --server URL [--quick]`.

fn main() {
    kube_peer::main();
}
