//! Details of the response that contained an error.

use bytes::Bytes;

/// Details of the response that contained an [`ApiError`](crate::ApiError).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ResponseInfo {
    /// The `Audit-Id` of the response, which identifies the request in the audit log of the server.
    pub audit_id: Option<Box<str>>,
    /// The flow of the request in API Priority and Fairness, if the server sent it.
    pub flow: Option<Flow>,
    /// The beginning of the response body, at most 64 KiB. The `Debug` output does not include the body, because it can
    /// contain any object.
    pub body: Bytes,
}

crate::debug_struct!(ResponseInfo |self| { audit_id, flow, body = format_args!("[{} bytes]", self.body.len()) });

/// The flow of a request in API Priority and Fairness. The UIDs of a FlowSchema and of a
/// PriorityLevelConfiguration identify the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The UID of the matching FlowSchema.
    pub flow_schema: Box<str>,
    /// The UID of the PriorityLevelConfiguration, or an empty string if the server did not send it.
    pub priority_level: Box<str>,
}
