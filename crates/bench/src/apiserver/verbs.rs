//! Measures the throughput of writes and reads with Pintle's client over HTTP/2.

use super::{Setting, config_map, each, make_namespace, runtime};
use crate::meter::{Sample, Tally, measure};

const AT_ONCE: usize = 64;

pub(super) fn writes(setting: &Setting) -> Sample {
    let runtime = runtime();
    let client = runtime.block_on(setting.client());
    let n = setting.size(40_000);
    runtime.block_on(make_namespace(&client, "writes"));
    measure(|| {
        runtime.block_on(each(n, AT_ONCE, move |i| {
            let create = client.post().abs_path(["/api/v1"]).namespace("writes").resource("configmaps");
            let create = create.json(&config_map(&format!("c{i}"), "value"));
            async move { drop(create.raw().await.expect("cannot create a config map")) }
        }));
        Tally::operations(n)
    })
}

pub(super) fn reads(setting: &Setting) -> Sample {
    const OBJECTS: usize = 1_000;
    let runtime = runtime();
    let client = runtime.block_on(setting.client());
    let n = setting.size(100_000);
    runtime.block_on(async {
        make_namespace(&client, "reads").await;
        super::make_maps(&client, "reads", OBJECTS).await;
    });
    measure(|| {
        runtime.block_on(each(n, AT_ONCE, move |i| {
            let get = client.get().abs_path(["/api/v1"]).namespace("reads").resource("configmaps");
            let get = get.name(format!("c{}", i % OBJECTS));
            async move { drop(get.raw().await.expect("cannot get a config map")) }
        }));
        Tally::operations(n)
    })
}
