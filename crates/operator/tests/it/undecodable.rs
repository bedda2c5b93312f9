//! Tests with objects that cannot be decoded.

use std::env;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use pintle_meta::ObjectMeta;
use pintle_operator::{Action, Context, Controller, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::{free_address, get};
use crate::support::{Running, World, eventually};

/// The environment variable that marks the child process.
const CHILD: &str = "PINTLE_TEST_UNDECODABLE_CHILD";

/// A type with the required field `owner`. The installed definition does not require the field.
#[derive(Debug, Deserialize, Serialize)]
struct OwnedWebsite {
    metadata: ObjectMeta,
    owner: String,
}
pintle_meta::resource!(OwnedWebsite, "example.com/v1", "Website", "websites", Namespaced);

/// Runs an operator whose only object cannot be decoded. Waits until the debug page shows the object, and then prints
/// it.
async fn child() -> Result<()> {
    let world = World::with_site("blog").await;
    let controller =
        Controller::<OwnedWebsite>::new().reconcile(async |_: Arc<OwnedWebsite>, _: Context<OwnedWebsite>| {
            writeln!(std::io::stdout(), "called")?;
            Ok(Action::await_change())
        });
    let address = free_address().await;
    let running = Running::start(world.manager().serve(address).controller(controller));
    let informer = eventually("the page shows the object", async || {
        let json: Value = serde_json::from_str(&get(address, "/debug.json").await?.1).ok()?;
        Some(json["informers"][0].clone()).filter(|informer| informer["undecodable"] == 1)
    });
    writeln!(std::io::stdout(), "{}", informer.await["first_undecodable"])?;
    running.stop().await?;
    Ok(())
}

/// Runs this binary again as a child process, because another test may have installed a subscriber in the current
/// process.
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
