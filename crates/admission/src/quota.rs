//! Resource quotas: computes the usage of a write, and checks whether a quota allows the write.

mod pod_usage;
mod scope;
#[cfg(test)]
mod tests;
mod usage;

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_json::Json;
use pintle_schema::quantity::Quantity;

use super::Attempt;
use crate::amounts::Amounts;

pub use usage::applies;

/// Checks whether a quota rejects the write, without computing the usage. If the quota rejects the write, returns an
/// error with the reason.
pub fn check(quota: &Json, attempt: &Attempt<'_>) -> Result<(), String> {
    let name = metadata::name(quota);
    let restricted = restricted(quota, attempt);
    if restricted.0.is_empty() {
        return Ok(());
    }
    let used = Amounts::at(quota, "/status/used");
    if attempt.is_of("pods") {
        pod_usage::check_complete(attempt.object, &restricted).map_err(|why| format!("failed quota: {name}: {why}"))?;
    }
    if restricted.iter().any(|(resource, _)| used.get(resource).is_none()) {
        return Err(format!("status unknown for quota: {name}, resources: {}", names(&restricted)));
    }
    Ok(())
}

/// Returns the quota's `status.used` after the write, or `None` if the usage does not change. If the quota rejects the
/// write, returns an error with the reason.
pub fn charge(quota: &Json, attempt: &Attempt<'_>, now: jiff::Timestamp) -> Result<Option<Amounts>, String> {
    if restricted(quota, attempt).0.is_empty() {
        return Ok(None);
    }
    let name = metadata::name(quota);
    let (hard, used) = (Amounts::at(quota, "/status/hard"), Amounts::at(quota, "/status/used"));
    let mut requested = usage::of(attempt, attempt.object, now);
    let negative = requested.filtered(|_, amount| amount.nanos() < 0);
    if !negative.0.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", names(&negative)));
    }
    if let Some(old) = attempt.old
        && scope::covers(quota, attempt, old)
    {
        requested = requested.minus(&usage::of(attempt, old, now));
    }
    let requested = requested.filtered(|resource, amount| amount.nanos() != 0 && hard.get(resource).is_some());
    if requested.0.is_empty() {
        return Ok(None);
    }
    let mut sum = used.clone();
    sum.add(&requested);
    let left = |amounts: &Amounts, resource: &str| amounts.get(resource).map_or(0, Quantity::nanos);
    let exceeded = requested.filtered(|resource, _| left(&sum, resource) > left(&hard, resource));
    if !exceeded.0.is_empty() && attempt.subresource != Subresource::Status {
        let shown = |amounts: &Amounts| amounts.filtered(|resource, _| exceeded.get(resource).is_some()).text();
        return Err(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            shown(&exceeded),
            shown(&used),
            shown(&hard)
        ));
    }
    Ok(Some(sum))
}

/// Returns the quota's hard limits that apply to the object, or no limits if the quota's scopes exclude the object.
fn restricted(quota: &Json, attempt: &Attempt<'_>) -> Amounts {
    if scope::covers(quota, attempt, attempt.object) {
        Amounts::at(quota, "/status/hard").filtered(|resource, _| usage::counts(attempt, resource))
    } else {
        Amounts::default()
    }
}

fn names(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, _)| name).collect::<Vec<_>>().join(",")
}
