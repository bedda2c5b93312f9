//! A test that the operator, the server and the test share one clock.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::Time;
use pintle_operator::{Action, Context, Controller, Manager, Result};
use pintle_testkit::Kit;

use crate::website::{Website, site};

const DAY: Duration = Duration::from_secs(86_400);

/// Deletes each site one day after it was created.
async fn expire(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    let age = Time::now().duration_since(created(&site));
    if age < DAY {
        return Ok(Action::requeue_after(DAY - age));
    }
    cx.delete(&site).await?;
    Ok(Action::await_change())
}

fn created(site: &Website) -> Time {
    site.metadata.creation_timestamp.expect("a created site")
}

#[test]
fn object_is_deleted_a_day_after_its_creation() {
    let operator = |cluster| {
        let controller = Controller::new().reads::<Website>().reconcile(expire);
        Manager::new("expiry", cluster).install::<Website>().controller(controller)
    };
    let report = Kit::new(operator).run(async |lab| {
        lab.create(&site("blog")).await?;
        let blog = lab.user().api::<Website>().get("default/blog").await?;
        assert!(Time::now().duration_since(created(&blog)) < DAY);
        tokio::time::sleep(DAY - Duration::from_secs(60)).await;
        assert!(lab.get::<Website>("blog").await?.is_some(), "the site expires after a day");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(lab.get::<Website>("blog").await?.is_none(), "the site has expired");
        Ok(())
    });
    report.unwrap();
}
