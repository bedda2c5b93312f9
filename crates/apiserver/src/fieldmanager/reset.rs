//! The fields that a write cannot change, so that no manager comes to own them through it.

use crate::request::Part;

/// The paths that a write of a kind cannot change, through the object itself or through a subresource: nobody comes to own them so.
///
/// `splits_status` tells whether the kind has a `/status` of its own.
pub(crate) fn reset_fields(
    kind: &str,
    custom: bool,
    splits_status: bool,
    part: Part,
) -> &'static [&'static [&'static str]] {
    const NONE: &[&[&str]] = &[];
    const STATUS: &[&[&str]] = &[&["status"]];
    const SPEC: &[&[&str]] = &[&["spec"]];
    const ALL_BUT_STATUS: &[&[&str]] = &[&["metadata"], &["spec"]];
    match (part, kind) {
        (Part::Object, "CertificateSigningRequest") if !custom => &[&["spec"], &["status"]],
        (Part::Object, _) if splits_status => STATUS,
        (Part::Object, _) => NONE,
        (Part::Status, _) if custom => ALL_BUT_STATUS,
        (Part::Status, "Deployment") => &[&["spec"], &["metadata", "labels"]],
        (Part::Status, "Pod") => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        (Part::Status, "CertificateSigningRequest") => &[&["spec"], &["status", "conditions"]],
        (
            Part::Status,
            "APIService"
            | "DeviceTaintRule"
            | "FlowSchema"
            | "PriorityLevelConfiguration"
            | "ResourceClaim"
            | "ServiceCIDR"
            | "ValidatingAdmissionPolicy"
            | "VolumeAttachment",
        ) => ALL_BUT_STATUS,
        (Part::Status, _) => SPEC,
        (Part::Approval, "CertificateSigningRequest") => &[&["spec"], &["status", "certificate"]],
        (Part::Finalize | Part::EphemeralContainers | Part::Resize, _) => STATUS,
        _ => NONE,
    }
}
