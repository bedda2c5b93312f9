//! Tests of commands, logs and port forwarding in a real cluster. `PINTLE_TEST_KUBECONFIG` is the path of a kubeconfig.
//! `PINTLE_TEST_POD` is the `namespace/name` of a running pod with a shell. `PINTLE_TEST_POD_PORT` is a port of this
//! pod. A process must listen on this port and echo all data.

use std::io;

use pintle_meta::{ApiResource, DeleteOptions, DynamicObject, Patch, Scope, WriteOptions};
use pintle_restreq::{Api, ExecError, ExecOptions, LogOptions, RestClient, TerminalSize};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::real::{config, in_namespace};
use crate::support::{closed_port, soon};
use crate::websocket_server::V5;

fn pods_in(client: RestClient, namespace: &str) -> Api<DynamicObject> {
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    Api::dynamic(client, pods, Some(namespace)).unwrap()
}

/// Returns an `Api` for the namespace of the configured pod, and the name of the pod. If no pod is configured, prints a
/// message and returns `None`.
#[allow(clippy::print_stderr)]
fn real_pod() -> Option<(Api<DynamicObject>, String)> {
    let config = config()?;
    let Ok(pod) = std::env::var("PINTLE_TEST_POD") else {
        eprintln!("skipped: PINTLE_TEST_POD names no running pod");
        return None;
    };
    let (namespace, name) = pod.split_once('/').expect("PINTLE_TEST_POD is namespace/name");
    Some((pods_in(RestClient::new(config).unwrap(), namespace), name.to_owned()))
}

#[tokio::test]
async fn commands_run_in_a_real_pod() {
    let Some((pods, name)) = real_pod() else { return };
    let pod = name.as_str();
    let script = |script: &str| ["sh".to_owned(), "-c".to_owned(), script.to_owned()];
    soon(async {
        let both = pods.exec(pod, script("echo out; echo err >&2; exit 3"), &ExecOptions::default()).await.unwrap();
        let output = both.wait_with_output().await.unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.unwrap_err().exit_code(), Some(3));

        // With the old protocol, `cat` would never end, because the protocol cannot signal the end of the input.
        let mut cat = pods.exec(pod, ["head", "-c", "4194304"], &ExecOptions::with_stdin()).await.unwrap();
        if cat.protocol() == V5 {
            cat = pods.exec(pod, ["cat"], &ExecOptions::with_stdin()).await.unwrap();
        }
        let can_close = cat.protocol() == V5;
        let (mut stdin, mut stdout) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let input: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
        let write = async {
            stdin.write_all(&input).await?;
            if can_close { stdin.shutdown().await } else { stdin.flush().await }
        };
        let mut echo = Vec::new();
        tokio::try_join!(write, stdout.read_to_end(&mut echo)).unwrap();
        assert!(echo == input, "{} of {} bytes", echo.len(), input.len());
        cat.status().await.unwrap();

        let mut many = pods.exec(pod, script("head -c 50000000 /dev/zero"), &ExecOptions::default()).await.unwrap();
        many.status().await.unwrap();
        let mut missing = pods.exec(pod, ["/no/such/program"], &ExecOptions::default()).await.unwrap();
        let error = missing.status().await.unwrap_err();
        assert!(matches!(error, ExecError::Failed { .. } | ExecError::ExitCode { .. }), "{error}");

        let mut shell = pods.exec(pod, script("cat"), &ExecOptions::terminal()).await.unwrap();
        shell.terminal.take().unwrap().resize(TerminalSize { width: 80, height: 24 }).unwrap();
        drop(shell);
        assert!(
            !pods.logs(pod, &LogOptions { tail_lines: Some(2), ..LogOptions::default() }).await.unwrap().is_empty()
        );
    })
    .await;
}

#[tokio::test]
async fn ports_of_a_real_pod_are_forwarded() {
    let (Some((pods, name)), Ok(port)) = (real_pod(), std::env::var("PINTLE_TEST_POD_PORT")) else { return };
    soon(async {
        let mut echo = pods.port_forward(name.as_str(), port.parse().unwrap()).await.unwrap();
        echo.write_all(b"hello").await.unwrap();
        let mut text = [0; 5];
        echo.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
        let mut closed = pods.port_forward(name.as_str(), 1).await.unwrap();
        let error: io::Error = closed.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn exec_on_an_unreachable_node_names_the_cause() {
    in_namespace("exec", |client, namespace| async move {
        let nodes = ApiResource::new("v1", "Node", "nodes", Scope::Cluster);
        let nodes: Api<DynamicObject> = Api::dynamic(client.clone(), nodes, None).unwrap();
        let pods = pods_in(client, &namespace);
        let object = |value| serde_json::from_value::<DynamicObject>(value).unwrap();
        let write = WriteOptions::default();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"nodeName": namespace, "containers": [{"name": "main", "image": "none"}]}});
        pods.create(&object(pod), &write).await.unwrap();
        let unknown = pods.exec("web", ["true"], &ExecOptions::default()).await.unwrap_err();
        assert!(unknown.to_string().contains(&format!("\"{namespace}\" not found")), "{unknown}");
        let missing = pods.exec("other", ["true"], &ExecOptions::default()).await.unwrap_err();
        assert!(missing.is_not_found(), "{missing}");

        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": namespace}});
        nodes.create(&object(node), &write).await.unwrap();
        let port = closed_port().await.port();
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
        nodes.patch_status(namespace.as_str(), &Patch::Merge(status), &write).await.unwrap();
        // For a command, the server accepts the upgrade before connecting to the node.
        let mut process = pods.exec("web", ["true"], &ExecOptions::default()).await.unwrap();
        let error = process.status().await.unwrap_err();
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}: connect: connection refused")), "{error}");
        // For port forwarding, the server connects to the node before accepting the upgrade.
        let refused = pods.port_forward("web", 80).await.unwrap_err();
        assert!(refused.to_string().contains(&format!("127.0.0.1:{port}")), "{refused}");
        nodes.delete(namespace.as_str(), &DeleteOptions::default()).await.unwrap();
    })
    .await;
}
