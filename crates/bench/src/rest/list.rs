//! Measures listing 20,000 pods.

use std::pin::pin;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use pintle_meta::{ClientConfig, ListOptions, ListPart, ListWatch};
use pintle_restreq::{Api, RestClient};
use tokio::runtime::Runtime;

use super::Setting;
use crate::meter::{Sample, Tally, measure};

/// Decodes each pod when it arrives, and then drops it. The measurement covers only the list of all pods. A small
/// list before it warms up the code and opens the connection.
pub(super) fn list(setting: &Setting, runtime: &Runtime) -> Sample {
    let client =
        RestClient::new(ClientConfig::new(setting.server.unwrap_or_default())).expect("cannot create a client");
    let pods: Api<Pod> = Api::all(client);
    runtime.block_on(read(&pods, 100));
    measure(|| Tally::operations(runtime.block_on(read(&pods, 0))))
}

/// Lists and counts pods, up to `limit` pods or all pods if `limit` is 0.
async fn read(pods: &Api<Pod>, limit: u32) -> usize {
    let mut read = 0;
    let page = ListWatch::list(pods, &ListOptions { limit, ..ListOptions::default() }).await;
    let mut page = pin!(page.expect("the server answers"));
    while let Some(part) = page.next().await {
        if let ListPart::Item(item) = part.expect("the list is complete") {
            let pod: Pod = item.decode().expect("a valid pod");
            read += usize::from(pod.metadata.name.is_some());
        }
    }
    read
}
