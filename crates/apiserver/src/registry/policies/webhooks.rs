//! The admission plugins that call webhooks.

use std::sync::Arc;

use pintle_meta::Status;
use pintle_schema::patch::{PatchBody, PatchError};

use super::mutating::{Reinvocation, check_identity, object_schema, set_defaults, set_object};
use super::review::Review;
use crate::registry::Registry;
use crate::registry::admission_plugin::{AdmissionRequest, Operation, Plugin};
use pintle_admission::webhook::{AdmissionVerdict, admission_review, read_admission_response, with_type_of};
use pintle_apimachinery::failure::{Failure, Outcome, quoted};
use pintle_apimachinery::request::webhook_calls::{WebhookCall, WebhookCalls};
use pintle_authz::AdmissionWebhook;
use pintle_kinds::{Kind, Origin};
use pintle_storage::Charge;

/// The key of a webhook in a [`Reinvocation`]: the name of its configuration and the webhook's index in the
/// configuration.
pub(in crate::registry) type WebhookKey = (String, usize);

pub(in crate::registry) fn call_mutating(
    registry: &Registry,
    request: &mut AdmissionRequest<'_>,
    reinvocation: &mut Reinvocation<WebhookKey>,
) -> Outcome<()> {
    let Some(calls) = request.by.webhooks().cloned() else { return Ok(()) };
    let webhooks = registry.webhooks.mutating(&registry.db);
    if webhooks.is_empty() || is_configuration(&request.target.kind) {
        return Ok(());
    }
    reinvocation.begin_run(request.new.as_deref());
    for webhook in webhooks.iter() {
        let Some((kind, call)) = matched(registry, request, webhook, reinvocation.name())? else { continue };
        if !reinvocation.invokes(&webhook.id) {
            continue;
        }
        let verdict = ask(&calls, call, webhook, true)?;
        if let Some(verdict) = accepted(request, webhook, verdict)?
            && let Some((patch_type, patch)) = verdict.patch
        {
            match mutated(request, webhook, &kind, &patch_type, &patch) {
                Ok(false) => {}
                Ok(true) => reinvocation.record_change(),
                Err(PatchFailure::Call(why)) => tolerate(webhook, &why)?,
                Err(PatchFailure::Request(failure)) => return Err(failure),
            }
        }
        if webhook.is_reinvocable {
            reinvocation.record_invocation(webhook.id.clone());
        }
    }
    reinvocation.end_run(request.new.as_deref());
    Ok(())
}

#[derive(Debug)]
pub(in crate::registry) struct ValidatingWebhooks;

impl Plugin for ValidatingWebhooks {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let Some(calls) = request.by.webhooks() else { return Ok(Vec::new()) };
        let webhooks = registry.webhooks.validating(&registry.db);
        if webhooks.is_empty() || is_configuration(&request.target.kind) {
            return Ok(Vec::new());
        }
        let mut matching = Vec::new();
        for webhook in webhooks.iter() {
            if let Some((_, call)) = matched(registry, request, webhook, "validating")? {
                matching.push((webhook, call));
            }
        }
        // Call all webhooks before returning a denial, because kube-apiserver calls all webhooks concurrently.
        let verdicts: Vec<_> =
            matching.into_iter().map(|(webhook, call)| (webhook, ask(calls, call, webhook, false))).collect();
        let outcomes = verdicts.into_iter().map(|(webhook, verdict)| accepted(request, webhook, verdict?));
        let outcomes: Vec<_> = outcomes.collect();
        let waits = outcomes.iter().find_map(|outcome| outcome.as_ref().err().filter(|failure| failure.is_waiting()));
        match waits {
            Some(waits) => Err(waits.clone()),
            None => outcomes.into_iter().try_for_each(|outcome| outcome.map(drop)).map(|()| Vec::new()),
        }
    }
}

/// Returns `true` if webhooks are never called for the kind. If the server called webhooks for webhook configurations,
/// a webhook could block the deletion of its own configuration.
fn is_configuration(kind: &Kind) -> bool {
    kind.group == "admissionregistration.k8s.io" && kind.strategy.openapi().is_none()
}

/// Returns the call of a webhook, with the kind in the version that the webhook matches. Returns `None` if the
/// webhook's rules do not match.
fn matched(
    registry: &Registry,
    request: &AdmissionRequest<'_>,
    webhook: &AdmissionWebhook,
    run: &str,
) -> Outcome<Option<(Arc<Kind>, WebhookCall)>> {
    let review = Review::new(registry, request);
    let Some(kind) = webhook.constraints.as_ref().and_then(|constraints| review.matched_kind(constraints)) else {
        return Ok(None);
    };
    let variables = review.converted(&kind);
    match webhook.conditions().is_matched(&variables.inputs(None)) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(why) => return Err(Failure::forbidden(&request.target.kind.resource(), &review.name(), &why)),
    }
    if let Some(service) = registry.unknown_service(&webhook.client) {
        let name = quoted(&webhook.name);
        request.by.warn(format!(
            "the webhook {name} was not called: the Service {service} has no address in ApiServerConfig::services"
        ));
        return Ok(None);
    }
    let review = admission_review(webhook.review_version, &variables.admission_request());
    let (configuration, at) = &webhook.id;
    let id = format!("{run}/{configuration}/{at}");
    Ok(Some((kind, WebhookCall { id, client: webhook.client.clone(), review })))
}

