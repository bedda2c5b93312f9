//! The fields that a write cannot change, so that no manager comes to own them through it.

/// The paths that a write of a kind cannot change, through the object itself or through a subresource: nobody comes to own them so.
///
/// `splits_status` tells whether the kind has a `/status` of its own.
pub(crate) fn reset_fields(
    kind: &str,
    custom: bool,
    splits_status: bool,
    subresource: &str,
) -> &'static [&'static [&'static str]] {
    const NONE: &[&[&str]] = &[];
    const STATUS: &[&[&str]] = &[&["status"]];
    const SPEC: &[&[&str]] = &[&["spec"]];
    const ALL_BUT_STATUS: &[&[&str]] = &[&["metadata"], &["spec"]];
    match (subresource, kind) {
        ("", "CertificateSigningRequest") if !custom => &[&["spec"], &["status"]],
        ("", _) if splits_status => STATUS,
        ("", _) => NONE,
        ("status", _) if custom => ALL_BUT_STATUS,
        ("status", "Deployment") => &[&["spec"], &["metadata", "labels"]],
        ("status", "Pod") => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        ("status", "CertificateSigningRequest") => &[&["spec"], &["status", "conditions"]],
        (
            "status",
            "APIService"
            | "DeviceTaintRule"
            | "FlowSchema"
            | "PriorityLevelConfiguration"
            | "ResourceClaim"
            | "ServiceCIDR"
            | "ValidatingAdmissionPolicy"
            | "VolumeAttachment",
        ) => ALL_BUT_STATUS,
        ("status", _) => SPEC,
        ("approval", "CertificateSigningRequest") => &[&["spec"], &["status", "certificate"]],
        ("finalize" | "ephemeralcontainers" | "resize", _) => STATUS,
        _ => NONE,
    }
}
