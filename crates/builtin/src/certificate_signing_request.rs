//! The `CertificateSigningRequest` kind in `certificates.k8s.io/v1`. The server sets the requesting user and ignores a
//! user from the client.

mod conditions;
mod pkcs10;
mod signer;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Outcome, quoted};
use pintle_apimachinery::object::{condition, duplicates, restore_member};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::reset::Reset;
use pintle_kinds::table::{self, Cell, ComputedCells};
use pintle_kinds::{ExtraPermission, Strategy};
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;

use super::pem;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const SHORTEST_CERTIFICATE_SECONDS: i64 = 600;

#[derive(Clone, Copy, Debug)]
pub(super) struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            let user = context.user;
            for field in ["username", "uid", "groups", "extra"] {
                spec.unset(field);
            }
            let user_fields: [(&str, Json, bool); 4] = [
                ("username", user.name.as_str().into(), user.name.is_empty()),
                ("uid", user.uid.as_str().into(), user.uid.is_empty()),
                ("groups", json!(*user.groups), user.groups.is_empty()),
                ("extra", json!(user.extra), user.extra.is_empty()),
            ];
            user_fields.into_iter().filter(|(.., empty)| !empty).for_each(|(field, value, _)| spec.set(field, value));
        }
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Json, old: &Json, subresource: Subresource) {
        restore_member(new, old, "spec");
        match subresource {
            Subresource::None => restore_member(new, old, "status"),
            Subresource::Approval => {
                conditions::set_times(new, old, &context.time());
                let conditions = new.at("/status/conditions").cloned();
                restore_member(new, old, "status");
                if let Some(status) = new.member("status") {
                    match conditions {
                        Some(conditions) => status.set("conditions", conditions),
                        None => status.unset("conditions"),
                    }
                }
            }
            _ => {
                conditions::keep_decisions(new, old);
                conditions::set_times(new, old, &context.time());
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let mut errors = spec_errors(object, "");
        errors.extend(conditions::errors(object, None));
        errors.extend(certificate_error(object));
        errors
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        let [now, before] = [new, old].map(|object| object.text("/status/certificate"));
        let (is_new, had_one) = (now != before, !before.is_empty());
        let mut errors = spec_errors(new, old.text("/spec/signerName"));
        errors.extend(conditions::errors(new, Some(old)));
        errors.extend(certificate_error(new).filter(|_| is_new));
        errors.extend(conditions::change_errors(new, old, subresource == Subresource::Approval));
        let why = match subresource {
            Subresource::Status if had_one => "updates may not modify existing certificate content",
            Subresource::Status => return errors,
            _ => "updates may not set certificate content",
        };
        errors.extend(is_new.then(|| FieldError::forbidden("status.certificate", why)));
        errors
    }

    fn extra_permission(
        &self,
        new: &Json,
        old: Option<&Json>,
        subresource: Subresource,
    ) -> Outcome<Option<ExtraPermission>> {
        signer::extra_permission(new, old, subresource)
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("RequestedDuration", Cell::Computed(requested_duration)), ("Condition", Cell::Computed(conditions_cell))]
    }

    fn reset_fields(&self, subresource: Subresource) -> Option<Reset> {
        match subresource {
            Subresource::None => Some(&[&["spec"], &["status"]]),
            Subresource::Status => Some(&[&["spec"], &["status", "conditions"]]),
            Subresource::Approval => Some(&[&["spec"], &["status", "certificate"]]),
            _ => None,
        }
    }
}

fn requested_duration(request: &Json) -> Json {
    request.integer("/spec/expirationSeconds").map_or_else(|| "<none>".into(), table::duration).into()
}

fn conditions_cell(request: &Json) -> Json {
    let has_condition = |kind: &str| condition(request, kind).is_some();
    let mut condition = match () {
        () if has_condition("Denied") => "Denied",
        () if has_condition("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has_condition("Failed") {
        condition.push_str(",Failed");
    }
    if !request.text("/status/certificate").is_empty() {
        condition.push_str(",Issued");
    }
    condition.into()
}

fn parsed(object: &Json) -> Result<pkcs10::CertificationRequest, String> {
    let block = STANDARD.decode(object.text("/spec/request")).ok().and_then(|pem| pem::blocks(&pem).into_iter().next());
    let block = block.filter(|block| block.label == "CERTIFICATE REQUEST");
    pkcs10::CertificationRequest::parse(&block.ok_or("PEM block type must be CERTIFICATE REQUEST")?.content)
}

/// Validates the spec. The legacy signer is allowed only if the old object already uses it.
fn spec_errors(object: &Json, old_signer: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if let Err(why) = parsed(object).and_then(|request| request.check_signature()) {
        errors.push(FieldError::invalid("spec.request", &object["spec"]["request"], why));
    }
    let usages: Vec<_> = object.list("/spec/usages").collect();
    errors.required_if(usages.is_empty(), "spec.usages", "");
    let path = |at: usize| format!("spec.usages[{at}]");
    for (at, usage) in usages.iter().enumerate() {
        if !usage.as_str().is_some_and(|usage| USAGES.contains(&usage)) {
            errors.push(FieldError::unsupported(path(at), usage, USAGES));
        }
    }
    for (at, double) in duplicates(usages.iter()).into_iter().enumerate() {
        errors.extend(double.then(|| FieldError::duplicate(path(at), usages[at])));
    }
    match object.text("/spec/signerName") {
        LEGACY_SIGNER if old_signer != LEGACY_SIGNER => {
            let why = "the legacy signerName is not allowed via this API version";
            errors.push(FieldError::invalid_text("spec.signerName", LEGACY_SIGNER, why));
        }
        signer => errors.extend(signer::errors(signer)),
    }
    if let Some(seconds) =
        object.integer("/spec/expirationSeconds").filter(|seconds| *seconds < SHORTEST_CERTIFICATE_SECONDS)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", &seconds.into(), why));
    }
    errors
}

fn certificate_error(object: &Json) -> Option<FieldError> {
    let text = object.text("/status/certificate");
    let why = if text.is_empty() {
        return None;
    } else {
        check_certificates(&STANDARD.decode(text).unwrap_or_default()).err()?
    };
    Some(FieldError::invalid_text("status.certificate", "<certificate data>", why))
}

fn check_certificates(pem: &[u8]) -> Result<(), String> {
    let blocks = pem::blocks(pem);
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".into());
    }
    blocks.into_iter().try_for_each(|block| {
        if block.label != "CERTIFICATE" {
            let found = quoted(&block.label);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {found}"));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".into());
        }
        let certificate = CertificateDer::from(block.content);
        ParsedCertificate::try_from(&certificate).map(|_| ()).map_err(|error| format!("x509: {error}"))
    })
}

/// Parses a certificate request for a fuzz target.
pub fn fuzz(bytes: &[u8]) {
    let blocks = pem::blocks(bytes);
    for der in blocks.iter().map(|block| block.content.as_slice()).chain([bytes]) {
        if let Ok(request) = pkcs10::CertificationRequest::parse(der) {
            // Ignore the results, because this fuzz target only checks for panics.
            let _ = request.check_signature();
        }
    }
}
