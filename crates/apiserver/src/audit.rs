//! The audit of a server. The audit stores one record for each request, with the user and the result of the request. Tests can check these
//! records.

mod log;

use std::collections::{BTreeMap, HashMap};

pub(crate) use log::AuditLog;
use pintle_apimachinery::verb::RequestVerb;
use pintle_storage::committed::Commit;
use tokio::time::Instant;

/// The record of one request. A request is recorded after the server has responded, or after the client has closed the connection without
/// waiting for the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The time at which the request arrived.
    pub received: Instant,
    /// The user name, after impersonation. The user name is empty if the user is unknown.
    pub user: String,
    /// The value of the `User-Agent` header.
    pub user_agent: String,
    /// The verb. The verb is `None` for a request without a resource, such as `/version`.
    pub verb: Option<RequestVerb>,
    /// The API group. The string is empty for the core group.
    pub group: String,
    /// The plural name of the resource. The name is empty for a request without a resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace. The namespace is empty in cluster scope and for requests across all namespaces.
    pub namespace: String,
    /// The name of the object. The name is empty if the request addresses a collection.
    pub name: String,
    /// The HTTP status. For a watch, the code is the status code at the start of the response. The code is 0 if the client closed the
    /// connection before the server had decided on a status. A request that timed out is recorded when the server stops processing it. For
    /// such a request, the server may send the response before it stops processing the request.
    pub code: u16,
    /// The last write that the request made, even if the response is an error. The write is `None` if the request wrote nothing. For
    /// example, a read, a dry run, a rejected request and an update without changes do not write anything.
    pub committed: Option<Commit>,
    /// Admission adds these audit annotations. The audit events of kube-apiserver contain the same annotations. For a pod, the annotation
    /// `pod-security.kubernetes.io/enforce-policy` names the security standard that the namespace enforces. The annotation
    /// `pod-security.kubernetes.io/audit-violations` lists the pod's violations of the standard that the namespace sets for auditing.
    pub annotations: BTreeMap<String, String>,
}

/// The requests that a server has answered so far, in the order of the responses. Created by [`ApiServer::audit`](crate::ApiServer::audit).
/// Each filter method keeps only matching requests.
///
/// When the audit is full, it drops the oldest requests (see [`ApiServerConfig::audit`](crate::ApiServerConfig::audit)). If requests are
/// missing from the audit, an assertion could pass by mistake. Therefore, methods that read the records panic if a matching request may
/// have been dropped. To avoid this panic, [accept the loss](Self::despite_loss), or keep only records [after](Self::committed_after) the
/// last dropped request.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pintle_apiserver::{ApiServer, ApiServerConfig};
/// use tokio::time::Instant;
///
/// let server = ApiServer::start(ApiServerConfig::default()).await?;
/// // Here, controllers run and the term of a leader ends.
/// let end_of_term = Instant::now();
/// // After that, the previous leader must not write.
/// assert!(server.audit().writes().by_user_agent("elector-a").committed_after(end_of_term).is_empty());
/// assert!(server.audit().by_user_agent("controller").most_lists_of_a_resource() <= 1);
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ServerAudit {
    records: Vec<AuditRecord>,
    lost: u64,
    /// The latest time at which one of the dropped requests arrived or wrote something.
    lost_until: Option<Instant>,
}

impl ServerAudit {
    /// Returns the records in the order of the responses.
    ///
    /// # Panics
    ///
    /// Panics if matching requests may have been dropped.
    pub fn records(&self) -> &[AuditRecord] {
        let lost = self.lost;
        assert!(
            lost == 0,
            "{lost} requests were dropped from the audit: raise ApiServerConfig::audit, or call despite_loss()"
        );
        &self.records
    }

    /// Returns the number of requests that were dropped. All dropped requests are older than the remaining records.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Accepts that the audit is incomplete. After this call, the methods of this type do not panic because of dropped requests.
    pub fn despite_loss(self) -> Self {
        Self { lost: 0, ..self }
    }

    /// Returns the number of records.
    ///
    /// # Panics
    ///
    /// Panics if matching requests may have been dropped.
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// Returns whether there are no records.
    ///
    /// # Panics
    ///
    /// Panics if matching requests may have been dropped.
    pub fn is_empty(&self) -> bool {
        self.records().is_empty()
    }

    /// Keeps the records that satisfy `predicate`.
    pub fn only(mut self, predicate: impl FnMut(&AuditRecord) -> bool) -> Self {
        self.records.retain(predicate);
        self
    }

    /// Keeps the requests that [wrote something](AuditRecord::committed), even if the response is an error.
    pub fn writes(self) -> Self {
        self.only(|record| record.committed.is_some())
    }

    /// Keeps the requests of the user with this name.
    pub fn by_user(self, name: &str) -> Self {
        self.only(|record| record.user == name)
    }

    /// Keeps the requests whose `User-Agent` begins with `prefix`.
    pub fn by_user_agent(self, prefix: &str) -> Self {
        self.only(|record| record.user_agent.starts_with(prefix))
    }

    /// Keeps the requests for the resource with this plural name. Requests for subresources are included.
    pub fn of(self, group: &str, resource: &str) -> Self {
        self.only(|record| record.group == group && record.resource == resource)
    }

    /// Keeps the requests that arrived after `moment`.
    pub fn received_after(self, moment: Instant) -> Self {
        self.complete_after(moment).only(|record| record.received > moment)
    }

    /// Keeps the requests that wrote something after `moment`, regardless of when the requests arrived.
    pub fn committed_after(self, moment: Instant) -> Self {
        self.complete_after(moment).only(|record| record.committed.is_some_and(|commit| commit.at > moment))
    }

    /// Accepts the loss of records if no dropped request arrived or wrote something after `moment`.
    fn complete_after(self, moment: Instant) -> Self {
        match self.lost_until {
            Some(until) if until <= moment => self.despite_loss(),
            _ => self,
        }
    }

    /// Counts the list requests for each resource, and returns the greatest of these counts. Lists in different namespaces are counted
    /// separately. Lists across all namespaces are counted separately, too. Each page of a list counts as one request.
    ///
    /// # Panics
    ///
    /// Panics if list requests may have been dropped.
    pub fn most_lists_of_a_resource(&self) -> usize {
        let mut counts: HashMap<_, usize> = HashMap::new();
        for record in self.records().iter().filter(|record| record.verb == Some(RequestVerb::List)) {
            *counts.entry((&record.group, &record.resource, &record.namespace)).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }
}
