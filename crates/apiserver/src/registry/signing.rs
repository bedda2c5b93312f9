//! Admission of signing requests: who may decide for a signer, and what no signer is asked for.

use serde_json::Value;

use super::Registry;
use crate::auth::{self, Attributes, Decision};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Place, certificates};
use crate::object::metadata::text;
use crate::object::text_at;
use crate::request::path::ResourcePath;
use crate::request::user::{MASTERS, User};

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

impl Registry {
    /// Fails if `user` approves or signs for a signer whom they have no right to speak for, or asks to become an administrator.
    pub(super) fn check_signing(&self, place: &Place, new: &Value, old: Option<&Value>, user: &User) -> Outcome<()> {
        if place.kind.group != GROUP || place.kind.kind != "CertificateSigningRequest" {
            return Ok(());
        }
        let refuse = |why: &str| Err(Failure::forbidden(&place.kind.resource(), text(new, "name"), why));
        let Some(old) = old else {
            if text_at(new, "/spec/signerName") != CLIENT_SIGNER {
                return Ok(());
            }
            return match certificates::organizations(new) {
                Err(why) => refuse(&format!("failed to parse CSR: {why}")),
                Ok(groups) if groups.iter().any(|group| group == MASTERS) => {
                    refuse(&format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
                }
                Ok(_) => Ok(()),
            };
        };
        // The signer is the old object's: no update changes it.
        let signer = text_at(old, "/spec/signerName");
        let differ = |pointer: &str| new.pointer(pointer) != old.pointer(pointer);
        let verb = match place.subresource.as_deref() {
            Some("approval") => "approve",
            Some("status") if differ("/status/certificate") || differ("/status/conditions") => "sign",
            _ => return Ok(()),
        };
        if self.speaks_for(user, verb, signer) {
            return Ok(());
        }
        refuse(&format!("user not permitted to {verb} requests with signerName {}", crate::failure::quoted(signer)))
    }

    /// Whether the user may do it for the signer, or for all signers of its domain.
    fn speaks_for(&self, user: &User, verb: &str, signer: &str) -> bool {
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
            matches!(auth::decide(&self.db, user, &attributes), Decision::Allowed(_))
        })
    }
}
