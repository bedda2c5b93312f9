//! Tests with operators whose calls fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_meta::ObjectMeta;
use pintle_operator::{Action, Context, Controller, Manager, ReconcileError, Result};
use pintle_testkit::{Kit, Violation};
use serde::{Deserialize, Serialize};

use crate::website::{ConfigMap, Website, config_map, operator, site};

fn manager(cluster: Cluster, controller: Controller<Website>) -> Manager {
    Manager::new("failures", cluster).install::<Website>().controller(controller)
}

/// Applies a map, and then always fails, because the controller does not own the kind of the next child.
async fn apply_twice(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    cx.apply_unowned(config_map(&site)).await?;
    cx.apply(config_map(&site)).await?;
    Ok(Action::await_change())
}

fn forgets_owns(cluster: Cluster) -> Manager {
    manager(cluster, Controller::new().reads::<ConfigMap>().reconcile(apply_twice))
}

#[test]
fn failed_wait_shows_the_error_of_the_reconciler() {
    let ended = Kit::new(forgets_owns).run(async |lab| {
        lab.create(&site("blog")).await?;
        lab.until("blog", "is ready", |site: Option<&Website>| site.is_some_and(Website::is_ready)).await?;
        Ok(())
    });
    let text = ended.unwrap_err().to_string();
    assert!(
        text.contains("\nthe operator reported:\n  operator-1: controller \"website\" fails for default/blog: "),
        "{text}"
    );
    assert!(text.contains(".owns::<ConfigMap>()"), "{text}");
}

/// A kind whose CustomResourceDefinition is not installed.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Certificate {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Certificate, "example.com/v1", "Certificate", "certificates", Namespaced);

/// A type that does not match the definition: the server accepts a website without an owner.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OwnedWebsite {
    metadata: ObjectMeta,
    owner: String,
}
pintle_meta::resource!(OwnedWebsite, "example.com/v1", "Website", "websites", Namespaced);

#[test]
fn failed_wait_shows_why_no_reconciler_is_called() {
    let missing = |cluster| {
        let publish = |_: Arc<Website>, _: Context<Website>| async { Ok(Action::await_change()) };
        manager(cluster, Controller::new().reads::<Certificate>().reconcile(publish))
    };
    let undecodable = |cluster| {
        let publish = |_: Arc<OwnedWebsite>, _: Context<OwnedWebsite>| async { Ok(Action::await_change()) };
        Manager::new("failures", cluster)
            .install::<Website>()
            .controller(Controller::<OwnedWebsite>::new().reconcile(publish))
    };
    for (kit, expected) in [
        (Kit::new(missing), "controller \"website\" waits for its source \"Certificate\": "),
        (
            Kit::new(undecodable),
            "cannot decode 1 objects, such as default/blog cannot be decoded: missing field `owner`",
        ),
    ] {
        let ended = kit.run(async |lab| {
            lab.create(&site("blog")).await?;
            lab.until("blog", "is ready", |site: Option<&Website>| site.is_some_and(Website::is_ready)).await?;
            Ok(())
        });
        let text = ended.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}
