//! Rules about the signer of a certificate signing request: permissions, restrictions and names.

use pintle_apimachinery::failure::{Failure, Outcome, quoted};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::user::MASTERS;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::ExtraPermission;
use pintle_meta::GroupResource;

use super::parsed;

const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const LONGEST_DOMAIN: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Returns the permission that the user needs to approve or sign the request. The permission is for the signer of the
/// request, or for all signers in its domain.
pub(super) fn extra_permission(
    new: &Json,
    old: Option<&Json>,
    subresource: Subresource,
) -> Outcome<Option<ExtraPermission>> {
    let Some(old) = old else { return check_client_groups(new).map(|()| None) };
    // Read the signer from the old object, because updates cannot change it.
    let signer = old.text("/spec/signerName");
    let differ = |pointer: &str| new.at(pointer) != old.at(pointer);
    let verb = match subresource {
        Subresource::Approval => "approve",
        Subresource::Status if differ("/status/certificate") || differ("/status/conditions") => "sign",
        _ => return Ok(None),
    };
    let domain = signer.split('/').next().unwrap_or_default();
    let names = vec![signer.to_owned(), format!("{domain}/*")];
    let refusal = format!("user not permitted to {verb} requests with signerName {}", quoted(signer));
    Ok(Some(ExtraPermission { verb, resource: "signers", names, refusal }))
}

/// Rejects a client certificate request for a member of the administrators' group.
fn check_client_groups(object: &Json) -> Outcome<()> {
    if object.text("/spec/signerName") != CLIENT_SIGNER {
        return Ok(());
    }
    let why = match parsed(object) {
        Ok(request) if !request.organizations.iter().any(|group| group == MASTERS) => return Ok(()),
        Ok(_) => format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"),
        Err(why) => format!("failed to parse CSR: {why}"),
    };
    let resource = GroupResource::new("certificates.k8s.io", "certificatesigningrequests");
    Err(Failure::forbidden(&resource, metadata::name(object), &why))
}

pub(super) fn errors(signer: &str) -> FieldErrors {
    const FIELD: &str = "spec.signerName";
    if signer.is_empty() {
        return FieldErrors::from([FieldError::required(FIELD, "")]);
    }
    let [domain, path] = signer.split('/').collect::<Vec<_>>()[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return FieldErrors::from([FieldError::invalid_text(FIELD, signer, why)]);
    };
    let mut errors = FieldErrors::default();
    // Report only the first invalid label.
    let wrong_label = |segment: &str, rule: NameRule| {
        let labels = segment.split('.').map(|label| (label, name_errors(rule, label, false)));
        let first = labels.into_iter().find(|(_, why)| !why.is_empty());
        let (label, why) = first.unwrap_or_default();
        let errors = why
            .iter()
            .map(|why| FieldError::invalid_text(FIELD, segment, format!("validating label {}: {why}", quoted(label))));
        errors.collect::<Vec<_>>()
    };
    if domain.len() > LONGEST_DOMAIN {
        errors.push(FieldError::too_long(FIELD, LONGEST_DOMAIN));
    }
    errors.extend(wrong_label(domain, NameRule::Label));
    let why = "should be a domain with at least two segments separated by dots";
    errors.invalid_text_if(!domain.contains('.'), FIELD, domain, why);
    errors.extend(wrong_label(path, NameRule::Subdomain));
    let longest = LONGEST_DOMAIN + 1 + LONGEST_DOMAIN + LONGEST_LABEL + 1;
    if signer.len() > longest {
        errors.push(FieldError::too_long(FIELD, longest));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signer_name_is_a_domain_and_a_path() {
        for (signer, count) in [
            ("example.org/signer", 0),
            ("kubernetes.io/kubelet-serving", 0),
            ("", 1),
            ("nodomain", 1),
            ("a.b/c/d", 1),
            ("one/x", 1),
            ("Example.org/x", 1),
            ("example.org/", 1),
            ("example.org/X", 1),
            ("ex_ample/X", 3),
        ] {
            assert_eq!(errors(signer).into_iter().len(), count, "{signer}: {:?}", errors(signer));
        }
    }
}
