//! Quotas: what a write uses up, and whether there is that much left.

mod pod_usage;
mod scope;
#[cfg(test)]
mod tests;
mod usage;

use pintle_json::Json;
use pintle_schema::quantity::Quantity;

use super::{Amounts, Attempt};
use crate::object::metadata;
use crate::request::Subresource;

pub(crate) use usage::concern;

/// Whether the quota can be asked at all. Fails with why the write is refused before it is known what it would use.
pub(crate) fn check(quota: &Json, attempt: &Attempt<'_>) -> Result<(), String> {
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

/// What a quota's `status.used` becomes if the write is let through; none if it stays. Fails with why the write is refused.
pub(crate) fn charge(quota: &Json, attempt: &Attempt<'_>, now: jiff::Timestamp) -> Result<Option<Amounts>, String> {
    if restricted(quota, attempt).0.is_empty() {
        return Ok(None);
    }
    let name = metadata::name(quota);
    let (hard, used) = (Amounts::at(quota, "/status/hard"), Amounts::at(quota, "/status/used"));
    let mut asked = usage::of(attempt, attempt.object, now);
    let negative = asked.filtered(|_, amount| amount.nanos() < 0);
    if !negative.0.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", names(&negative)));
    }
    if let Some(old) = attempt.old
        && scope::covers(quota, attempt, old)
    {
        asked = asked.beyond(&usage::of(attempt, old, now));
    }
    let asked = asked.filtered(|resource, amount| amount.nanos() != 0 && hard.get(resource).is_some());
    if asked.0.is_empty() {
        return Ok(None);
    }
    let mut sum = used.clone();
    sum.add(&asked);
    let left = |amounts: &Amounts, resource: &str| amounts.get(resource).map_or(0, Quantity::nanos);
    let exceeded = asked.filtered(|resource, _| left(&sum, resource) > left(&hard, resource));
    if !exceeded.0.is_empty() && attempt.subresource != Subresource::Status {
        let told = |amounts: &Amounts| amounts.filtered(|resource, _| exceeded.get(resource).is_some()).told();
        return Err(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            told(&exceeded),
            told(&used),
            told(&hard)
        ));
    }
    Ok(Some(sum))
}

/// What the quota limits of the things that the object could use; nothing if it is not for this object.
fn restricted(quota: &Json, attempt: &Attempt<'_>) -> Amounts {
    match scope::covers(quota, attempt, attempt.object) {
        true => Amounts::at(quota, "/status/hard").filtered(|resource, _| usage::counts(attempt, resource)),
        false => Amounts::default(),
    }
}

fn names(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, _)| name).collect::<Vec<_>>().join(",")
}
