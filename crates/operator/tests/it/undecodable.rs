//! Tests with objects that cannot be decoded.

use std::env;
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;

use pintle_controller::Trigger;
use pintle_meta::{DeleteOptions, ObjectKey, ObjectMeta, WriteOptions};
use pintle_operator::{Action, Context, Controller, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use crate::http::{get, listen};
use crate::support::{Running, World, eventually, soon};

/// The environment variable that marks the process as the child process of a test.
const CHILD: &str = "PINTLE_TEST_UNDECODABLE_CHILD";

/// A type with the required field `owner`, which the installed definition does not require.
#[derive(Debug, Deserialize, Serialize)]
struct OwnedWebsite {
    metadata: ObjectMeta,
    owner: String,
}
pintle_meta::resource!(OwnedWebsite, "example.com/v1", "Website", "websites", Namespaced);

/// Runs an operator whose only object cannot be decoded, and prints the debug page when it shows the object.
async fn child() -> Result<()> {
    let world = World::with_site("blog").await;
    let controller =
        Controller::<OwnedWebsite>::new().reconcile(async |_: Arc<OwnedWebsite>, _: Context<OwnedWebsite>| {
            writeln!(std::io::stdout(), "called")?;
            Ok(Action::await_change())
        });
    let (listener, address) = listen().await;
    let running = Running::start(world.manager().serve_on(listener).controller(controller));
    let informer = eventually("the page shows the object", async || {
        let json: Value = serde_json::from_str(&get(address, "/debug.json").await?.1).ok()?;
        Some(json["informers"][0].clone()).filter(|informer| informer["undecodable"] == 1)
    });
    writeln!(std::io::stdout(), "{}", informer.await["first_undecodable"])?;
    running.stop().await?;
    Ok(())
}

/// Runs this binary as a child process, because another test may have installed a subscriber in this process.
#[test]
fn undecodable_objects_are_reported_without_a_subscriber() -> Result<()> {
    if env::var_os(CHILD).is_some() {
        return tokio::runtime::Runtime::new()?.block_on(child());
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["undecodable::undecodable_objects_are_reported_without_a_subscriber", "--exact", "--nocapture"]);
    let output = command.env(CHILD, "1").output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !out.contains("called"), "{out}\n{errors}");
    let reason = "missing field `owner`";
    assert!(out.contains("default/blog cannot be decoded: ") && out.contains(reason), "{out}\n{errors}");
    let warning = "pintle: informer \"OwnedWebsite\" cannot decode default/blog, so its object is not in the cache: ";
    assert!(errors.contains(warning) && errors.contains(reason), "{errors}");
    assert_eq!(errors.matches("cannot decode").count(), 1, "{errors}");
    Ok(())
}

/// A website whose domain must be an IP address, although the installed definition allows every domain.
#[derive(Debug, Deserialize, Serialize)]
struct AddressWebsite {
    metadata: ObjectMeta,
    spec: AddressSpec,
}
pintle_meta::resource!(AddressWebsite, "example.com/v1", "Website", "websites", Namespaced);

#[derive(Debug, Deserialize, Serialize)]
struct AddressSpec {
    domain: Ipv4Addr,
}

#[tokio::test]
async fn recreated_object_is_not_gone_if_undecodable() {
    let world = World::start().await;
    world.install().await;
    let (metadata, spec) = (ObjectMeta::new("default", "blog"), AddressSpec { domain: Ipv4Addr::LOCALHOST });
    let sites = world.cluster.namespaced::<AddressWebsite>("default");
    sites.create(&AddressWebsite { metadata, spec }, &WriteOptions::default()).await.unwrap();
    let ((called, mut calls), (left, mut gone), trigger) = (unbounded_channel(), unbounded_channel(), Trigger::new());
    let controller = Controller::new()
        .source(trigger.clone())
        .gone(move |key, _| {
            let sent = left.send(key);
            async move { Ok(sent?) }
        })
        .reconcile(move |_: Arc<AddressWebsite>, _: Context<AddressWebsite>| {
            let sent = called.send(());
            async move {
                sent?;
                Ok(Action::await_change())
            }
        });
    let running = Running::start(world.manager().controller(controller));
    soon(calls.recv()).await.unwrap();
    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    let (blog, missing) = (ObjectKey::new("default", "blog"), ObjectKey::new("default", "missing"));
    assert_eq!(soon(gone.recv()).await.unwrap(), blog);
    world.create("blog").await;
    let is_undecodable = || world.cluster.informers().informers().iter().any(|informer| informer.undecodable == 1);
    eventually("the object is undecodable", async || is_undecodable().then_some(())).await;
    trigger.trigger(blog);
    trigger.trigger(missing.clone());
    assert_eq!(soon(gone.recv()).await.unwrap(), missing, "the blog exists");
    running.stop().await.unwrap();
}
