//! The audit of a server, which records each request with its user and result, so that tests can check them.

mod log;

use std::collections::{BTreeMap, HashMap};

pub(crate) use log::AuditLog;
use pintle_apimachinery::verb::RequestVerb;
use pintle_storage::committed::Commit;
use tokio::time::Instant;

/// The audit record of one request. The server adds the record after the response, or after the
/// client has disconnected without waiting for the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The time at which the request arrived.
    pub received: Instant,
    /// The user name after impersonation, or an empty string if the user is unknown.
    pub user: String,
    /// The value of the `User-Agent` header.
    pub user_agent: String,
    /// The verb, or `None` for a request without a resource, such as `/version`.
    pub verb: Option<RequestVerb>,
    /// The API group, which is empty for the core group.
    pub group: String,
    /// The plural name of the resource, or an empty string for a request without a resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace, which is empty for cluster-scoped objects and for requests across all namespaces.
    pub namespace: String,
    /// The name of the object, or an empty string if the request addresses a collection.
    pub name: String,
    /// The HTTP status at the start of the response, or 0 if the client disconnected before the server had decided on a
    /// status. If a request times out, the server adds the record when it stops processing the request, possibly after
    /// the client has received the response.
    pub code: u16,
    /// The last write that the request made to the store, even if the response is an error. `None` means that the
    /// request wrote nothing, like a read, a dry run, a rejected request, or an update without changes.
    pub committed: Option<Commit>,
    /// The audit annotations that admission added, as in kube-apiserver's audit events. For a pod,
    /// `pod-security.kubernetes.io/enforce-policy` names the security standard that the namespace enforces.
    /// `pod-security.kubernetes.io/audit-violations` lists the pod's violations of the standard that the namespace
    /// audits.
    pub annotations: BTreeMap<String, String>,
}

/// The requests that a server has answered so far, in response order, as returned by
/// [`ApiServer::audit`](crate::ApiServer::audit). Each filter method, such as [`writes`](Self::writes), keeps only the
/// matching records.
///
/// A full audit drops its oldest requests (see [`ApiServerConfig::audit`](crate::ApiServerConfig::audit)). Methods that
/// read the records panic if any request was dropped, because an assertion about an incomplete audit could pass by
/// mistake. To avoid the panic, call [`despite_loss`](Self::despite_loss), or keep only records
/// [after](Self::committed_after) the last dropped request.
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
/// // Here, controllers run and a leader's term ends.
/// let end_of_term = Instant::now();
/// // After the end of its term, the previous leader must not write.
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
    /// The latest time at which a request whose audit record was dropped arrived or wrote something.
    lost_until: Option<Instant>,
}

impl ServerAudit {
    /// Returns the records in response order.
    ///
    /// # Panics
    ///
    /// Panics if requests were dropped, unless a time filter excludes all dropped requests.
    pub fn records(&self) -> &[AuditRecord] {
        let lost = self.lost;
        assert!(
            lost == 0,
            "{lost} requests were dropped from the audit: raise ApiServerConfig::audit, or call despite_loss()"
        );
        &self.records
    }

    /// Returns the number of dropped requests. All dropped requests are older than the remaining records.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Disables the panics for dropped requests.
    pub fn despite_loss(self) -> Self {
        Self { lost: 0, ..self }
    }

    /// Returns the number of records.
    ///
    /// # Panics
    ///
    /// Panics if requests were dropped, unless a time filter excludes all dropped requests.
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// Returns `true` if there are no records.
    ///
    /// # Panics
    ///
    /// Panics if requests were dropped, unless a time filter excludes all dropped requests.
    pub fn is_empty(&self) -> bool {
        self.records().is_empty()
    }

    /// Keeps only the records for which `predicate` returns `true`.
    pub fn only(mut self, predicate: impl FnMut(&AuditRecord) -> bool) -> Self {
        self.records.retain(predicate);
        self
    }

    /// Keeps only the requests that [wrote something](AuditRecord::committed), even if the response is an error.
    pub fn writes(self) -> Self {
        self.only(|record| record.committed.is_some())
    }

    /// Keeps only the requests whose `User-Agent` begins with `prefix`.
    pub fn by_user_agent(self, prefix: &str) -> Self {
        self.only(|record| record.user_agent.starts_with(prefix))
    }

    /// Keeps only the requests for the resource with this plural name, and for its subresources.
    pub fn of(self, group: &str, resource: &str) -> Self {
        self.only(|record| record.group == group && record.resource == resource)
    }

    /// Keeps only the requests that arrived after `moment`.
    pub fn received_after(self, moment: Instant) -> Self {
        self.complete_after(moment).only(|record| record.received > moment)
    }

    /// Keeps only the requests that wrote something after `moment`, even if they arrived earlier.
    pub fn committed_after(self, moment: Instant) -> Self {
        self.complete_after(moment).only(|record| record.committed.is_some_and(|commit| commit.at > moment))
    }

    /// Ignores lost records if all requests with lost records arrived, and finished their writes, no later than
    /// `moment`.
    fn complete_after(self, moment: Instant) -> Self {
        match self.lost_until {
            Some(until) if until <= moment => self.despite_loss(),
            _ => self,
        }
    }

    /// Counts the list requests for each resource, and returns the largest of these numbers. Lists in different
    /// namespaces, and lists across all namespaces, are counted separately. Each page of a list counts as one request.
    ///
    /// # Panics
    ///
    /// Panics if requests were dropped, unless a time filter excludes all dropped requests.
    pub fn most_lists_of_a_resource(&self) -> usize {
        let mut counts: HashMap<_, usize> = HashMap::new();
        for record in self.records().iter().filter(|record| record.verb == Some(RequestVerb::List)) {
            *counts.entry((&record.group, &record.resource, &record.namespace)).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }
}