/// Returns the verdict of the webhook, or the reason why the call did not return a verdict. Returns a failure that
/// [waits](Failure::is_waiting) if the webhook has not been called yet.
fn ask(
    calls: &WebhookCalls,
    call: WebhookCall,
    webhook: &AdmissionWebhook,
    mutating: bool,
) -> Outcome<Result<AdmissionVerdict, String>> {
    let Some(answer) = calls.find_answer(call) else { return Err(Failure::waiting()) };
    Ok(match answer.body {
        Err(why) => Err(format!("failed to call webhook: {why}")),
        Ok(body) => read_admission_response(webhook.review_version, &answer.uid, &body, mutating),
    })
}

/// Adds the webhook's warnings to the response. Returns an error if the webhook denies the request, or if the call
/// failed and the failure policy is `Fail`. Returns `None` if the call failed and the failure policy is `Ignore`.
fn accepted(
    request: &AdmissionRequest<'_>,
    webhook: &AdmissionWebhook,
    verdict: Result<AdmissionVerdict, String>,
) -> Outcome<Option<AdmissionVerdict>> {
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(why) => return tolerate(webhook, &why).map(|()| None),
    };
    for (key, value) in &verdict.audit_annotations {
        request.by.annotate(&format!("{}/{key}", webhook.name), value.clone());
    }
    // kube-apiserver drops warnings that cannot be sent in a header.
    let is_sendable = |text: &&String| !text.is_empty() && !text.contains(['\n', '\r']);
    verdict.warnings.iter().filter(is_sendable).for_each(|text| request.by.warn(text.clone()));
    if verdict.is_allowed { Ok(Some(verdict)) } else { Err(denied(&webhook.name, verdict.status)) }
}

fn tolerate(webhook: &AdmissionWebhook, why: &str) -> Outcome<()> {
    let message = format!("failed calling webhook {}: {why}", quoted(&webhook.name));
    if webhook.conditions().fails() {
        return Err(Failure::internal(message));
    }
    tracing::warn!(webhook = webhook.name, why, "an admission webhook failed, and its failure policy ignores that");
    Ok(())
}

fn denied(name: &str, status: Option<Status>) -> Failure {
    let mut failure = Failure::plain(400, format!("admission webhook {} denied the request", quoted(name)));
    failure.is_denial = true;
    let Some(mut status) = status else {
        failure.status.message += " without explanation";
        return failure;
    };
    let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    match (status.message.as_str(), reason.as_str()) {
        ("", "") => failure.status.message += " without explanation",
        ("", reason) => failure.status.message += &format!(": {reason}"),
        (message, _) => failure.status.message += &format!(": {message}"),
    }
    failure.status.code = status.code.max(400);
    failure.status.reason = status.reason.take();
    failure.status.details = status.details.take();
    failure
}

enum PatchFailure {
    Call(String),
    /// The patch in the webhook's response cannot be applied, so the request is rejected even if the failure policy is `Ignore`.
    Request(Failure),
}

impl From<Failure> for PatchFailure {
    fn from(failure: Failure) -> Self {
        Self::Request(failure)
    }
}

fn mutated(
    request: &mut AdmissionRequest<'_>,
    webhook: &AdmissionWebhook,
    kind: &Arc<Kind>,
    patch_type: &str,
    patch: &[u8],
) -> Result<bool, PatchFailure> {
    let undecodable = |error: PatchError| {
        let why = error.to_string();
        let why = why.strip_prefix("error decoding patch: ").unwrap_or(&why);
        PatchFailure::Call(format!("received undecodable patch in webhook response: {why}"))
    };
    let operations = PatchBody::json(patch).map_err(undecodable)?;
    if operations.is_empty() {
        return Ok(false);
    }
    let Some(new) = request.new.as_deref().filter(|_| request.operation != Operation::Delete) else {
        let why = format!(
            "admission webhook {} attempted to modify the object, which is not supported for this operation",
            quoted(&webhook.name)
        );
        return Err(Failure::internal(why).into());
    };
    if patch_type != "JSONPatch" {
        return Err(PatchFailure::Call(format!("unsupported patch type {}", quoted(patch_type))));
    }
    let own = request.target.kind.clone();
    let object = super::review::in_version(new, &own, kind, request.by);
    let schema = object_schema(kind, &object)?;
    let changed = operations.apply(&object, &schema).map_err(|error| Failure::internal(error.to_string()))?;
    let mut changed = match kind.origin() {
        Origin::BuiltIn => {
            schema.read(with_type_of(changed, &object)).map_err(|error| Failure::internal(error.to_string()))?.object
        }
        _ => changed,
    };
    check_identity(&object, &changed, request.operation)?;
    let has_changed = changed != object;
    set_defaults(kind, &mut changed);
    set_object(request, kind, changed);
    Ok(has_changed)
}
