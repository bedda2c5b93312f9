//! Leases in memory, with clients whose requests fail as told.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pintle_leaderelect::{LeaderElectionRecord, Lease};
use pintle_meta::{
    ApiError, DeleteOptions, List, ListOptions, ObjectApi, ObjectKey, ObjectMeta, ObjectSource, Patch, PostOptions,
    Reason, Status, WatchEvent, WatchOptions,
};
use tokio::sync::mpsc;

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "lock";

/// The server: one lease at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    lease: Option<Lease>,
    version: u64,
    uids: u64,
    watchers: Vec<mpsc::UnboundedSender<Result<WatchEvent<Lease>, ApiError>>>,
    /// Each request that arrived, as `who verb`.
    log: Vec<String>,
}

/// One client of it. Faults are taken in order, one a request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    who: String,
    server: Server,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    cut_off: Arc<Mutex<bool>>,
    no_watches: Arc<Mutex<bool>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// No fault.
    Pass,
    /// The request never arrives, and no answer comes.
    Lost,
    /// It is done, and no answer comes.
    AnswerLost,
    /// It is done at once, and the answer takes this long.
    AnswerSlow(Duration),
    /// It fails with this status, and nothing is done.
    Refused(u16, Reason),
}

impl Server {
    pub(crate) fn client(&self, who: &str) -> Client {
        Client {
            who: who.into(),
            server: self.clone(),
            faults: Arc::default(),
            cut_off: Arc::default(),
            no_watches: Arc::default(),
        }
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        self.0.lock().unwrap().lease.clone()
    }

    pub(crate) fn record(&self) -> LeaderElectionRecord {
        self.lease().expect("no lease").spec.record()
    }

    pub(crate) fn holder(&self) -> String {
        self.lease().map_or("(none)".into(), |lease| lease.spec.record().holder_identity)
    }

    /// Puts a record there by hand.
    pub(crate) fn put(&self, record: &LeaderElectionRecord) {
        let mut inner = self.0.lock().unwrap();
        let mut lease = inner.lease.clone().unwrap_or_else(|| Lease::new(ObjectMeta::new(NAMESPACE, NAME), record));
        lease.spec.put(record);
        inner.store(lease);
    }

    /// Changes the lease by hand.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Lease)) {
        let mut inner = self.0.lock().unwrap();
        let mut lease = inner.lease.clone().expect("no lease");
        change(&mut lease);
        inner.store(lease);
    }

    pub(crate) fn delete(&self) {
        let mut inner = self.0.lock().unwrap();
        if let Some(lease) = inner.lease.take() {
            inner.tell(&WatchEvent::Deleted(lease));
        }
    }

    /// The requests since the last call, without their senders.
    pub(crate) fn take_verbs(&self) -> Vec<String> {
        let log = std::mem::take(&mut self.0.lock().unwrap().log);
        log.into_iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().log)
    }
}

impl Inner {
    fn store(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        let new = lease.metadata.uid.is_empty();
        if new {
            self.uids += 1;
            lease.metadata.uid = format!("uid-{}", self.uids);
        }
        lease.metadata.resource_version = self.version.to_string();
        self.lease = Some(lease.clone());
        self.tell(&if new { WatchEvent::Added(lease.clone()) } else { WatchEvent::Modified(lease.clone()) });
        lease
    }

    fn tell(&mut self, event: &WatchEvent<Lease>) {
        self.watchers.retain(|watcher| watcher.send(Ok(event.clone())).is_ok());
    }
}

impl Client {
    pub(crate) fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// From now on, all requests are lost; or no longer.
    pub(crate) fn cut_off(&self, cut_off: bool) {
        *self.cut_off.lock().unwrap() = cut_off;
    }

    /// From now on, it may not watch.
    pub(crate) fn refuse_watches(&self) {
        *self.no_watches.lock().unwrap() = true;
    }

    async fn exchange<T>(
        &self,
        verb: &str,
        act: impl FnOnce(&mut Inner) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let fault = match *self.cut_off.lock().unwrap() {
            true => Fault::Lost,
            false => self.faults.lock().unwrap().pop_front().unwrap_or(Fault::Pass),
        };
        if let Fault::Lost = fault {
            return pending().await;
        }
        let answer = {
            let mut inner = self.server.0.lock().unwrap();
            inner.log.push(format!("{} {verb}", self.who));
            if let Fault::Refused(code, reason) = fault {
                return Err(Status::failure(code, reason, "as told").into());
            }
            act(&mut inner)
        };
        match fault {
            Fault::AnswerLost => pending().await,
            Fault::AnswerSlow(delay) => tokio::time::sleep(delay).await,
            _ => {}
        }
        answer
    }
}

impl ObjectApi<Lease> for Client {
    async fn get(&self, _: &ObjectKey) -> Result<Lease, ApiError> {
        self.exchange("get", |inner| inner.lease.clone().ok_or_else(|| failure(404, Reason::NotFound))).await
    }

    async fn create(&self, lease: &Lease, _: &PostOptions) -> Result<Lease, ApiError> {
        self.exchange("create", |inner| match inner.lease {
            Some(_) => Err(failure(409, Reason::AlreadyExists)),
            None => Ok(inner.store(lease.clone())),
        })
        .await
    }

    async fn update(&self, lease: &Lease, _: &PostOptions) -> Result<Lease, ApiError> {
        assert!(!lease.metadata.uid.is_empty() && !lease.metadata.resource_version.is_empty(), "S5: a blind PUT");
        self.exchange("update", |inner| match &inner.lease {
            None => Err(failure(404, Reason::NotFound)),
            Some(old) if old.metadata.uid != lease.metadata.uid => Err(failure(409, Reason::Conflict)),
            Some(old) if old.metadata.resource_version != lease.metadata.resource_version => {
                Err(failure(409, Reason::Conflict))
            }
            Some(_) => Ok(inner.store(lease.clone())),
        })
        .await
    }

    async fn update_status(&self, _: &Lease, _: &PostOptions) -> Result<Lease, ApiError> {
        Err(failure(405, Reason::MethodNotAllowed))
    }

    async fn patch(&self, _: &ObjectKey, _: &Patch, _: &PostOptions) -> Result<Lease, ApiError> {
        panic!("an elector patches")
    }

    async fn delete(&self, _: &ObjectKey, _: &DeleteOptions) -> Result<(), ApiError> {
        panic!("an elector deletes")
    }
}

impl ObjectSource for Client {
    type Object = Lease;
    type Events = Events;

    async fn list(&self, _: &ListOptions) -> Result<List<Lease>, ApiError> {
        panic!("an elector lists")
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Events, ApiError> {
        assert_eq!(options.field_selector.exact("metadata.name"), Some(NAME));
        self.exchange("watch", |inner| {
            if *self.no_watches.lock().unwrap() {
                return Err(failure(403, Reason::Forbidden));
            }
            let (sender, receiver) = mpsc::unbounded_channel();
            if let Some(lease) = &inner.lease {
                let _ = sender.send(Ok(WatchEvent::Added(lease.clone())));
            }
            inner.watchers.push(sender);
            Ok(Events(receiver))
        })
        .await
    }
}

#[derive(Debug)]
pub(crate) struct Events(mpsc::UnboundedReceiver<Result<WatchEvent<Lease>, ApiError>>);

impl Stream for Events {
    type Item = Result<WatchEvent<Lease>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

fn failure(code: u16, reason: Reason) -> ApiError {
    Status::failure(code, reason, "").into()
}
