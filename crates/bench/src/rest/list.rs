//! A list of 20,000 pods, of which nobody wants to keep any.

use std::pin::pin;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use pintle_meta::{ClientConfig, ListOptions, ListPart, ListWatch};
use pintle_restreq::{Api, RestClient};
use tokio::runtime::Runtime;

use super::Setting;
use crate::Sample;
use crate::meter::{Tally, measure};

/// Each is decoded as it comes, and dropped. The window is the list; a small one before it has the program loaded and connected.
pub(super) fn list(how: &Setting, runtime: &Runtime) -> Sample {
    let client = RestClient::new(ClientConfig::new(how.server.as_str())).expect("a client can be made");
    let pods: Api<Pod> = Api::all(client);
    runtime.block_on(read(&pods, 100));
    measure(|| Tally::operations(runtime.block_on(read(&pods, 0))))
}

/// How many there were; all, if the limit is 0.
async fn read(pods: &Api<Pod>, limit: u32) -> usize {
    let mut read = 0;
    let page = ListWatch::list(pods, &ListOptions { limit, ..ListOptions::default() }).await;
    let mut page = pin!(page.expect("the server answers"));
    while let Some(part) = page.next().await {
        if let ListPart::Item(item) = part.expect("the list comes whole") {
            let pod: Pod = item.decode().expect("a pod");
            read += usize::from(pod.metadata.name.is_some());
        }
    }
    read
}
