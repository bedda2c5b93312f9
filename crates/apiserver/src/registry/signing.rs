//! Admission of signing requests: who may decide for a signer, and what no signer is asked for.

use super::Registry;
use super::admission_chain::Plugin;
use super::pipeline::Write;
use crate::auth::{self, Attributes, Decision};
use crate::failure::{Failure, Outcome, quoted};
use crate::kinds::certificate_signing_request;
use crate::object::metadata;
use crate::request::Part;
use crate::request::path::ResourcePath;
use crate::request::user::{MASTERS, User};
use crate::store::Charge;

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Who speaks for which signer, and what no signer is asked for.
pub(super) struct Signing;

impl Plugin for Signing {
    /// Fails if a user approves or signs for a signer whom they have no right to speak for, or asks to become an administrator.
    fn check(&self, registry: &Registry, write: &Write<'_>) -> Outcome<Vec<Charge>> {
        let (place, new) = (write.place, &write.new);
        if place.kind.group != GROUP || place.kind.kind != "CertificateSigningRequest" {
            return Ok(Vec::new());
        }
        let refuse = |why: &str| Err(Failure::forbidden(&place.kind.resource(), metadata::name(new), why));
        let Some(old) = write.old else {
            if new.text("/spec/signerName") != CLIENT_SIGNER {
                return Ok(Vec::new());
            }
            return match certificate_signing_request::organizations(new) {
                Err(why) => refuse(&format!("failed to parse CSR: {why}")),
                Ok(groups) if groups.iter().any(|group| group == MASTERS) => {
                    refuse(&format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
                }
                Ok(_) => Ok(Vec::new()),
            };
        };
        // The signer is the old object's: no update changes it.
        let signer = old.text("/spec/signerName");
        let differ = |pointer: &str| new.at(pointer) != old.at(pointer);
        let verb = match place.part {
            Part::Approval => "approve",
            Part::Status if differ("/status/certificate") || differ("/status/conditions") => "sign",
            _ => return Ok(Vec::new()),
        };
        if speaks_for(registry, write.by.user(), verb, signer) {
            return Ok(Vec::new());
        }
        refuse(&format!("user not permitted to {verb} requests with signerName {}", quoted(signer)))
    }
}

/// Whether the user may do it for the signer, or for all signers of its domain.
fn speaks_for(registry: &Registry, user: &User, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
        let path = ResourcePath {
            group: GROUP.into(),
            version: "*".into(),
            resource: "signers".into(),
            name: name.clone(),
            ..ResourcePath::default()
        };
        let attributes = Attributes::Resource { verb, path: &path, name: &name };
        matches!(auth::decide(registry.rbac(), user, &attributes), Decision::Allowed(_))
    })
}
