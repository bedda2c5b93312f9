//! Responds to admission requests.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use pintle_meta::{Status, StatusDetails};
use tokio::time::timeout;

use crate::answer::{Denial, Notes};
use crate::review::{AdmissionRequest, AdmissionResponse};
use crate::shortened::{NAME, PROBLEM, shortened};
use crate::webhook::Webhook;

impl Webhook {
    /// Responds to a request, with a denial if the request is invalid or the handler panics or times out.
    pub(crate) async fn respond(&self, request: AdmissionRequest, limit: Option<Duration>) -> AdmissionResponse {
        let limit = limit.map_or(self.timeout, |limit| limit.min(self.timeout));
        let (uid, details) = (request.uid.clone(), details(&request));
        let answer = match self.check(&request) {
            Err(denial) => Err(denial),
            Ok(()) => {
                let call = AssertUnwindSafe(async { (self.handle)(request, self.failure_policy).await }).catch_unwind();
                match timeout(limit, call).await {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(_)) => {
                        Err(Denial::internal("the handler panicked; the log of the webhook has the cause".into()))
                    }
                    Err(_) => Err(Denial::timeout(format!("the handler did not finish within {limit:?}"))),
                }
            }
        };
        let answer = answer.and_then(|(patch, notes)| {
            let encoded = patch.map(|patch| serde_json::to_vec(&patch)).transpose();
            let encoded = encoded.map_err(|error| Denial::internal(format!("cannot encode the patch: {error}")))?;
            Ok((encoded.map(|patch| STANDARD.encode(patch)), notes))
        });
        match answer {
            Ok((patch, notes)) => AdmissionResponse {
                uid,
                allowed: true,
                status: None,
                patch_type: patch.is_some().then(|| "JSONPatch".into()),
                patch,
                audit_annotations: notes.audit,
                warnings: notes.warnings,
            },
            Err(denial) => self.denied(uid, denial, details),
        }
    }

    fn denied(&self, uid: String, denial: Denial, details: StatusDetails) -> AdmissionResponse {
        let mut status = denial.status();
        let (webhook, code, problem) = (self.path(), status.code, &*shortened(&status.message, PROBLEM));
        // `Debug` escapes line breaks.
        tracing::debug!(webhook, code, ?problem, "denied a request");
        if code >= 500 {
            tracing::warn!(webhook, code, ?problem, "a webhook failed");
        }
        let causes = status.details.take().map(|details| details.causes).unwrap_or_default();
        status.details = Some(StatusDetails { causes, ..details });
        let Notes { warnings, audit } = denial.into_notes();
        let status: Option<Status> = Some(status);
        AdmissionResponse { uid, allowed: false, status, audit_annotations: audit, warnings, ..Default::default() }
    }

    /// Rejects requests for resources or operations that the webhook does not support. The API server may send such
    /// requests if the webhook configuration was written by hand.
    fn check(&self, request: &AdmissionRequest) -> Result<(), Denial> {
        let (own, sent) = (self.resource.gvr(), &request.resource);
        let subresource = self.subresource.as_deref().unwrap_or_default();
        if own != *sent || subresource != request.sub_resource {
            let slash =
                |subresource: &str| if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
            return Err(Denial::bad_request(format!(
                "the webhook {} is for {own}{}, and not for {}{}; correct the rules of its configuration",
                self.path(),
                slash(subresource),
                shortened(&sent.to_string(), NAME),
                slash(&shortened(&request.sub_resource, NAME))
            )));
        }
        if !self.operations.contains(&request.operation) {
            return Err(Denial::bad_request(format!(
                "the webhook {} does not handle {}; correct the rules of its configuration",
                self.path(),
                request.operation.as_str()
            )));
        }
        Ok(())
    }
}

fn details(request: &AdmissionRequest) -> StatusDetails {
    StatusDetails {
        name: shortened(&request.name, NAME).into_owned(),
        group: shortened(&request.kind.group, NAME).into_owned(),
        kind: shortened(&request.kind.kind, NAME).into_owned(),
        ..StatusDetails::default()
    }
}
